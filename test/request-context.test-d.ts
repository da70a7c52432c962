import { describe, expectTypeOf, test } from 'vitest'
import type { Analytics } from '../src/index.js'
import { createRequestContext, type RequestContext } from '../src/request-context.js'

interface Plan {
  'Order Completed': { total: number }
  'Signed In': { method?: 'password' | 'key' }
}

const request = null as unknown as RequestContext
const planned = createRequestContext(null as unknown as Analytics<Plan>)

test('identity may be left out of every call', () => {
  request.identify({})
  request.identify({ traits: { plan: 'pro' } })
  request.track({ event: 'e' })
  request.page({})
  request.screen({ name: 'Home' })
  request.group({ groupId: 'g' })
  request.alias({ previousId: 'p' })
  request.track({ userId: 'u', event: 'e' })
  request.track({ anonymousId: 'a', event: 'e' }, (error) => {
    expectTypeOf(error?.code).toEqualTypeOf<string | undefined>()
  })
})

test('what else a call needs is still needed', () => {
  // @ts-expect-error without an event
  request.track({})
  // @ts-expect-error without a groupId
  request.group({})
  // @ts-expect-error without a previousId
  request.alias({})
  // @ts-expect-error a number is no id
  request.track({ userId: 7, event: 'e' })
  // @ts-expect-error two names of one field
  request.page({ traits: {}, properties: {} })
  // @ts-expect-error a misspelled name
  request.identify({ userID: 'u' })
  // @ts-expect-error without a message
  request.identify()
})

describe('a plan', () => {
  test('comes from the client', () => {
    expectTypeOf(planned).toEqualTypeOf<RequestContext<Plan>>()
    expectTypeOf(createRequestContext(null as unknown as Analytics)).toEqualTypeOf<RequestContext>()
  })

  test('makes a context of its own kind', () => {
    // @ts-expect-error it would record events that the plan does not have
    const unplanned: RequestContext = planned
    expectTypeOf(unplanned).not.toBeAny()
    // @ts-expect-error it would record events that the other plan does not have
    const other: RequestContext<{ 'Order Completed': { total: number } }> = planned
    expectTypeOf(other).not.toBeAny()
  })

  test('checks the event and its properties', () => {
    planned.track({ event: 'Order Completed', properties: { total: 42 } })
    planned.track({ event: 'Signed In' })
    planned.track({ event: 'Signed In', properties: { method: 'key' } })
    // @ts-expect-error no such event
    planned.track({ event: 'Order completed', properties: { total: 42 } })
    // @ts-expect-error without the properties
    planned.track({ event: 'Order Completed' })
    // @ts-expect-error a total that is no number
    planned.track({ event: 'Order Completed', properties: { total: '42' } })
    // @ts-expect-error properties of another event
    planned.track({ event: 'Signed In', properties: { total: 42 } })
    const event = null as unknown as keyof Plan
    // @ts-expect-error without the properties of one of the two
    planned.track({ event })
    // @ts-expect-error a total that is no number
    planned.track({ event, properties: { total: '42' } })
    planned.track({ event, properties: { total: 42, method: 'key' } })
  })
})

test('run() gives back what its function gives', () => {
  expectTypeOf(request.run({ userId: 'u' }, () => 7)).toEqualTypeOf<number>()
  expectTypeOf(request.run({}, () => Promise.resolve('x'))).toEqualTypeOf<Promise<string>>()
  request.run({ userId: undefined, context: { ip: undefined } }, () => undefined)
  // @ts-expect-error no field of a request
  request.run({ event: 'e' }, () => undefined)
  // @ts-expect-error a number is no id
  request.set({ userId: 7 })
  // @ts-expect-error without a function
  request.run({})
})

test('a fake with the six calls will do', () => {
  const nothing = () => undefined
  const fake = {
    identify: nothing,
    track: nothing,
    page: nothing,
    screen: nothing,
    group: nothing,
    alias: nothing,
  }
  expectTypeOf(createRequestContext(fake)).toEqualTypeOf<RequestContext>()
})
