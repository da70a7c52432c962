import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { checkSettings } from '../../src/settings/check.js'
import { describeSettings } from '../../src/settings/describe.js'

const sources = ['web', 'app', 'other'].map((name) => ({ name, writeKey: `${name}-key` }))

function check(filters: unknown, env: Record<string, string> = {}) {
  const webhooks = [{ url: 'https://a.example.com/hook' }]
  const destination = { name: 'crm', sources: ['web', 'app'], filters, webhooks }
  return checkSettings({ sources, destinations: [destination] }, env, '/')
}

function problemsOf(filters: unknown): string[] {
  const checked = check(filters)
  if ('settings' in checked) return []
  return checked.problems.map(
    ({ path, message }) => `${path.replace('destinations[0].', '')}: ${message}`,
  )
}

/** The problems of a single filter. */
const problemsWith = (filter: unknown): string[] =>
  problemsOf([filter]).map((text) => text.replace(/^filters\[0\]\.?/, ''))

/** The problems of a condition. */
const problemsWhere = (where: unknown): string[] =>
  problemsWith({ where }).map((text) => text.replace(/^where\.?/, ''))

function nested(levels: number): object {
  let where: object = { event: 'E' }
  for (let level = 0; level < levels; level++) where = { $and: [where] }
  return where
}

test('every part of a filter is taken, and described as it is', () => {
  const filters = [
    { sources: ['web'], events: { allow: ['Order *', 'Signed Up'], deny: ['Order Viewed'] } },
    {
      types: ['track', 'identify', 'page', 'screen', 'group', 'alias'],
      where: {
        type: { $ne: 'alias' },
        event: { $in: ['Order Completed', null] },
        'properties.total': { $gte: 100, $lt: 1e6 },
        'properties.at': { $gt: '2026-01-01', $lte: '2026-12-31' },
        'context.app.name': 'shop',
        'traits.email': { $not: { $like: '*@example.com' } },
        $or: [{ 'properties.vip': true }, { $and: [{ 'properties.coupon': { $exists: false } }] }],
        'properties.id': { $nin: ['test', 7, false] },
        groupId: { $eq: 'g' },
      },
    },
  ]
  const checked = check(filters)
  if ('problems' in checked) throw new Error(JSON.stringify(checked.problems))
  expect(checked.settings.destinations[0]?.filters).toEqual(filters)
  expect(describeSettings(checked.settings).destinations[0]?.filters).toEqual(filters)
})

test('no filters may be written as an empty list', () => {
  expect(problemsOf([])).toEqual([])
  expect(problemsOf(undefined)).toEqual([])
})

test('an environment variable may be in a pattern and in a condition', () => {
  const checked = check([{ events: { deny: ['${A} *'] }, where: { 'traits.plan': '${A}' } }], {
    A: 'Test',
  })
  expect(checked).toMatchObject({
    settings: {
      destinations: [
        { filters: [{ events: { deny: ['Test *'] }, where: { 'traits.plan': 'Test' } }] },
      ],
    },
  })
})

describe('a filter', () => {
  test.each<[unknown, string[]]>([
    [
      {},
      [
        ': expected at least one of types, events and where. Without them, the filter does nothing.',
      ],
    ],
    [
      { sources: ['web'] },
      [
        ': expected at least one of types, events and where. Without them, the filter does nothing.',
      ],
    ],
    ['x', [': expected an object with named fields, got "x".']],
    [
      { type: ['track'] },
      expect.arrayContaining(['type: there is no such field. Did you mean types?']) as string[],
    ],
    [
      { types: ['track'], events: { allows: ['a'] } },
      expect.arrayContaining([
        'events.allows: there is no such field. Did you mean allow?',
      ]) as string[],
    ],
    [
      { types: ['track'], sources: ['wep'] },
      ['sources[0]: expected one of the sources of the destination ("web", "app"), got "wep".'],
    ],
    [
      { types: ['track'], sources: ['other'] },
      ['sources[0]: expected one of the sources of the destination ("web", "app"), got "other".'],
    ],
    [
      { types: ['track'], sources: ['web', 'web'] },
      [
        'sources[1]: is the same source as destinations[0].filters[0].sources[0]. Change or remove one of the two.',
      ],
    ],
    [
      { types: ['track'], sources: [] },
      ['sources: expected a list of at least one source name, got an empty list.'],
    ],
    [
      { types: [] },
      [
        'types: expected a list of at least one type of call (identify, track, page, screen, group, alias), got an empty list.',
      ],
    ],
    [
      { types: ['trak', 'delete', 'Page', 7] },
      [
        'types[0]: expected one of identify, track, page, screen, group, alias, got "trak". Did you mean track?',
        'types[1]: a delete message is not a call, and is never filtered. Remove it.',
        'types[2]: expected one of identify, track, page, screen, group, alias, got "Page". Did you mean page?',
        'types[3]: expected one of identify, track, page, screen, group, alias, got 7.',
      ],
    ],
    [{ types: ['track', 'track'] }, ['types[1]: is the same as [0]. Remove one of the two.']],
    [{ events: {} }, ['events: expected allow, deny or both.']],
    [
      { events: { allow: [] } },
      [
        'events.allow: expected a list of 1 to 1,000 names of events, such as ["Order *"], got an empty list.',
      ],
    ],
    [
      { events: { deny: 'Order *' } },
      [
        'events.deny: expected a list of 1 to 1,000 names of events, such as ["Order *"], got "Order *".',
      ],
    ],
    [
      { events: { deny: ['', 'x'.repeat(201), ' a', 'a\0', 'b', 'b'] } },
      [
        'events.deny[0]: expected a text of 1 to 200 characters, in which * stands for any text, got an empty string.',
        `events.deny[1]: expected a text of 1 to 200 characters, in which * stands for any text, got "${'x'.repeat(60)}"… (201 characters).`,
        'events.deny[2]: expected no white space at the start or the end, got " a". Remove it, or write a * in its place.',
        'events.deny[3]: expected a text without control characters, got "a\\u0000".',
        'events.deny[5]: is the same as [4]. Remove one of the two.',
      ],
    ],
    [
      { types: ['identify'], events: { deny: ['a'] } },
      [
        'events: has no effect, because types does not have "track", and only track calls have an event. Remove one of the two.',
      ],
    ],
    [
      { events: { allow: ['Order Viewed', 'Order * Viewed'], deny: ['x', 'Order *'] } },
      [
        'events.deny: denies everything that allow allows, so no event passes. To stop all track calls, leave "track" out of types.',
      ],
    ],
    [
      { events: { deny: ['*'] } },
      [
        'events.deny: denies everything that there is, so no event passes. To stop all track calls, leave "track" out of types.',
      ],
    ],
    [{ events: { allow: ['Order *'], deny: ['Order Viewed'] } }, []],
    [
      { where: [] },
      expect.arrayContaining([expect.stringMatching(/^where: expected an object/)]) as string[],
    ],
  ])('%j: %j', (filter, problems) => {
    expect(problemsWith(filter)).toEqual(problems)
  })
})

describe('a condition', () => {
  test.each<[unknown, string]>([
    [
      {},
      ': expected an object of fields and conditions, such as { "properties.total": { "$gte": 100 } }, got an object.',
    ],
    [{ propertys: { total: 1 } }, 'propertys: there is no such field. Did you mean properties?'],
    [
      { 'propertys.total': 1 },
      '["propertys.total"]: there is no such field. Did you mean properties.total?',
    ],
    [
      { total: 1 },
      'total: there is no such field. The fields are type, event, name, category, userId, anonymousId, groupId, previousId, and what is in properties, traits, context, such as properties.total.',
    ],
    [
      { properties: { total: 1 } },
      'properties: expected a field in it, such as "properties.plan".',
    ],
    [
      { 'properties..a': 1 },
      '["properties..a"]: expected names that are joined by dots, such as "properties.plan", without control characters and with at most 200 characters.',
    ],
    [
      { $where: 'sleep(1000)' },
      '$where: there is no such operator here. Operators for a field are in the object behind its name; those for conditions are $and and $or.',
    ],
    [{ $an: [] }, '$an: there is no such operator here. Did you mean $and?'],
    [
      { $or: {} },
      '$or: expected a list of at least one object of fields and conditions, got an object.',
    ],
    [
      { $or: [] },
      '$or: expected a list of at least one object of fields and conditions, got an empty list.',
    ],
    [
      { $or: [{ event: 'E' }, { tipe: 'track' }] },
      '$or[1].tipe: there is no such field. Did you mean type?',
    ],
    [
      { 'properties.a': [1, 2] },
      '["properties.a"]: expected one value, or operators. For one of several values, write { "$in": […] }.',
    ],
    [
      { 'properties.a': { b: 1 } },
      '["properties.a"].b: there is no such operator. The operators are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $like, $not.',
    ],
    [
      { 'properties.a': { $regex: '(a+)+$' } },
      '["properties.a"].$regex: there is no such operator. The operators are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $like, $not.',
    ],
    [
      { 'properties.a': { $gtt: 1 } },
      '["properties.a"].$gtt: there is no such operator. Did you mean $gt?',
    ],
    [
      { 'properties.a': {} },
      '["properties.a"]: expected at least one operator ($eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $like, $not), got an object.',
    ],
    [
      { 'properties.a': { $gte: '100' } },
      '["properties.a"].$gte: expected a number without quotes, got "100". A text is only compared with texts, letter by letter.',
    ],
    [
      { 'properties.a': { $lt: true } },
      '["properties.a"].$lt: expected a number or a text, got true.',
    ],
    [
      { 'properties.a': { $gt: 5, $lt: 3 } },
      '["properties.a"].$lt: expected a value above that of $gt: no single value is in this range. For two elements of a list, write two conditions in $and.',
    ],
    [
      { 'properties.a': { $gte: 5, $lt: 5 } },
      '["properties.a"].$lt: expected a value above that of $gte: no single value is in this range. For two elements of a list, write two conditions in $and.',
    ],
    [
      { 'properties.a': { $gt: 'a', $lt: 5 } },
      '["properties.a"].$lt: expected a text as in $gt, got 5: no single value is in this range. For two elements of a list, write two conditions in $and.',
    ],
    ...[
      { $like: 'zz*' },
      { $exists: false },
      { $nin: ['identify', 'track', 'page', 'screen', 'group', 'alias'] },
      { $not: { $like: '*' } },
      { $ne: 'track', $like: 'tr*' },
    ].map((type): [unknown, string] => [
      { $or: [{ event: 'E' }, { type }] },
      '$or[1].type: no call has such a type, so none would pass. The types are identify, track, page, screen, group, alias.',
    ]),
    ...['userId', 'event'].map((field): [unknown, string] => [
      { [field]: { $in: ['a', ''] } },
      `${field}.$in[1]: an empty ${field} counts as left out. For calls without it, write null.`,
    ]),
    ...[
      ['userId', { userId: 5 }],
      ['groupId', { groupId: 5 }],
      ['event', { event: { $ne: 5 } }, '.$ne'],
      ['name', { name: { $not: { $lt: 5 } } }, '.$not.$lt'],
      ['anonymousId', { anonymousId: { $in: ['5', null, 5] } }, '.$in[2]'],
    ].map(([field, where, place = '']): [unknown, string] => [
      where,
      `${field as string}${place as string}: expected a text in quotes, got 5. The ${field as string} of a call is always a text${(field as string).endsWith('Id') ? ', also if a number was sent' : ''}.`,
    ]),
    [
      { 'properties.a': { $in: [] } },
      '["properties.a"].$in: expected a list of 1 to 1,000 values, got an empty list.',
    ],
    [
      { 'properties.a': { $in: [{}] } },
      '["properties.a"].$in[0]: expected a text, a number, true, false or null, got an object.',
    ],
    [
      { 'properties.a': { $exists: 'yes' } },
      '["properties.a"].$exists: expected true or false, got "yes".',
    ],
    [
      { 'properties.a': { $like: '' } },
      '["properties.a"].$like: expected a text of 1 to 200 characters, in which * stands for any text, got an empty string.',
    ],
    [
      { 'properties.a': { $not: 3 } },
      '["properties.a"].$not: expected operators, such as { "$gt": 100 }, got 3.',
    ],
    [
      { 'properties.a': { $not: { $gt: null } } },
      '["properties.a"].$not.$gt: expected a number or a text, got null.',
    ],
    [
      { type: 'trak' },
      'type: expected one of identify, track, page, screen, group, alias, got "trak". Did you mean track?',
    ],
    [
      { type: { $in: ['page', 'tracks'] } },
      'type.$in[1]: expected one of identify, track, page, screen, group, alias, got "tracks". Did you mean track?',
    ],
  ])('%j is refused', (where, problem) => {
    expect(problemsWhere(where)).toEqual([problem])
  })

  test('may be about a field with any name, also one that JavaScript knows', () => {
    for (const name of ['length', 'constructor.name', '__proto__', 'at', '0']) {
      expect(problemsWhere({ [`properties.${name}`]: { $gt: 10 } })).toEqual([])
    }
  })

  test('that is nested too deeply is refused, however deep it is', () => {
    expect(problemsWhere(nested(8))).toEqual([])
    const tooDeep = expect.stringMatching(/nested at most 8 levels deep\.$/) as string
    expect(problemsWhere(nested(9))).toEqual([tooDeep])
    expect(problemsWhere(nested(1_000))).toEqual([tooDeep])
    let not: object = { $gt: 1 }
    for (let level = 0; level < 9; level++) not = { $not: not }
    expect(problemsWhere({ 'properties.a': not })).toEqual([tooDeep])
  })
})

describe('docs/filters.md', () => {
  const page = readFileSync(new URL('../../../docs/filters.md', import.meta.url), 'utf8')
  const blocksOf = (language: string) =>
    Array.from(
      page.matchAll(new RegExp(`\\n\`\`\`${language}\\n([^]*?)\\n\`\`\``, 'g')),
      ([, block = '']) => block,
    )

  test('has examples that are right', () => {
    const [example = '', condition = ''] = blocksOf('json')
    const { filters } = JSON.parse(example) as { filters: unknown }
    expect(problemsOf(filters)).toEqual([])
    expect(problemsOf([JSON.parse(condition)])).toEqual([])
  })

  test('quotes problems word for word', () => {
    const given = [
      { events: { allow: ['Order Viewed'], deny: ['Order *'] } },
      { where: { 'propertys.total': 1 } },
    ]
    const problems = given.flatMap((filter) => problemsOf([filter]))
    const [quoted = ''] = blocksOf('text')
    expect(quoted.split('\n').map((line) => line.replace('destinations[0].', ''))).toEqual(problems)
  })
})
