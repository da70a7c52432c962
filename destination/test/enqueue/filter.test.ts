// The filters of destinations. The randomised test plays many destinations, filters and calls against a naive oracle.
// fast-check prints the seed and the path of a failure: give them to `fc.assert` to see it again.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compileFilters } from '../../src/enqueue/filter.js'
import { route, routesOf } from '../../src/enqueue/route.js'
import { CALL_TYPES, type Call } from '../../src/model/call.js'
import { checkSettings } from '../../src/settings/check.js'
import type { CallFilter, Settings, Where } from '../../src/settings/settings.js'

const call = (fields: Partial<Call> = {}): Call => ({
  type: 'track',
  messageId: 'm',
  timestamp: '2026-01-02T03:04:05.678Z',
  userId: 'u1',
  event: 'Order Completed',
  ...fields,
})

const reasonOf = (filters: CallFilter[], given: Call, source = 'web') =>
  compileFilters(filters)(source, given)?.reason

describe('a call', () => {
  test.each<[CallFilter, Partial<Call>, string | undefined]>([
    [{ types: ['track'] }, {}, undefined],
    [{ types: ['page'] }, {}, 'filtered: the type track is left out (filters[0].types)'],
    [{ events: { allow: ['Order *'] } }, {}, undefined],
    [
      { events: { allow: ['Signed Up', 'order *'] } },
      {},
      'filtered: the event is not allowed (filters[0].events.allow)',
    ],
    [
      { events: { allow: ['Order *'], deny: ['* Completed'] } },
      {},
      'filtered: the event is denied by "* Completed" (filters[0].events.deny)',
    ],
    [{ events: { deny: ['Order Viewed'] } }, {}, undefined],
    // The rule is for track calls only: the name of a page is not the name of an event.
    [{ events: { allow: ['x'] } }, { type: 'page', name: 'y' }, undefined],
    [{ events: { deny: ['y'] } }, { type: 'screen', name: 'y' }, undefined],
    [{ sources: ['app'], types: ['page'] }, {}, undefined],
    [
      { sources: ['app', 'web'], types: ['page'] },
      {},
      'filtered: the type track is left out (filters[0].types)',
    ],
    [
      { where: { event: 'Order Completed', 'properties.total': { $gte: 100 } } },
      { properties: { total: 99 } },
      'filtered: properties.total does not match (filters[0].where)',
    ],
    [
      { where: { $or: [{ type: 'identify' }, { 'properties.vip': true }] } },
      {},
      'filtered: $or does not match (filters[0].where)',
    ],
  ])('%j on %j: %s', (filter, fields, reason) => {
    expect(reasonOf([filter], call(fields))).toBe(reason)
  })

  test('passes several filters only if it passes each of them', () => {
    const filters: CallFilter[] = [
      { types: ['track', 'page'] },
      { sources: ['web'], events: { allow: ['Order *'] } },
      { events: { deny: ['Order Viewed'] } },
    ]
    expect(reasonOf(filters, call())).toBeUndefined()
    expect(reasonOf(filters, call({ event: 'Order Viewed' }))).toMatch(/filters\[2]\.events\.deny/)
    expect(reasonOf(filters, call({ event: 'Signed Up' }))).toMatch(/filters\[1]\.events\.allow/)
    expect(reasonOf(filters, call({ event: 'Signed Up' }), 'app')).toBeUndefined()
  })
})

describe('a condition', () => {
  const isMet = (where: Where, properties: Record<string, unknown>) =>
    reasonOf([{ where }], call({ properties })) === undefined

  test.each<[object, unknown[], unknown[]]>([
    [{ $eq: 5 }, [5, [1, 5]], [6, '5', null, undefined, [1], { a: 5 }]],
    [{ $ne: 5 }, [6, '5', null, undefined, [1]], [5, [1, 5]]],
    [{ $eq: null }, [null, undefined, [null]], [0, '', false, []]],
    [{ $eq: '' }, [''], [null, undefined, 0, ' ']],
    [{ $eq: true }, [true], [1, 'true']],
    [{ $gt: 5 }, [6, [1, 6], [[6]]], [5, '6', null, undefined, true, { a: 6 }]],
    [{ $gte: 5, $lt: 7 }, [5, 6.9], [4.9, 7]],
    [{ $lte: 5 }, [5, -1], [null, undefined, '', false]],
    [{ $gte: '2026-01-01' }, ['2026-02-02T00:00:00Z'], ['2025-12-31', 2027, null]],
    [{ $in: [1, 'a', null] }, [1, 'a', null, undefined, [2, 1]], [2, 'b', '1']],
    [{ $nin: [1, 'a'] }, [2, null, undefined], [1, 'a', [2, 1]]],
    [{ $exists: true }, [null, 0, '', {}, []], [undefined]],
    [{ $exists: false }, [undefined], [null, 0]],
    [
      { $like: '*@example.com' },
      ['a@example.com', ['x', 'b@example.com']],
      ['a@example.org', 7, null, {}, undefined],
    ],
    [{ $not: { $like: 'a*' } }, ['b', undefined, 7], ['ab', ['x', 'a']]],
    [{ $not: { $gt: 5 } }, [5, undefined, 'x'], [6]],
  ])('%j is met by each of %j and by none of %j', (condition, met, others) => {
    const meets = (value: unknown) =>
      isMet({ 'properties.v': condition }, value === undefined ? {} : { v: value })
    expect(met.filter((value) => !meets(value))).toEqual([])
    expect(others.filter(meets)).toEqual([])
  })

  test('leads through objects, and through lists to any of their elements', () => {
    const where = { 'properties.products.sku': 'A7' }
    expect(isMet(where, { products: { sku: 'A7' } })).toBe(true)
    expect(isMet(where, { products: [{ sku: 'B1' }, { sku: 'A7' }] })).toBe(true)
    expect(isMet(where, { products: [{ sku: 'B1' }, 'A7', null] })).toBe(false)
    expect(isMet(where, { products: 'A7' })).toBe(false)
    const second = { 'properties.products.1.sku': 'A7' }
    expect(isMet(second, { products: [{ sku: 'B1' }, { sku: 'A7' }] })).toBe(true)
    expect(isMet(second, { products: [{ sku: 'A7' }] })).toBe(false)
  })

  test('takes a name for a field of the call, whatever JavaScript knows by this name', () => {
    const names = ['link', 'at', 'search', 'length', 'constructor', '__proto__', 'link.caller']
    const texts = ['home', ['home'], 5, true, {}, []]
    for (const name of [...names, 'toFixed', 'map', 'size', '0', '0.at']) {
      const field = `properties.v.${name}`
      // It is missing in all of them but the list with one element.
      const given = texts.filter((value) => !(Array.isArray(value) && name === '0'))
      for (const v of given) {
        expect(isMet({ [field]: null }, { v })).toBe(true)
        expect(isMet({ [field]: { $in: ['x', null] } }, { v })).toBe(true)
        expect(isMet({ [field]: { $exists: false } }, { v })).toBe(true)
        expect(isMet({ [field]: { $ne: null } }, { v })).toBe(false)
        expect(isMet({ [field]: { $nin: [null] } }, { v })).toBe(false)
        expect(isMet({ [field]: { $exists: true } }, { v })).toBe(false)
        expect(isMet({ [field]: 'h' }, { v })).toBe(false)
      }
    }
    const own = JSON.parse('{"link":"a","length":"a","constructor":"a","__proto__":"a"}') as unknown
    for (const name of ['link', 'length', 'constructor', '__proto__']) {
      for (const v of [own, [own], [{}, own]]) {
        expect(isMet({ [`properties.v.${name}`]: 'a' }, { v })).toBe(true)
      }
    }
  })

  test('on a field of an empty list is on a missing field', () => {
    for (const items of [[], [[]], { sku: undefined }, [{}], ['a']]) {
      expect(isMet({ 'properties.items.sku': null }, { items })).toBe(true)
      expect(isMet({ 'properties.items.sku': { $ne: null } }, { items })).toBe(false)
      expect(isMet({ 'properties.items.sku': { $exists: false } }, { items })).toBe(true)
      expect(isMet({ 'properties.items.sku': { $ne: 'A7' } }, { items })).toBe(true)
    }
    // The list itself is there.
    expect(isMet({ 'properties.items': null }, { items: [] })).toBe(false)
    expect(isMet({ 'properties.items': { $exists: true } }, { items: [] })).toBe(true)
    // A position behind the last element is missing too.
    expect(isMet({ 'properties.items.1': null }, { items: ['a'] })).toBe(true)
    expect(isMet({ 'properties.items.1': { $ne: null } }, { items: ['a'] })).toBe(false)
    expect(isMet({ 'properties.items.1': null }, { items: ['a', 'b'] })).toBe(false)
  })

  test('on one of many values takes hardly longer than on one of a few', () => {
    const skus = Array.from({ length: 4_000 }, (_, i) => i)
    const values = (count: number) => Array.from({ length: count }, (_, i) => `sku ${i}`)
    for (const operator of ['$in', '$nin']) {
      const fastest = (count: number) => {
        const filters = compileFilters([
          { where: { 'properties.skus': { [operator]: values(count) } } },
        ])
        const given = call({ properties: { skus } })
        const times = Array.from({ length: 5 }, () => {
          const from = performance.now()
          filters('web', given)
          return performance.now() - from
        })
        return Math.min(...times)
      }
      expect(fastest(1_000)).toBeLessThan(20 * fastest(2))
    }
  })

  test('is about a call without properties too', () => {
    const filter: CallFilter = { where: { 'properties.v': { $exists: false } } }
    expect(reasonOf([filter], call({ type: 'identify', traits: { v: 1 } }))).toBeUndefined()
  })

  test('never throws, whatever strangers write into a call', () => {
    const hostile = [
      ...['hasOwnProperty', 'toString', 'valueOf', 'toJSON', 'constructor', 'length'].flatMap(
        (key) => [{ [key]: 1 }, { v: { [key]: null } }, { v: [{ [key]: 'x' }] }],
      ),
      JSON.parse('{"__proto__":{"v":5}}'),
      JSON.parse('{"v":{"__proto__":{"w":5}}}'),
      { v: nested(490) },
    ] as Record<string, unknown>[]
    const conditions = [{ $eq: 5 }, { $gt: 4 }, { $in: [5] }, { $like: '*' }, { $not: { $ne: 5 } }]
    for (const properties of hostile) {
      for (const condition of conditions) {
        for (const field of ['properties.v', 'properties.v.w', 'properties.length']) {
          // Only the test of the last field looks at the number 1 of the key `length`, and no condition is met by it.
          expect(isMet({ [field]: condition }, properties)).toBe(false)
        }
      }
    }
  })
})

function nested(levels: number): unknown {
  let value: unknown = false
  for (let level = 0; level < levels; level++) value = [value]
  return value
}

// The random settings and calls use few words, so that rules and calls often meet.

const word = fc.constantFrom('a', 'b', 'ab', 'abc', 'A')
const pattern = fc.constantFrom('a', 'ab', 'a*', '*b', '*a*c', 'A*', 'b')
const scalar = fc.constantFrom<unknown[]>('a', 'b', 'ab', 1, 2, 3, true, false, null)
const field = fc.constantFrom(
  ...['properties.x', 'properties.y', 'properties.o.x', 'traits.x', 'context.o.y'],
  // Names that JavaScript gives to texts, numbers, lists, functions and objects, and positions in lists.
  ...['at', 'link', 'toFixed', 'length', 'constructor', '__proto__', '0', '1', '1.x'].map(
    (name) => `properties.x.${name}`,
  ),
  ...['properties.link', 'properties.o.x.at.name', 'properties.o.x.link.caller'],
  ...['type', 'event', 'userId', 'groupId'],
)
const bound = fc.constantFrom<unknown[]>(1, 2, 'a', 'ab')

const operators = fc.letrec<{ one: object; some: object }>((tie) => ({
  one: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({ $eq: scalar }),
    fc.record({ $ne: scalar }),
    fc.record({ $gt: bound }),
    fc.record({ $gte: bound }),
    fc.record({ $lt: bound }),
    fc.record({ $lte: bound }),
    fc.record({ $in: fc.uniqueArray(scalar, { minLength: 1, maxLength: 3 }) }),
    fc.record({ $nin: fc.uniqueArray(scalar, { minLength: 1, maxLength: 3 }) }),
    fc.record({ $exists: fc.boolean() }),
    fc.record({ $like: pattern }),
    fc.record({ $not: tie('some') }),
  ),
  some: fc.tuple(tie('one'), tie('one')).map(([one, other]) => ({ ...one, ...other })),
})).some

const where = fc.letrec<{ where: Where }>((tie) => ({
  where: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.dictionary(field, fc.oneof(scalar, operators), { minKeys: 1, maxKeys: 2 }),
    fc.record({ $and: fc.array(tie('where'), { minLength: 1, maxLength: 2 }) }),
    fc.record({ $or: fc.array(tie('where'), { minLength: 1, maxLength: 3 }) }),
  ),
})).where

const SOURCES = ['web', 'app']
const someOf = <T>(all: readonly T[]) => fc.uniqueArray(fc.constantFrom(...all), { minLength: 1 })
const patterns = fc.uniqueArray(pattern, { minLength: 1, maxLength: 3 })

const callFilter = fc.record(
  {
    sources: someOf(SOURCES),
    types: someOf(CALL_TYPES),
    events: fc.record({ allow: patterns, deny: patterns }, { requiredKeys: [] }),
    where,
  },
  { requiredKeys: [] },
)

const destinations = fc.array(
  fc.record({
    sources: fc.constant(SOURCES),
    enabled: fc.constantFrom(true, true, true, false),
    filters: fc.array(callFilter, { maxLength: 3 }),
  }),
  { minLength: 1, maxLength: 4 },
)

const key = fc.oneof(
  { arbitrary: fc.constantFrom('x', 'y', 'o'), weight: 9 },
  fc.constantFrom('at', 'link', 'toFixed', 'length', 'constructor', '0'),
)
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(scalar, { maxLength: 3 }),
    fc.array(tie('value'), { maxLength: 2 }),
    fc.dictionary(key, tie('value'), { maxKeys: 2 }),
    fc.array(fc.dictionary(key, scalar, { minKeys: 1, maxKeys: 2 }), { maxLength: 2 }),
  ),
})).value
const object = fc.dictionary(key, value, { maxKeys: 3 })

const anyCall = fc
  .record(
    {
      type: fc.constantFrom(...CALL_TYPES),
      userId: word,
      event: word,
      name: word,
      groupId: word,
      properties: object,
      traits: object,
      context: object,
    },
    { requiredKeys: ['type', 'userId'] },
  )
  .map(({ event, ...fields }): Call => {
    const shared = { messageId: 'm', timestamp: '2026-01-02T03:04:05.678Z', ...fields }
    return fields.type === 'track' ? { ...shared, event: event ?? 'a' } : shared
  })

/** The same rounds each time, so that only a change turns them red. `RUNS=30000` searches among new ones. */
const { RUNS } = process.env
const ROUNDS = RUNS === undefined ? { numRuns: 600, seed: 1 } : { numRuns: Number(RUNS) }

// One condition by itself, so that no other rule hides what is wrong with it.
test('a condition is met by exactly the calls by which a naive reading says so', () => {
  const seen = { met: 0, unmet: 0 }
  fc.assert(
    fc.property(field, fc.oneof(scalar, operators), object, (name, condition, properties) => {
      const [given, filter] = [call({ properties }), { where: { [name]: condition } }]
      const isMet = meets(filter.where, given)
      expect(reasonOf([filter], given) === undefined).toBe(isMet)
      seen[isMet ? 'met' : 'unmet']++
    }),
    { ...ROUNDS, numRuns: 10 * ROUNDS.numRuns },
  )
  expect(Math.min(seen.met, seen.unmet)).toBeGreaterThan(100)
})

test(
  'every call goes to exactly the destinations whose filters a naive reading lets it pass',
  { tags: 'long' },
  async () => {
    const seen = { to: 0, stopped: 0, refused: 0 }
    await fc.assert(
      fc.asyncProperty(
        destinations,
        fc.array(fc.tuple(fc.constantFrom(...SOURCES), anyCall), { minLength: 1, maxLength: 6 }),
        async (given, calls) => {
          const settings = checked(given)
          if (!settings) {
            seen.refused++
            return
          }
          const routes = await routesOf(settings)
          for (const [source, one] of calls) {
            const { to, stopped = [] } = route(source, one, routes)
            const enabled = settings.destinations.filter((each) => each.enabled)
            const expected = enabled.filter(({ filters = [] }) =>
              filters.every((filter) => passes(filter, source, one)),
            )
            expect(to).toEqual(expected)
            // What is not sent is stopped, and nothing is neither or both.
            const others = enabled.filter((each) => !expected.includes(each))
            expect(stopped.map(({ destination }) => destination)).toEqual(others)
            for (const { reason } of stopped)
              expect(reason).toMatch(/^filtered: .* \(filters\[\d]\./)
            seen.to += to.length
            seen.stopped += stopped.length
          }
        },
      ),
      ROUNDS,
    )
    // The test sees all three.
    expect(Math.min(seen.to, seen.stopped, seen.refused)).toBeGreaterThan(100)
  },
)

/** The settings as they would be read from a file; `undefined` if they are refused. */
function checked(given: object[]): Settings | undefined {
  const result = checkSettings(
    {
      sources: SOURCES.map((name) => ({ name, writeKey: name })),
      destinations: given.map((fields, index) => ({
        name: `d${index}`,
        webhooks: [{ url: 'https://a.example.com/' }],
        ...fields,
      })),
    },
    {},
    '/',
  )
  return 'settings' in result ? result.settings : undefined
}

/** Whether a call passes a filter: docs/filters.md, read word by word. */
function passes({ sources, types, events, where }: CallFilter, source: string, one: Call): boolean {
  if (sources && !sources.includes(source)) return true
  if (types && !types.includes(one.type)) return false
  if (events && one.type === 'track') {
    const { allow, deny } = events
    const { event = '' } = one
    if (allow && !allow.some((pattern) => isLike(pattern, event))) return false
    if (deny?.some((pattern) => isLike(pattern, event))) return false
  }
  return !where || meets(where, one)
}

function meets(where: Where, one: Call): boolean {
  return Object.entries(where).every(([name, condition]) => {
    if (name === '$and') return (condition as Where[]).every((each) => meets(each, one))
    if (name === '$or') return (condition as Where[]).some((each) => meets(each, one))
    const found = valuesAt(one, name.split('.'))
    const isOperators = typeof condition === 'object' && condition !== null
    return holds(isOperators ? condition : { $eq: condition }, found)
  })
}

/** In the place of a value that a call does not have. */
const MISSING = Symbol('missing')

/**
 * The values at a path. A list stands for its elements; at the end of the path, it also stands for itself. In a list, a number is
 * the position of an element.
 */
function valuesAt(from: unknown, path: readonly string[]): unknown[] {
  const [step, ...rest] = path
  if (Array.isArray(from)) {
    if (step !== undefined && /^\d+$/.test(step)) return valuesAt(from[Number(step)], rest)
    const within = from.flatMap((element: unknown) => valuesAt(element, path))
    if (step === undefined) return [...within, from]
    return from.length === 0 ? [MISSING] : within
  }
  if (step === undefined) return [from === undefined ? MISSING : from]
  if (typeof from !== 'object' || from === null) return [MISSING]
  const [, found] = Object.entries(from).find(([name]) => name === step) ?? []
  return valuesAt(found, rest)
}

function holds(operators: object, found: readonly unknown[]): boolean {
  return Object.entries(operators).every(([operator, operand]: [string, unknown]) => {
    const equals = (wanted: unknown) =>
      found.includes(wanted) || (wanted === null && found.includes(MISSING))
    const compares = (is: (value: never) => boolean) =>
      found.some((value) => typeof value === typeof operand && is(value as never))
    switch (operator) {
      case '$eq':
        return equals(operand)
      case '$ne':
        return !equals(operand)
      case '$gt':
        return compares((value) => value > (operand as never))
      case '$gte':
        return compares((value) => value >= (operand as never))
      case '$lt':
        return compares((value) => value < (operand as never))
      case '$lte':
        return compares((value) => value <= (operand as never))
      case '$in':
        return (operand as unknown[]).some(equals)
      case '$nin':
        return !(operand as unknown[]).some(equals)
      case '$exists':
        return found.some((value) => value !== MISSING) === operand
      case '$like':
        return compares((value) => isLike(operand as string, value))
      default:
        return !holds(operand as object, found)
    }
  })
}

function isLike(pattern: string, text: string): boolean {
  if (pattern === '') return text === ''
  const [first, rest] = [pattern.charAt(0), pattern.slice(1)]
  if (first === '*') return isLike(rest, text) || (text !== '' && isLike(pattern, text.slice(1)))
  return text.startsWith(first) && isLike(rest, text.slice(1))
}
