// All settings of the store at once: what `GET /v1/admin/settings` shows, and what `POST` makes of it.
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { AppliedChange, SettingsApplied, SettingsExport } from '../../src/model/answers.js'
import { KEY, endpoint, post, settingsFor, start, track, type Later } from '../run.js'
import { ask, SETTINGS_KEY } from './api.js'
import { rounds } from '../rounds.js'

const later: (() => unknown)[] = []
const atTheEnd: Later = (cleanUp) => later.unshift(cleanUp)
afterAll(async () => {
  for (const cleanUp of later) await cleanUp()
})

const startOne = () =>
  start(settingsFor([], { settingsKeys: [SETTINGS_KEY] }, atTheEnd), undefined, atTheEnd)

type Lists = Partial<SettingsExport['settings']>
interface How {
  prune?: boolean
  dryRun?: boolean
  waiting?: 'keep' | 'discard'
}

async function apply(at: RunningDestination, settings: object, how: How = {}, match?: string) {
  const headers = match === undefined ? {} : { 'If-Match': `"${match}"` }
  const { status, body } = await ask(at, 'POST', '/settings', { settings, ...how }, headers)
  const answer = body as unknown as SettingsApplied
  return { status, error: body.error, ...answer }
}

async function exportOf(at: RunningDestination): Promise<SettingsExport> {
  const { etag, body } = await ask(at, 'GET', '/settings')
  const all = body as unknown as SettingsExport
  expect(etag).toBe(`"${all.revision}"`)
  return all
}

const clear = (at: RunningDestination) => apply(at, NOTHING, { prune: true, waiting: 'discard' })

const NOTHING = { tenants: [], sources: [], destinations: [] }

const NAMES = ['a', 'b', 'c', 'd']
const TENANTS = ['north', 'south']
/** Whose something is follows from its name, so that it never changes while others rely on it. */
const tenantOf = (name: string) => TENANTS[['a', 'b'].includes(name) ? 0 : name === 'c' ? 1 : 2]
const owned = (name: string) => (tenantOf(name) ? { tenant: tenantOf(name) } : {})
const text = fc.string({
  minLength: 1,
  maxLength: 5,
  unit: fc.constantFrom('$', '{', '}', 'x', 'é'),
})

const source = fc.record({
  name: fc.constantFrom(...NAMES),
  limit: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
})
const sourceOf = ({ name, limit }: { name: string; limit: number | undefined }) => ({
  name,
  ...owned(name),
  ...(limit && { rateLimit: { callsPerSecond: limit } }),
})

const target = fc.record(
  {
    name: fc.constantFrom(...NAMES),
    sources: fc.subarray([...NAMES, 'web']),
    enabled: fc.boolean(),
    sharedSecret: fc.constantFrom(null, 'a-secret', ['old', 'new']),
    webhooks: fc.uniqueArray(
      fc.record({
        url: fc.constantFrom('https://a.example.com/', 'https://b.example.com/x?key=1'),
        headers: fc.dictionary(fc.constantFrom('X-A', 'X-B'), fc.constantFrom('1', '2')),
        concurrency: fc.integer({ min: 1, max: 3 }),
      }),
      { minLength: 1, maxLength: 2, selector: ({ url }) => url },
    ),
    filters: fc.array(fc.record({ where: fc.record({ 'properties.plan': text }) }), {
      maxLength: 1,
    }),
  },
  { requiredKeys: ['name', 'sources', 'webhooks'] },
)

const byName = { selector: ({ name }: { name: string }) => name, maxLength: 4 }
const lists = fc.record({
  tenants: fc.tuple(...TENANTS.map((name) => fc.record({ name: fc.constant(name), title: text }))),
  sources: fc.uniqueArray(source, byName).map((all) => all.map(sourceOf)),
  destinations: fc.uniqueArray(target, byName),
})
type Wanted = typeof lists extends fc.Arbitrary<infer L> ? L : never

/** As a person would write it: without sources that there are not, or that are of another tenant. */
const fitting = lists.map(({ tenants, sources, destinations }): Wanted => {
  const known = new Set(['web', ...sources.map(({ name }) => name)])
  const fit = ({ name, sources: all }: Wanted['destinations'][number]) => ({
    ...owned(name),
    sources: all.filter(
      (one) => known.has(one) && [undefined, tenantOf(one)].includes(tenantOf(name)),
    ),
  })
  return {
    tenants,
    sources,
    destinations: destinations.map((one) => ({ ...one, ...fit(one) })),
  }
})

// fast-check prints the seed and the path of a failure: give them to `fc.assert` to see it again.
describe.concurrent('random settings', () => {
  test('are the same after an export and its return', { tags: 'long' }, async () => {
    const [one, other] = await Promise.all([startOne(), startOne()])
    await fc.assert(
      fc.asyncProperty(fitting, async (wanted) => {
        await Promise.all([clear(one), clear(other)])
        expect(await apply(one, wanted)).toMatchObject({ status: 200 })
        const exported = await exportOf(one)
        for (const prune of [false, true]) {
          const again = await apply(one, exported.settings, { prune }, exported.revision)
          expect(again).toMatchObject({ status: 200, changes: [], revision: exported.revision })
        }
        expect(await apply(one, wanted, { prune: true })).toMatchObject({ changes: [] })
        expect(await exportOf(one)).toEqual(exported)
        const isKnown = !['key=1', '"X-'].some((hidden) => JSON.stringify(wanted).includes(hidden))
        // In another store, what is hidden is not known. Secrets are generated, and values of headers cannot be.
        const moved = await apply(other, exported.settings)
        if (isKnown) {
          expect(moved).toMatchObject({ status: 200 })
          expect((await exportOf(other)).settings).toEqual(exported.settings)
        } else {
          expect(moved.status).toBe(400)
          expect((await exportOf(other)).settings).toEqual(NOTHING)
        }
      }),
      { numRuns: rounds(8) },
    )
  })

  test(
    'are those of the same changes one by one, and a dry run tells them before',
    { tags: 'long' },
    async () => {
      const [one, other] = await Promise.all([startOne(), startOne()])
      await fc.assert(
        fc.asyncProperty(fitting, fitting, fc.boolean(), async (first, then, prune) => {
          for (const each of [one, other]) {
            await clear(each)
            await apply(each, withKeys(first))
          }
          const before = await exportOf(one)
          const all = {
            tenants: then.tenants,
            sources: [...first.sources, ...then.sources],
            destinations: [...first.destinations, ...then.destinations],
          }
          const wanted = prune ? then : all
          const planned = await apply(one, withKeys(then), { prune, dryRun: true })
          expect(planned).toMatchObject({ status: 200, dryRun: true, revision: before.revision })
          expect(await exportOf(one)).toEqual(before)
          const made = await apply(one, withKeys(then), { prune }, planned.revision)
          expect(made.changes).toEqual(planned.changes)
          for (const { kind, name, action } of inOrder(made.changes)) {
            const path = `/${kind}s/${name}`
            const raw = withKeys(then)[`${kind}s`].find((each) => each.name === name)
            const { status } = await (action === 'delete'
              ? ask(other, 'DELETE', path)
              : ask(other, 'PUT', path, raw))
            expect(status).toBe(action === 'create' ? 201 : 200)
          }
          const after = await exportOf(one)
          expect(after.settings).toEqual((await exportOf(other)).settings)
          expect(made.revision).toBe(after.revision)
          expect(namesIn(after.settings)).toEqual(namesIn(wanted))
        }),
        { numRuns: rounds(8) },
      )
    },
  )

  test('with a mistake change nothing, and every mistake is told', { tags: 'long' }, async () => {
    const one = await startOne()
    const mistake = fc.constantFrom(
      ['sources', { name: 'no name' }, 'name'],
      ['sources', { name: 'web' }, 'name'],
      ['sources', { name: 'e', writeKey: KEY }, 'writeKey'],
      ['sources', { name: 'e', rateLimits: {} }, 'rateLimits'],
      ['sources', { name: 'e', tenant: 'west' }, 'tenant'],
      ['tenants', { name: 'e', quota: {} }, 'quota'],
      [
        'destinations',
        { name: 'e', tenant: 'north', sources: ['web'], webhooks: [{ url: 'https://e.example/' }] },
        'sources[0]',
      ],
      ['sources', 'e', ''],
      [
        'destinations',
        { name: 'e', sources: ['none'], webhooks: [{ url: 'https://e.example/' }] },
        'sources[0]',
      ],
      [
        'destinations',
        { name: 'e', sources: [], webhooks: [{ url: 'http://10.0.0.1/' }] },
        'webhooks[0].url',
      ],
      [
        'destinations',
        { name: 'e', sources: [], webhooks: [{ url: 'https://e.example/?•••' }] },
        'webhooks[0].url',
      ],
      ['destinations', { name: 'e', sources: [] }, 'webhooks'],
    ) as fc.Arbitrary<['tenants' | 'sources' | 'destinations', object, string]>
    await fc.assert(
      fc.asyncProperty(fitting, fitting, fc.array(mistake, { minLength: 1 }), async (...given) => {
        const [first, then, mistakes] = given
        await clear(one)
        await apply(one, first)
        const before = await exportOf(one)
        const wrong: Record<string, unknown[]> = {
          tenants: [...then.tenants],
          sources: [...then.sources],
          destinations: [...then.destinations],
        }
        const expected = mistakes.map(([list, raw, path]) => {
          const index = (wrong[list]?.push(raw) ?? 0) - 1
          const name = (raw as { name?: string }).name
          const isSecond =
            name !== undefined &&
            wrong[list]?.slice(0, -1).some((each) => (each as { name?: string }).name === name)
          // A name that comes again is told, and nothing else of that element.
          const at = isSecond === true && name !== 'web' ? 'name' : path
          return `${list}[${index}]${at === '' ? '' : `.${at}`}`
        })
        const refused = await apply(one, wrong, { prune: true })
        expect(refused).toMatchObject({ status: 400, error: { code: 'invalid_settings' } })
        expect(refused.error.problems?.map(({ path }) => path)).toEqual(
          expect.arrayContaining(expected),
        )
        expect(await exportOf(one)).toEqual(before)
      }),
      { numRuns: rounds(8) },
    )
  })

  test(
    'of several people at once never replace a change that nobody has seen',
    { tags: 'long' },
    async () => {
      const one = await startOne()
      const limit = (callsPerSecond: number) => ({ name: 'a', rateLimit: { callsPerSecond } })
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.boolean(), { minLength: 2, maxLength: 6 }),
          async (areSingle) => {
            await clear(one)
            const { revision } = await apply(one, { sources: [{ name: 'a' }] })
            const { etag } = await ask(one, 'GET', '/sources/a')
            const answers = await Promise.all(
              areSingle.map((isSingle, i) =>
                isSingle
                  ? ask(one, 'PATCH', '/sources/a', limit(i + 1), { 'If-Match': etag ?? '' })
                  : apply(one, { sources: [limit(i + 1)] }, {}, revision),
              ),
            )
            const winners = answers.flatMap(({ status }, i) => (status === 200 ? [i + 1] : []))
            expect(winners).toHaveLength(1)
            expect(answers.filter(({ status }) => status === 412)).toHaveLength(
              areSingle.length - 1,
            )
            const { body } = await ask(one, 'GET', '/sources/a')
            expect(body.settings).toMatchObject(limit(winners[0] ?? 0))
          },
        ),
        { numRuns: rounds(6) },
      )
    },
  )
})

/** Gives each source a key of its own, so that two stores have the same secrets. */
function withKeys({ tenants, sources, destinations }: Wanted) {
  const withKey = sources.map((one) => ({ ...one, writeKey: `key-${one.name}` }))
  return {
    tenants,
    sources: withKey,
    destinations: destinations.map((one) => ({ sharedSecret: 's', ...one })),
  }
}

/** The changes in an order in which each of them is allowed by itself. */
function inOrder(changes: readonly AppliedChange[]): AppliedChange[] {
  const kinds = ['tenant', 'source', 'destination']
  const rank = ({ kind, action }: AppliedChange) =>
    action === 'delete' ? 6 - kinds.indexOf(kind) : kinds.indexOf(kind)
  return changes.toSorted((a, b) => rank(a) - rank(b))
}

function namesIn({ tenants = [], sources = [], destinations = [] }: Lists) {
  const sorted = (all: readonly object[]) => all.map((one) => (one as { name: string }).name).sort()
  return {
    tenants: sorted(tenants),
    sources: [...new Set(sorted(sources))],
    destinations: [...new Set(sorted(destinations))],
  }
}

test('two sources exchange their write keys, which is impossible one by one', async () => {
  const one = await startOne()
  const keys = (a: string, b: string) => ({
    sources: [
      { name: 'a', writeKey: a },
      { name: 'b', writeKey: b },
    ],
  })
  await apply(one, keys('k1', 'k2'))
  const taken = await ask(one, 'PATCH', '/sources/a', { writeKey: 'k2' })
  expect(taken).toMatchObject({ status: 400, body: { error: { code: 'invalid_settings' } } })
  expect(await apply(one, keys('k2', 'k2'))).toMatchObject({
    status: 400,
    error: { problems: [{ path: 'sources[1].writeKey' }] },
  })
  const audit = await ask(one, 'GET', '/audit?limit=2')
  expect(await apply(one, keys('k2', 'k1'))).toMatchObject({ status: 200, same: 0 })
  for (const key of ['k1', 'k2']) expect((await post(one, [track('m')], key)).status).toBe(200)
  const after = await ask(one, 'GET', '/audit?limit=2')
  expect(after.body.entries.map(({ name }) => name).sort()).toEqual(['a', 'b'])
  expect(after.body.entries).not.toEqual(audit.body.entries)
})

test('what a list lacks is deleted only with prune, and messages that wait for it only if that is chosen', async () => {
  const crm = await endpoint(503)
  const one = await startOne()
  const webhooks = [{ url: crm.url }]
  const destinations = [
    { name: 'crm', sources: ['web'], webhooks },
    { name: 'new', sources: ['app'], webhooks },
  ]
  const { changes } = await apply(one, { sources: [{ name: 'app' }], destinations })
  expect(changes.map(({ name, generated }) => [name, Object.keys(generated)])).toEqual([
    ['app', ['writeKey']],
    ['crm', ['sharedSecret']],
    ['new', ['sharedSecret']],
  ])
  const writeKey = changes[0]?.generated['writeKey']
  expect((await post(one, [track('m2')], writeKey)).status).toBe(200)
  await post(one, [track('m1')])
  await crm.has(2)
  expect(await apply(one, { destinations: [] })).toMatchObject({ status: 200, changes: [] })
  expect(await apply(one, { sources: [] }, { prune: true })).toMatchObject({
    status: 409,
    error: { code: 'source_in_use' },
  })
  const none = { sources: [], destinations: [] }
  expect(await apply(one, none, { prune: true, dryRun: true })).toMatchObject({
    status: 200,
    changes: [
      { kind: 'source', name: 'app', action: 'delete', waiting: 0 },
      { kind: 'destination', name: 'crm', action: 'delete', waiting: 1 },
      { kind: 'destination', name: 'new', action: 'delete', waiting: 1 },
    ],
  })
  expect(await apply(one, none, { prune: true })).toMatchObject({
    status: 409,
    error: { code: 'messages_waiting', waiting: 2 },
  })
  const kept = [destinations[1]]
  const pruned = await apply(one, { destinations: kept }, { prune: true, waiting: 'discard' })
  expect(pruned).toMatchObject({ status: 200, discarded: 1, changes: [{ name: 'crm' }] })
  expect(await apply(one, none, { prune: true, waiting: 'keep' })).toMatchObject({ discarded: 0 })
  expect(await ask(one, 'DELETE', '/destinations/new?waiting=discard')).toMatchObject({
    status: 200,
    body: { discarded: 1 },
  })
})

test('a tenant comes with what belongs to it, and goes only with it', async () => {
  const one = await startOne()
  const webhooks = [{ url: 'https://crm.example.com/' }]
  const of = (tenant: string) => ({
    tenants: [{ name: tenant }],
    sources: [{ name: 'app', tenant }],
    destinations: [{ name: `${tenant}-crm`, tenant, sources: ['app'], webhooks }],
  })
  expect(await apply(one, of('north'))).toMatchObject({ status: 200 })
  expect(await apply(one, { tenants: [] }, { prune: true })).toMatchObject({
    status: 409,
    error: { code: 'tenant_in_use' },
  })
  const { tenants, sources } = of('south')
  expect(await apply(one, { tenants, sources })).toMatchObject({
    status: 400,
    error: { problems: [{ path: 'sources[0].tenant' }] },
  })
  const moved = await apply(one, of('south'), { prune: true })
  expect(moved.changes.map(({ kind, name, action }) => [kind, name, action])).toEqual(
    expect.arrayContaining([
      ['tenant', 'north', 'delete'],
      ['tenant', 'south', 'create'],
      ['source', 'app', 'update'],
      ['destination', 'north-crm', 'delete'],
      ['destination', 'south-crm', 'create'],
    ]),
  )
  expect(await apply(one, NOTHING, { prune: true })).toMatchObject({ status: 200 })
})
