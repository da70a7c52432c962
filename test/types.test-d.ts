import { fetch as crossFetch } from 'cross-fetch'
import crossFetchDefault from 'cross-fetch'
import { describe, expectTypeOf, test } from 'vitest'
import {
  Analytics,
  HooklineError,
  type AnalyticsOptions,
  type Callback,
  type DropReason,
  type DroppedError,
  type Fetch,
  type FlushResult,
  type Stats,
  type TrackMessage,
  type WireMessage,
} from '../src/index.js'

declare const analytics: Analytics

describe('identity', () => {
  test('is a userId, an anonymousId, or both', () => {
    analytics.identify({ userId: 'u' })
    analytics.identify({ anonymousId: 'a' })
    analytics.identify({ userId: 'u', anonymousId: 'a' })
    analytics.identify({ userId: undefined, anonymousId: 'a' })
    analytics.identify({ userId: 'u', anonymousId: undefined })
    // @ts-expect-error neither of the two
    analytics.identify({})
    // @ts-expect-error neither of the two
    analytics.identify({ traits: {} })
    // @ts-expect-error both undefined
    analytics.identify({ userId: undefined, anonymousId: undefined })
    // @ts-expect-error a number is no id
    analytics.identify({ userId: 7 })
    // @ts-expect-error null is no id
    analytics.identify({ userId: null, anonymousId: 'a' })
    // @ts-expect-error without a message
    analytics.identify()
    // @ts-expect-error a misspelled name
    analytics.identify({ userID: 'u' })
  })

  test('of a user who may be unknown has to be decided', () => {
    const userId = undefined as string | undefined
    // @ts-expect-error perhaps neither
    analytics.page({ userId })
    if (userId) analytics.page({ userId })
  })
})

describe('messages', () => {
  test('need what the contract requires', () => {
    analytics.group({ userId: 'u', groupId: 'g' })
    analytics.alias({ userId: 'u', previousId: 'p', anonymousId: 'a' })
    // @ts-expect-error without an event
    analytics.track({ userId: 'u' })
    // @ts-expect-error without a groupId
    analytics.group({ userId: 'u' })
    // @ts-expect-error without a previousId
    analytics.alias({ userId: 'u' })
    // @ts-expect-error without a userId
    analytics.alias({ anonymousId: 'a', previousId: 'p' })
  })

  test('take the fields of their type', () => {
    analytics.page({ userId: 'u', category: 'c', name: 'n', traits: { a: 1 } })
    analytics.screen({ anonymousId: 'a', category: 'c', name: 'n', properties: { a: 1 } })
    // @ts-expect-error two names of one field
    analytics.page({ userId: 'u', traits: {}, properties: {} })
    // @ts-expect-error properties are a track's
    analytics.identify({ userId: 'u', properties: {} })
    // @ts-expect-error traits are an identify's
    analytics.track({ userId: 'u', event: 'e', traits: {} })
  })

  test('take the options of every message', () => {
    const options = {
      userId: 'u',
      timestamp: new Date(),
      context: { ip: '203.0.113.7' },
      integrations: { All: false, Webhooks: true, Mail: { list: 1 } },
      messageId: 'm',
    }
    analytics.identify(options)
    analytics.track({ ...options, event: 'e' })
    analytics.page(options)
    analytics.screen(options)
    analytics.group({ ...options, groupId: 'g' })
    analytics.alias({ ...options, previousId: 'p' })
    analytics.page({ ...options, timestamp: '2026-01-02' })
    // @ts-expect-error milliseconds
    analytics.page({ userId: 'u', timestamp: 1 })
    // @ts-expect-error a string is no switch
    analytics.page({ userId: 'u', integrations: { Mail: 'yes' } })
    // @ts-expect-error an array is no plain object
    analytics.identify({ userId: 'u', traits: [] })
    // @ts-expect-error a Map is no plain object
    analytics.identify({ userId: 'u', traits: new Map() })
    // @ts-expect-error a string is no plain object
    analytics.identify({ userId: 'u', context: 'c' })
  })

  test('take interfaces as traits', () => {
    interface User {
      name: string
    }
    const traits: User = { name: 'Ada' }
    analytics.identify({ userId: 'u', traits })
  })

  test('return nothing, and tell a callback of the outcome', () => {
    type Returned = ReturnType<
      Analytics['track' | 'identify' | 'page' | 'screen' | 'group' | 'alias']
    >
    expectTypeOf<Returned>().toBeVoid()
    analytics.track({ userId: 'u', event: 'e' }, (error) => {
      expectTypeOf(error).toEqualTypeOf<HooklineError | undefined>()
    })
    expectTypeOf<Callback>().toEqualTypeOf<(error?: HooklineError) => void>()
    // @ts-expect-error it is no function
    analytics.track({ userId: 'u', event: 'e' }, true)
  })
})

describe('a plan', () => {
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions
  type Plan = {
    'Order Completed': { total: number; coupon?: string }
    'Signed In': { method?: 'password' | 'key' }
    'Signed Out': Record<string, never>
  }
  const planned = null as unknown as Analytics<Plan>
  const ofA = { event: 'A', properties: { x: 1 } } as const
  const ofB = { event: 'B', properties: { y: 'y' } } as const

  test('checks the event and its properties', () => {
    planned.track({ userId: 'u', event: 'Order Completed', properties: { total: 42 } })
    planned.track({ userId: 'u', event: 'Order Completed', properties: { total: 1, coupon: 'x' } })
    planned.track({ userId: 'u', event: 'Signed In' })
    planned.track({ userId: 'u', event: 'Signed In', properties: { method: 'key' } })
    planned.track({ userId: 'u', event: 'Signed Out' })
    // @ts-expect-error no such event
    planned.track({ userId: 'u', event: 'Order completed', properties: { total: 42 } })
    // @ts-expect-error without the properties
    planned.track({ userId: 'u', event: 'Order Completed' })
    // @ts-expect-error without the total
    planned.track({ userId: 'u', event: 'Order Completed', properties: { coupon: 'x' } })
    // @ts-expect-error a total that is no number
    planned.track({ userId: 'u', event: 'Order Completed', properties: { total: '42' } })
    // @ts-expect-error properties of another event
    planned.track({ userId: 'u', event: 'Signed In', properties: { total: 42 } })
    // @ts-expect-error a method that is none
    planned.track({ userId: 'u', event: 'Signed In', properties: { method: 'smoke' } })
    // @ts-expect-error still without an identity
    planned.track({ event: 'Signed In' })
  })

  test('checks a variable that may be one of several events against each of them', () => {
    const needy = null as unknown as 'Signed Out' | 'Order Completed'
    const bare = null as unknown as 'Signed Out' | 'Signed In'
    const any = null as unknown as keyof Plan
    const total = { total: 42 }
    planned.track({ userId: 'u', event: bare })
    for (const event of ['Signed Out', 'Signed In'] as const) planned.track({ userId: 'u', event })
    // @ts-expect-error without the properties of one of them
    planned.track({ userId: 'u', event: needy })
    // @ts-expect-error without the properties of one of them
    planned.track({ userId: 'u', event: any })
    // @ts-expect-error without the properties of one of them
    void planned.deliver('track', { userId: 'u', event: needy })
    // @ts-expect-error a total that is no number
    planned.track({ userId: 'u', event: needy, properties: { total: '42' } })
    // @ts-expect-error a total that is no number, and a name that none of them has
    planned.track({ userId: 'u', event: needy, properties: { total: 'not a number', zzz: 1 } })
    // @ts-expect-error properties that one of them does not take
    planned.track({ userId: 'u', event: needy, properties: total })

    const pair = null as unknown as Analytics<{ A: { x: number }; B: { y: string } }>
    const either = null as unknown as 'A' | 'B'
    pair.track({ userId: 'u', event: either, properties: { x: 1, y: 'y' } })
    // @ts-expect-error properties that fit one of them only
    pair.track({ userId: 'u', event: either, properties: { y: 'y' } })
    pair.track({ userId: 'u', ...(either === 'A' ? ofA : ofB) })
    // @ts-expect-error the event of one with the properties of the other
    pair.track({ userId: 'u', ...(either === 'A' ? { event: 'A', properties: { y: 'y' } } : ofB) })
  })

  test('takes a variable that may be one of a hundred events', () => {
    type Digit = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9
    const large = null as unknown as Analytics<Record<`e${Digit}${Digit}`, { x?: number }>>
    const event = null as unknown as `e${Digit}${Digit}`
    large.track({ userId: 'u', event })
    large.track({ userId: 'u', event, properties: { x: 1 } })
    // @ts-expect-error an x that is no number
    large.track({ userId: 'u', event, properties: { x: '1' } })
  })

  test('lets a function pass on what track takes', () => {
    const whole = (message: TrackMessage<Plan>) => {
      planned.track(message)
    }
    whole({ userId: 'u', event: 'Order Completed', properties: { total: 42 } })
    whole({ userId: 'u', event: 'Signed Out' })
    // @ts-expect-error without the properties
    whole({ userId: 'u', event: 'Order Completed' })
    const generic = <Event extends keyof Plan>(message: TrackMessage<Plan, Event>) => {
      planned.track(message)
    }
    generic({ userId: 'u', event: 'Order Completed', properties: { total: 42 } })
    // @ts-expect-error without the properties
    generic({ userId: 'u', event: 'Order Completed' })
  })

  test('may be an interface', () => {
    interface Shop {
      'Order Completed': { total: number }
    }
    const shop = null as unknown as Analytics<Shop>
    shop.track({ userId: 'u', event: 'Order Completed', properties: { total: 42 } })
    // @ts-expect-error no such event
    shop.track({ userId: 'u', event: 'Else' })
    expectTypeOf<TrackMessage<Shop, 'Order Completed'>['properties']>().toEqualTypeOf<{
      total: number
    }>()
  })

  test('leaves the other calls alone', () => {
    planned.identify({ userId: 'u', traits: { anything: 1 } })
    planned.page({ userId: 'u', name: 'Home' })
  })

  test('that is none takes any event and any properties', () => {
    analytics.track({ userId: 'u', event: 'Whatever', properties: { a: [1, { b: null }] } })
    analytics.track({ userId: 'u', event: 'Whatever' })
    expectTypeOf(new Analytics('k')).toEqualTypeOf<Analytics>()
    // @ts-expect-error an event that is no string
    analytics.track({ userId: 'u', event: 7 })
  })

  test('has plain objects as properties', () => {
    // @ts-expect-error a number is none
    new Analytics<{ 'Order Completed': number }>('k')
  })
})

describe('fetch', () => {
  test('may be any fetch', () => {
    // The global one has undici's types: @types/node takes them from undici-types.
    expectTypeOf(globalThis.fetch).toExtend<Fetch>()
    expectTypeOf(crossFetch).toExtend<Fetch>()
    expectTypeOf(crossFetchDefault).toExtend<Fetch>()
    new Analytics('k', { fetch })
    new Analytics('k', { fetch: globalThis.fetch })
    new Analytics('k', { fetch: crossFetch })
  })

  test('may be a small one of a test', () => {
    new Analytics('k', { fetch: () => Promise.resolve(new Response()) })
    const headers = { get: () => null }
    const text = () => Promise.resolve('')
    new Analytics('k', { fetch: () => Promise.resolve({ status: 200, headers, text }) })
    // @ts-expect-error it gives no promise
    new Analytics('k', { fetch: () => new Response() })
    // @ts-expect-error it gives no response
    new Analytics('k', { fetch: () => Promise.resolve({ ok: true }) })
  })
})

describe('options', () => {
  test('are those of the contract', () => {
    expectTypeOf<keyof AnalyticsOptions>().toEqualTypeOf<
      | 'endpoint'
      | 'flushAt'
      | 'size'
      | 'flushAfter'
      | 'timeout'
      | 'maxBatchBytes'
      | 'logger'
      | 'waitUntil'
      | 'maxQueueBytes'
      | 'overflow'
      | 'maxRetries'
      | 'gzip'
      | 'fetch'
      | 'agent'
      | 'headers'
      | 'context'
      | 'integrations'
      | 'beforeSend'
      | 'onDelivered'
      | 'onFailed'
      | 'onInvalid'
      | 'disabled'
      | 'spool'
    >()
    new Analytics('k', {})
    new Analytics('k', { endpoint: new URL('http://h.example'), flushAt: undefined })
    // @ts-expect-error no write key
    new Analytics()
    // @ts-expect-error a misspelled name
    new Analytics('k', { flushat: 1 })
    // @ts-expect-error no such policy
    new Analytics('k', { overflow: 'drop' })
    // @ts-expect-error it is synchronous
    new Analytics('k', { beforeSend: (message: WireMessage) => Promise.resolve(message) })
  })

  test('of hooks say what these get', () => {
    new Analytics('k', {
      beforeSend: (message) => {
        expectTypeOf(message).toEqualTypeOf<WireMessage>()
        return message.event === 'x' ? null : message
      },
      onDelivered: ({ messages, bytes, attempts, durationMs }) => {
        expectTypeOf([messages, bytes, attempts, durationMs]).toEqualTypeOf<number[]>()
      },
      onFailed: ({ messages, error }) => {
        expectTypeOf(error).toEqualTypeOf<HooklineError>()
        expectTypeOf(messages[0]?.json).toEqualTypeOf<string | undefined>()
      },
    })
  })
})

test('flush and close give what became of the messages', () => {
  expectTypeOf(analytics.flush()).resolves.toEqualTypeOf<FlushResult>()
  expectTypeOf(analytics.flush({ timeout: 1 })).resolves.toEqualTypeOf<FlushResult>()
  expectTypeOf(analytics.close()).resolves.toEqualTypeOf<FlushResult>()
  expectTypeOf(analytics.close({ timeout: Infinity })).resolves.toEqualTypeOf<FlushResult>()
  expectTypeOf(analytics).toExtend<AsyncDisposable>()
  expectTypeOf(analytics.stats()).toEqualTypeOf<Stats>()
  expectTypeOf<keyof Stats>().toEqualTypeOf<
    'accepted' | 'delivered' | 'rejected' | 'dropped' | 'pending' | 'pendingBytes'
  >()
})

test('errors have codes that tell them apart', () => {
  expectTypeOf<DroppedError['code']>().toEqualTypeOf<DropReason>()
  expectTypeOf<HooklineError['code']>().toEqualTypeOf<string>()
})
