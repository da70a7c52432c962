import { expect, onTestFinished, test } from 'vitest'
import { Deliverer } from '../../src/deliver/deliverer.js'
import { tellAll } from '../../src/observe/events.js'
import { destination } from '../run.js'

test('what is known of an endpoint is kept for five minutes without use, and then forgotten', async () => {
  let now = 0
  const store = {
    claim: () => Promise.resolve([]),
    due: () => Promise.resolve([]),
    settle: () => Promise.resolve(0),
    onRemoved: () => undefined,
    onSettled: () => undefined,
  }
  const deliverer = await Deliverer.join({
    ...{ store, events: tellAll([]), isDelivering: true },
    now: () => now,
  })
  onTestFinished(() => deliverer.close())
  const use = async (isUsed: boolean) => {
    const destinations = isUsed ? [destination([{ url: 'http://a.example.com/' }])] : []
    const start = await deliverer.prepare({ destinations, allowNetworks: [], ca: [] })
    await start()
    return deliverer.queues[0]?.endpoints[0]?.breaker
  }
  const breaker = await use(true)
  await use(false)
  now = 300_000
  expect(await use(true)).toBe(breaker)
  await use(false)
  now = 600_001
  expect(await use(true)).not.toBe(breaker)
})
