import { expect, test } from 'vitest'
import { destinationQueues, unusedEndpoints } from '../../src/deliver/destination-queues.js'
import type { DestinationQueue } from '../../src/deliver/destination-queue.js'
import type { Destination } from '../../src/settings/settings.js'
import { dice } from '../simulation/chance.js'

const parts = {
  connect: () => ({ post: () => undefined, close: () => Promise.resolve() }),
  now: () => 0,
}

function queuesFor(
  destinations: readonly Destination[],
  before: readonly DestinationQueue[] = [],
  isSameNetwork = true,
): DestinationQueue[] {
  return Array.from(destinationQueues(destinations, before, isSameNetwork, parts))
}

function destination(name: string, changed: Partial<Destination> = {}): Destination {
  const webhooks = [{ url: `https://${name}.example.com/`, headers: {}, concurrency: 8 }]
  return { name, sources: ['web'], enabled: true, sharedSecret: 'secret', webhooks, ...changed }
}

test('a destination whose settings did not change keeps its queue, with all that it knows', () => {
  const [crm, shop] = queuesFor([destination('crm'), destination('shop')])
  const [sameShop, otherCrm] = queuesFor(
    [destination('shop'), destination('crm', { sharedSecret: 'another' })],
    [crm, shop].filter((queue) => queue !== undefined),
  )
  expect(sameShop).toBe(shop)
  expect(otherCrm).not.toBe(crm)
  expect(otherCrm?.endpoints).toEqual(crm?.endpoints)
})

test('an endpoint whose limits change keeps its breaker and its pace, and obeys when the queues are used', () => {
  const before = queuesFor([destination('crm')])
  const url = 'https://crm.example.com/'
  const webhooks = [{ url, headers: {}, concurrency: 2, rateLimit: 5 }]
  const [crm] = queuesFor([destination('crm', { webhooks })], before)
  const [endpoint] = crm?.endpoints ?? []
  expect(endpoint?.breaker).toBe(before[0]?.endpoints[0]?.breaker)
  expect(endpoint?.pace).toBe(before[0]?.endpoints[0]?.pace)
  expect([endpoint?.breaker.cap, endpoint?.pace.rate]).toEqual([8, Infinity])
  endpoint?.useLimits()
  expect([endpoint?.breaker.cap, endpoint?.pace.rate]).toEqual([2, 5])
})

test('an endpoint that was not used for a while takes no more requests than it may because of it', () => {
  const [former] = queuesFor([destination('crm')])[0]?.endpoints ?? []
  former?.retire()
  const formerOf = () => former
  const again = Array.from(
    destinationQueues([destination('crm')], [], true, { ...parts, formerOf }),
  )
  expect(again[0]?.endpoints[0]).not.toBe(former)
  expect(again[0]?.endpoints[0]?.breaker).toBe(former?.breaker)
})

test('no destination keeps its queue in another network', () => {
  const before = queuesFor([destination('crm')])
  const after = queuesFor([destination('crm')], before, false)
  expect(after[0]).not.toBe(before[0])
  expect(Array.from(unusedEndpoints(before, after))).toEqual(before[0]?.endpoints)
})

test.each(Array.from({ length: 40 }, (_, seed) => seed))(
  'the unused endpoints are those of the former queues that no new one has: seed %i',
  (seed) => {
    const { chance, between } = dice(seed)
    const some = () =>
      Array.from({ length: 12 }, (_, i) => `d${i}`)
        .filter(() => chance(0.7))
        .map((name) => {
          const webhooks = Array.from({ length: between(1, 3) }, (_, i) => ({
            url: `https://${name}.example.com/${i}`,
            headers: {},
            concurrency: between(1, 2),
          }))
          return destination(name, { webhooks })
        })
    const before = queuesFor(some())
    const after = queuesFor(some(), before)
    const used = new Set(after.flatMap(({ endpoints }) => endpoints))
    const expected = before.flatMap(({ endpoints }) => endpoints).filter((one) => !used.has(one))
    expect(Array.from(unusedEndpoints(before, after))).toEqual(expected)
  },
)
