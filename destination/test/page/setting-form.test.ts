import { describe, expect, test } from 'vitest'
import {
  destinationFields,
  destinationForm,
  destinationSettings,
  mistakesIn,
  NO_DESTINATION,
  NO_FILTER,
  NO_SOURCE,
  NO_WEBHOOK,
  placed,
  QUOTAS,
  rebase,
  SOURCE_FIELDS,
  sourceForm,
  sourceSettings,
  tenantForm,
  tenantSettings,
  type DestinationForm,
  type Fields,
} from '../../page/setting-form.js'
import { CALL_TYPES } from '../../src/model/call.js'
import { checkDestination, checkSource } from '../../src/settings/check.js'
import { dice } from '../simulation/chance.js'

const ROUNDS = 200

type Dice = ReturnType<typeof dice>

/** Some of the values, in any order. */
const some = <Value>({ between }: Dice, values: readonly Value[]): Value[] =>
  values.filter(() => between(0, 1) === 0)

const NAMES = ['web', 'app', 'shop', 'office']

/** Settings of a destination as the admin API shows them. */
function randomSettings(chance: Dice): Fields {
  const { between, pick } = chance
  const sources = some(chance, NAMES)
  const filter = (): Fields => {
    const patterns = some(chance, ['Order *', 'Signed Up', 'a"b\\', 'ü *'])
    return {
      ...(sources.length > 0 && between(0, 1) === 0 && { sources: [pick(sources)] }),
      types: [...new Set([pick(CALL_TYPES), 'track'])],
      ...(patterns.length > 0 && { events: { [pick(['allow', 'deny'])]: patterns } }),
      ...(between(0, 1) === 0 && {
        where: { 'properties.total': { $gte: between(0, 9) }, $or: [{ userId: null }] },
      }),
    }
  }
  const filters = Array.from({ length: between(0, 3) }, filter)
  return {
    ...{ name: 'crm', sources, enabled: between(0, 1) === 0 },
    ...(between(0, 1) === 0 && { tenant: 'acme' }),
    // What no form has stays.
    ...(between(0, 1) === 0 && { ofTomorrow: true }),
    ...(filters.length > 0 && { filters }),
    webhooks: Array.from({ length: between(1, 5) }, (_, i) => ({
      url: `https://example.com/${i}${pick(['', '?•••'])}`,
      headers: Object.fromEntries(
        some(chance, ['X-Team', 'Authorization', '7', 'x_y']).map((name) => [name, '•••']),
      ),
      concurrency: between(1, 1_000),
      ...(between(0, 1) === 0 && { rateLimit: { requestsPerSecond: between(1, 100) / 10 } }),
    })),
  }
}

/** What is sent: fields that are `undefined` are left out. */
const sent = (settings: Fields): unknown => JSON.parse(JSON.stringify(settings))

describe('a form', () => {
  test('that is saved unchanged changes nothing (random)', () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const chance = dice(seed)
    for (let round = 0; round < ROUNDS; round++) {
      const settings = randomSettings(chance)
      const back = destinationSettings(destinationForm(settings), settings)
      expect(sent(back), `SEED=${seed}, round ${round}`).toEqual(settings)
      const { between } = chance
      const source = {
        ...{ name: 'web', tenant: 'acme' },
        ...(between(0, 1) === 0 && { rateLimit: { callsPerSecond: between(1, 9), burst: 12 } }),
      }
      expect(sent(sourceSettings(sourceForm(source), source)), `SEED=${seed}`).toEqual(source)
      const quotas = Object.fromEntries(some(chance, QUOTAS).map((quota) => [quota, between(1, 9)]))
      const tenant = {
        ...{ name: 'acme', portal: { editUrls: between(0, 1) === 0 } },
        ...(between(0, 1) === 0 && { title: 'Acme Ltd.' }),
        ...(Object.keys(quotas).length > 0 && { quotas }),
      }
      expect(sent(tenantSettings(tenantForm(tenant), tenant)), `SEED=${seed}`).toEqual(tenant)
    }
  })

  test('sends numbers as numbers, and leaves what is no number to the destination', () => {
    const webhook = (concurrency: string) =>
      sent(destinationSettings({ ...NO_DESTINATION, webhooks: [{ ...NO_WEBHOOK, concurrency }] }))
    expect(webhook(' 12 ')).toMatchObject({ webhooks: [{ concurrency: 12 }] })
    expect(webhook('a dozen')).toMatchObject({ webhooks: [{ concurrency: 'a dozen' }] })
    expect(webhook('')).toMatchObject({ webhooks: [{ url: '', headers: {} }] })
    const rateLimit = { callsPerSecond: '', burst: '10' }
    expect(sent(sourceSettings({ ...NO_SOURCE, rateLimit }))).toEqual({ rateLimit: { burst: 10 } })
  })

  test('sends a number that is too large for JSON as the text that it is', () => {
    const burst = '9'.repeat(400)
    const settings = sourceSettings({ ...NO_SOURCE, rateLimit: { callsPerSecond: '1', burst } })
    expect(sent(settings)).toMatchObject({ rateLimit: { callsPerSecond: 1, burst } })
  })

  test('keeps the hidden value of a header until another one is typed', () => {
    const settings = { webhooks: [{ url: 'https://a/', headers: { 'X-A': '•••', 'X-B': '•••' } }] }
    const form = destinationForm(settings)
    const [webhook = NO_WEBHOOK] = form.webhooks
    const headers = webhook.headers.map((header) =>
      header.name === 'X-A' ? { ...header, value: 'new' } : header,
    )
    // An empty row is no header.
    const blank = { name: '', value: '', keptAs: '' }
    const changed = { ...form, webhooks: [{ ...webhook, headers: [...headers, blank] }] }
    expect(destinationSettings(changed)).toMatchObject({
      webhooks: [{ headers: { 'X-A': 'new', 'X-B': '•••' } }],
    })
  })
})

describe('a mistake', () => {
  const where = (form: DestinationForm, settings: Fields) => {
    const checked = checkDestination({ name: 'crm', ...settings })
    const problems = 'problems' in checked ? checked.problems : []
    expect(problems).not.toEqual([])
    const { byField, others } = placed(problems, destinationFields(form))
    return [...Object.keys(byField), ...others.map(({ path }) => `other: ${path}`)].sort()
  }

  test('of the destination is at its field, or at the part of the form that contains it', () => {
    const header = (name: string) => ({ name, value: 'x', keptAs: '' })
    const form = {
      ...{ name: 'crm', tenant: 'no one', sources: ['web'] },
      webhooks: [
        { ...NO_WEBHOOK, url: 'x', requestsPerSecond: 'no', concurrency: '0' },
        { ...NO_WEBHOOK, url: 'https://a/', headers: [header('Host'), header('x_a y')] },
      ],
      filters: [
        NO_FILTER,
        { ...NO_FILTER, types: ['page'], deny: 'a' },
        { ...NO_FILTER, sources: ['app'], allow: ' a\nb', deny: 'c\nc', where: '{"x":1}' },
      ],
    }
    expect(where(form, destinationSettings(form))).toEqual([
      'filters[0]',
      'filters[1]',
      'filters[2].events.allow',
      'filters[2].events.deny',
      'filters[2].sources',
      'filters[2].where',
      'tenant',
      'webhooks[0].concurrency',
      'webhooks[0].rateLimit',
      'webhooks[0].url',
      'webhooks[1].headers#0',
      'webhooks[1].headers#1',
    ])
  })

  test('without a field is shown above the form', () => {
    expect(where(NO_DESTINATION, { sources: [], webhooks: [], tenant: 7, x: 1 })).toEqual([
      ...['other: x', 'tenant', 'webhooks'],
    ])
    const checked = checkSource({ name: 'web', rateLimit: { callsPerSecond: 0, burst: 'x' } })
    const problems = 'problems' in checked ? checked.problems : []
    expect(Object.keys(placed(problems, SOURCE_FIELDS).byField).sort()).toEqual([
      ...['rateLimit.burst', 'rateLimit.callsPerSecond', 'writeKey'],
    ])
  })

  test('in a header is at its value if that is not shown, and has to be entered again', () => {
    const form = destinationForm({
      webhooks: [{ url: 'https://a/', headers: { 'X-A': '•••', 'X-B': '•••' } }],
    })
    const [webhook = NO_WEBHOOK] = form.webhooks
    const wrong = (changes: Partial<typeof webhook>) => {
      const webhooks = [{ ...webhook, ...changes }]
      return mistakesIn({ webhooks, filters: [] }).map(({ path }) => path)
    }
    const [first, second] = ['webhooks[0].headers#0.value', 'webhooks[0].headers#1.value']
    expect(wrong({ url: ' https://a/ ' })).toEqual([])
    expect(wrong({ url: 'https://b/' })).toEqual([first, second])
    const [a, b] = webhook.headers
    if (!a || !b) expect.unreachable()
    expect(wrong({ headers: [{ ...a, name: 'X-C' }, b] })).toEqual([first])
    expect(wrong({ url: 'https://b/', headers: [{ ...a, value: 'new' }, b] })).toEqual([second])
    // The destination reports both at the same path.
    const path = 'webhooks[0].headers["X-A"]'
    const field = (form: DestinationForm) =>
      Object.keys(placed([{ path, message: '' }], destinationFields(form)).byField)
    expect(field(form)).toEqual([first])
    const typed = { ...webhook, headers: [{ ...a, value: 'new' }, b] }
    expect(field({ ...form, webhooks: [typed] })).toEqual(['webhooks[0].headers#0'])
  })

  test('that would not reach the destination is found on the page: broken JSON, and a header twice', () => {
    const header = (name: string) => ({ name, value: '', keptAs: '' })
    const headers = [header('A'), header(''), header('B'), header('A'), header('')]
    const filters = [NO_FILTER, { ...NO_FILTER, where: '{' }, { ...NO_FILTER, where: '{}' }]
    const found = mistakesIn({ webhooks: [NO_WEBHOOK, { ...NO_WEBHOOK, headers }], filters })
    expect(found.map(({ path }) => path)).toEqual(['webhooks[1].headers#3', 'filters[1].where'])
  })

  const twice = 'this field occurs twice in the same object. Remove one of the two.'
  test.each([
    [
      '{ "properties.total": { "$gte": 100 }, "properties.total": { "$lt": 9 } }',
      [`"properties.total": ${twice}`],
    ],
    ['{ "properties.a": { "$lt": 2, "\\u0024lt": 1 } }', [`"$lt": ${twice}`]],
    [
      '{ "$or": [{ "event": "a", "event": "b" }, { "type": 1e400 }] }',
      [`"event": ${twice}`, '"type": expected a number, got 1e400, which is Infinity.'],
    ],
    [
      '{ "properties.a": { "$in": [1, -1E999] } }',
      ['"$in": expected a number, got -1E999, which is Infinity.'],
    ],
    ['{ "$and": [{ "properties.a": 1e308 }, { "properties.a": "1e400" }] }', []],
  ])('in a condition that would be saved as another one is found: %s', (where, messages) => {
    const found = mistakesIn({ webhooks: [], filters: [{ ...NO_FILTER, where }] })
    expect(found).toEqual(messages.map((message) => ({ path: 'filters[0].where', message })))
  })
})

test('nothing that was typed is lost when somebody else has saved another version (random)', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const { between } = dice(seed)
  const names = ['a', 'b', 'c'] as const
  type Form = Record<(typeof names)[number], number[]>
  const changed = (form: Form): Form => {
    const entries = names.map((name) => [name, between(0, 1) === 0 ? form[name] : [between(0, 2)]])
    return Object.fromEntries(entries) as Form
  }
  for (let round = 0; round < ROUNDS; round++) {
    const before = changed({ a: [], b: [], c: [] })
    const [mine, theirs] = [changed(before), changed(before)]
    const { form, clashes } = rebase(before, mine, theirs)
    for (const name of names) {
      const at = `SEED=${seed}, round ${round}, ${name}`
      const [was, typed, saved] = [before, mine, theirs].map((one) => String(one[name]))
      const isTyped = typed !== was
      expect(String(form[name]), at).toBe(isTyped ? typed : saved)
      expect(clashes.includes(name), at).toBe(isTyped && saved !== was && saved !== typed)
    }
  }
})
