// The limits of an endpoint while its settings change: what has started before counts.
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Destination, Endpoint } from '../src/settings/settings.js'
import { rounds } from './rounds.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from './run.js'
import { dice } from './simulation/chance.js'

/** In ms: how long an endpoint takes for its answer. Several changes happen meanwhile. */
const ANSWER_MS = 400

const calls = (count: number) => Array.from({ length: count }, (_, i) => track(`m${i}`))

/** An endpoint that answers late, and knows how many requests it had at once. */
async function slowEndpoint() {
  let open = 0
  let most = 0
  const one = await endpoint((response) => {
    most = Math.max(most, ++open)
    setTimeout(() => {
      open--
      response.writeHead(204).end()
    }, ANSWER_MS)
  })
  return { url: one.url, most: () => most }
}

const seeds = process.env['SEED']
  ? [Number(process.env['SEED'])]
  : Array.from({ length: rounds(2) }, () => Math.floor(Math.random() * 1e6))

// In one test, because only one test at a time can say what is to be closed at its end.
test('an endpoint never gets more requests at once than before and after a change', async () => {
  const changeAtRandom = async (seed: number) => {
    const { between, pick } = dice(seed)
    const slow = await slowEndpoint()
    const other = await endpoint()
    const cap = between(2, 6)
    const first: Endpoint = { url: slow.url, headers: {}, concurrency: cap }
    const with_ = (changes: Partial<Endpoint>): Destination =>
      destination([], { webhooks: [{ ...first, ...changes }] })
    const settings = settingsFor([with_({})])
    const one = await start(settings)
    await post(one, calls(200))
    const changes: (() => Destination[])[] = [
      () => [with_({ concurrency: between(1, cap) })],
      () => [with_({ headers: { 'x-version': String(between(1, 9)) } })],
      () => [with_({ rateLimit: between(500, 999) })],
      () => [{ ...with_({}), enabled: false }],
      () => [{ ...with_({}), sharedSecret: String(between(1, 9)) }],
      () => [destination([other])],
      () => [],
    ]
    const story: string[] = []
    for (let i = 0; i < 14; i++) {
      const destinations = i % 2 === 0 ? pick(changes)() : [with_({})]
      story.push(JSON.stringify(destinations))
      void one.reload({ ...settings, destinations })
      await wait(between(20, 120))
    }
    expect(slow.most(), [`SEED=${seed}`, `concurrency ${cap}`, ...story].join('\n')).toBe(cap)
  }
  await Promise.all(seeds.map(changeAtRandom))
})

test.each([429, 503])(
  'an endpoint that asked by %i to wait 5 minutes gets nothing after it is disabled for a moment, or taken out and put back',
  async (status) => {
    const crm = await endpoint((response) => {
      response.writeHead(status, { 'Retry-After': '300' }).end()
    })
    const there = destination([], { webhooks: [{ url: crm.url, headers: {}, concurrency: 8 }] })
    const settings = settingsFor([there])
    const one = await start(settings)
    await post(one, calls(100))
    await crm.has(8)
    await wait(300)
    const before = crm.received.length
    for (const gone of [[{ ...there, enabled: false }], []]) {
      await one.reload({ ...settings, destinations: gone })
      await one.reload({ ...settings, destinations: [there] })
      await wait(100)
      await one.reload({ ...settings, destinations: gone })
      await one.reload({ ...settings, destinations: [there] })
      await wait(100)
    }
    expect(crm.received).toHaveLength(before)
  },
)

test('a rate limit holds over pauses', async () => {
  const crm = await endpoint()
  const webhooks = [{ url: crm.url, headers: {}, concurrency: 128, rateLimit: 2 }]
  const one = await start(settingsFor([destination([], { webhooks })]))
  await post(one, calls(100))
  const startedAt = performance.now()
  const ask = (path: string, body: object) =>
    fetch(`${one.adminUrl}/v1/admin/destinations/crm/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    })
  for (let i = 0; i < 30; i++) {
    await ask('pause', { reason: 'maintenance' })
    expect((await ask('resume', {})).status).toBe(200)
    await wait(30)
  }
  const count = crm.received.length
  const seconds = (performance.now() - startedAt) / 1_000
  expect(count).toBeLessThanOrEqual(2 * (seconds + 0.3) + 2)
  expect(count).toBeGreaterThan(0)
})

test('a new rate limit is no new burst', async () => {
  const crm = await endpoint()
  const limited = (rateLimit: number) =>
    destination([], { webhooks: [{ url: crm.url, headers: {}, concurrency: 128, rateLimit }] })
  const settings = settingsFor([limited(40)])
  const one = await start(settings)
  await post(one, calls(400))
  const startedAt = performance.now()
  for (let i = 0; i < 20; i++) {
    await one.reload({ ...settings, destinations: [limited(i % 2 === 0 ? 41 : 40)] })
    await wait(50)
  }
  const count = crm.received.length
  const seconds = (performance.now() - startedAt) / 1_000
  // What came before the first change, what the time allows, and one burst.
  expect(count).toBeLessThan(41 * (seconds + 0.3) + 12 + 1)
  expect(count).toBeGreaterThan(20)
})
