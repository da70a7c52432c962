// What an application throws may itself throw when it is read. Whatever it is, a call and the client go on.
import { format } from 'node:util'
import debug from 'debug'
import { describe, expect, onTestFinished, test } from 'vitest'
import { describe as describeValue, isPlainObject, messageOf } from '../src/describe.js'
import { HooklineError, OptionError, type AnalyticsOptions } from '../src/index.js'
import { createClient, listen, scriptedFetch, thrownBy, turns } from './collector.js'

const trap = (): never => {
  throw new Error('trap')
}
const TRAPS = { get: trap, has: trap, ownKeys: trap, getPrototypeOf: trap }

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

const withGetter = (name: string) =>
  Object.defineProperty(new Error('x'), name, { get: trap }) as unknown

/** Values that throw, or give what is no text, when they are read. */
const HOSTILE: [string, () => unknown][] = [
  ['a Proxy that throws', () => new Proxy({}, TRAPS)],
  ['a Proxy that has every property', () => new Proxy({}, { has: () => true, get: trap })],
  ['a revoked Proxy', revoked],
  ['an Error whose message throws', () => withGetter('message')],
  [
    'an Error whose message is a Symbol',
    () => Object.assign(new Error(), { message: Symbol('s') }),
  ],
  ['an Error whose message is a number', () => Object.assign(new Error(), { message: 5 })],
  ['an Error whose stack throws', () => withGetter('stack')],
  ['an Error whose name throws', () => withGetter('name')],
  ['an Error whose code throws', () => withGetter('code')],
  ['an Error whose cause throws', () => withGetter('cause')],
  ['an Error whose constructor throws', () => withGetter('constructor')],
  ['what cannot be inspected', () => ({ [Symbol.for('nodejs.util.inspect.custom')]: trap })],
  ['an object without a constructor', () => Object.create({ constructor: null }) as unknown],
  [
    'an object of a class with a Symbol for its name',
    () => Object.create({ constructor: { name: Symbol('n') } }) as unknown,
  ],
  ['an object without a prototype', () => Object.create(null) as unknown],
  ['a Symbol', () => Symbol('s')],
  ['undefined', () => undefined],
  ['null', () => null],
  ['a function', () => trap],
]

const throws = (value: unknown) => (): never => {
  throw value
}

async function unhandledDuring(act: () => Promise<void>): Promise<unknown[]> {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', note)
  try {
    await act()
    await turns()
  } finally {
    process.off('unhandledRejection', note)
  }
  return unhandled
}

/** Does what DEBUG=analytics does, but for writing it. */
function enableDebug(): void {
  const written = debug.log
  debug.log = (...args: unknown[]) => format(...args)
  debug.enable('analytics')
  onTestFinished(() => {
    debug.disable()
    debug.log = written
  })
}

describe.each(HOSTILE)('%s', (_, make) => {
  test('has a description and a message', () => {
    expect(describeValue(make())).toMatch(/./)
    expect(messageOf(make())).toMatch(/./)
    expect([true, false]).toContain(isPlainObject(make()))
  })

  test('is no HooklineError', () => {
    expect(make() instanceof OptionError).toBe(false)
  })

  describe.each(['throw', 'report'] as const)('with onInvalid %s', (onInvalid) => {
    const reads: [string, (value: unknown) => object][] = [
      ['as the message', (value) => value as object],
      [
        'that the message throws',
        (value) => ({
          userId: 'u',
          event: 'e',
          get properties() {
            return throws(value)()
          },
        }),
      ],
      [
        'that a property throws',
        (value) => ({
          userId: 'u',
          event: 'e',
          properties: {
            get a() {
              return throws(value)()
            },
          },
        }),
      ],
      [
        'that toJSON throws',
        (value) => ({ userId: 'u', event: 'e', properties: { a: { toJSON: throws(value) } } }),
      ],
      ...[
        'userId',
        'event',
        'properties',
        'context',
        'integrations',
        'timestamp',
        'messageId',
        'type',
      ].map((field): [string, (value: unknown) => object] => [
        `as ${field}`,
        (value) => ({ userId: 'u', event: 'e', [field]: value }),
      ]),
    ]
    test.each(reads)('%s, gives a HooklineError or none', async (__, message) => {
      const heard = listen()
      const analytics = createClient(scriptedFetch(), { ...heard.hooks, onInvalid })
      let thrown: unknown
      try {
        Reflect.apply(analytics.track.bind(analytics), undefined, [message(make())])
      } catch (error) {
        thrown = error
      }
      await analytics.flush()
      await turns()
      expect(onInvalid === 'report' ? thrown : undefined).toBeUndefined()
      for (const error of [thrown, ...heard.failed.map((report) => report.error)]) {
        if (error === undefined) continue
        expect(Object.getPrototypeOf(error)).toBeInstanceOf(HooklineError)
        expect((error as Error).message).toMatch(/^track\(\) /)
      }
    })
  })

  test('from beforeSend drops its message, with a reason', async () => {
    const heard = listen()
    const beforeSend = throws(make())
    const analytics = createClient(scriptedFetch(), { ...heard.hooks, beforeSend })
    analytics.track({ userId: 'u', event: 'e' })
    await analytics.flush()
    expect(heard.failed.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(/^beforeSend failed, so the track was dropped: ./),
    ])
  })

  test('from fetch is tried again, and then reported as a failed delivery', async () => {
    const heard = listen()
    const fetch = () => Promise.resolve().then(throws(make()))
    const analytics = createClient({ ...scriptedFetch(), fetch }, { ...heard.hooks, maxRetries: 0 })
    analytics.track({ userId: 'u', event: 'e' })
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
    expect(heard.failed.map(({ error }) => error.code)).toEqual(['retries_exhausted'])
    expect(heard.failed[0]?.error.message).toMatch(/^Given up after 1 attempts: ./)
  })

  const hooks: [string, (fail: () => never) => Partial<AnalyticsOptions>][] = [
    ['a callback', () => ({})],
    ['onDelivered', (fail) => ({ onDelivered: fail })],
    [
      'an asynchronous onDelivered',
      (fail) => ({ onDelivered: (): unknown => Promise.resolve().then(fail) }),
    ],
    ['logger', (fail) => ({ logger: { debug: fail, warn: fail } })],
    ['waitUntil', (fail) => ({ waitUntil: fail })],
  ]
  test.each(hooks)('from %s breaks nothing with DEBUG=analytics', async (name, options) => {
    enableDebug()
    const unhandled = await unhandledDuring(async () => {
      const fail = throws(make())
      const analytics = createClient(scriptedFetch(), options(fail))
      analytics.track({ userId: 'u', event: 'e' }, name === 'a callback' ? fail : undefined)
      analytics.track({ userId: 'u', event: 'e' })
      expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    })
    expect(unhandled).toEqual([])
  })

  test('thrown by the option context gives an OptionError', () => {
    const context = { toJSON: throws(make()) }
    const error = thrownBy(() => createClient(scriptedFetch(), { context }))
    expect(Object.getPrototypeOf(error)).toBe(OptionError.prototype)
  })
})

test.each(['text', [1], null, 7])(
  'an option context whose toJSON returns %j is refused',
  (json) => {
    expect(
      thrownBy(() => createClient(scriptedFetch(), { context: { toJSON: () => json } })),
    ).toMatchObject({
      name: 'OptionError',
      option: 'context',
      message: expect.stringMatching(
        /^context must be a plain object, its toJSON\(\) returns /,
      ) as unknown,
    })
  },
)

test('a log that cannot be written breaks nothing', async () => {
  enableDebug()
  debug.log = trap
  const analytics = createClient(scriptedFetch())
  analytics.track({ userId: 'u', event: 'e' })
  expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
})

test('an Error of another realm keeps its message', async () => {
  const { runInNewContext } = await import('node:vm')
  expect(messageOf(runInNewContext('new TypeError("foreign")'))).toBe('foreign')
})
