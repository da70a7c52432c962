// @module-tag long
// Two workers of one store whose machines show different times. Only the clock of the PostgreSQL server counts.
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { Overview, Status } from '../../src/model/answers.js'
import type { Settings } from '../../src/settings/settings.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'
import { startServer, type Server } from '../store/postgres/server.js'

const HOUR = 3_600_000

let server: Server
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.dispose())

/** Does something while the machine's clock is wrong by so much. */
async function withClock<T>(aheadMs: number, work: () => Promise<T>): Promise<T> {
  const realNow = Date.now
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs)
  try {
    return await work()
  } finally {
    clock.mockRestore()
  }
}

const startAt = (settings: Settings, aheadMs: number): Promise<RunningDestination> =>
  withClock(aheadMs, () => start({ ...settings, listen: { host: '127.0.0.1', port: 0 } }))

async function ask<T>({ adminUrl }: RunningDestination, path: string): Promise<T> {
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
  return (await (await fetch(`${adminUrl}/v1/admin${path}`, { headers })).json()) as T
}

const pauseOf = async (one: RunningDestination) =>
  (await ask<Status>(one, '/status')).destinations.find(({ name }) => name === 'crm')?.paused

test('endpoints are told the time of the server, in a test as well', async () => {
  const crm = await endpoint()
  const webhookSecrets = [`whsec_${Buffer.alloc(32, 1).toString('base64')}`]
  const settings = settingsFor([destination([crm], { webhookSecrets })], {
    store: await server.database(),
  })
  await withClock(2 * HOUR, async () => {
    const running = await start(settings)
    await post(running, [track('m1')])
    await crm.has(1)
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
    const url = `${running.adminUrl}/v1/admin/destinations/crm/test`
    expect((await fetch(url, { method: 'POST', headers, body: '{}' })).status).toBe(200)
  })
  expect(crm.received.length).toBeGreaterThan(1)
  for (const { headers } of crm.received) {
    const told = Number(headers['webhook-timestamp']) * 1_000
    expect(Math.abs(told - Date.now())).toBeLessThan(HOUR)
  }
})

test.each([
  ['behind', -2 * HOUR],
  ['ahead', 2 * HOUR],
])(
  'a worker whose clock is two hours %s tells the right time, and pauses nothing too early or too late',
  async (_, aheadMs) => {
    const [crm, ops] = [await endpoint(400), await endpoint()]
    const to = destination([ops], { name: 'ops', sources: [] })
    const alerts = { destination: 'ops', afterMs: [1_000], pauseAfterMs: HOUR }
    const store = await server.database()
    const settings = settingsFor([destination([crm]), to], { alerts, store })
    const from = Date.now()
    const wrong = await startAt(settings, aheadMs)
    let sent = 0
    const flow = async (...all: RunningDestination[]) => {
      for (const one of all) await post(one, [track(`m${sent++}`)])
    }
    const sinceOf = (i: number) =>
      (JSON.parse(ops.received[i]?.body ?? '') as { properties: { since: string } }).properties
        .since
    await expect.poll(async () => flow(wrong).then(() => ops.received.length)).toBe(1)
    expect(Date.parse(sinceOf(0))).toBeGreaterThan(from - 1_000)
    expect(Date.parse(sinceOf(0))).toBeLessThan(Date.now() + 1_000)
    const right = await startAt(settings, 0)
    const seen = crm.received.length
    await expect
      .poll(async () => flow(right, wrong).then(() => crm.received.length))
      .toBeGreaterThan(seen + 40)
    expect(await pauseOf(right)).toBeNull()
    // An hour of failures is all that is lacking.
    await right.reload({ ...settings, alerts: { ...alerts, pauseAfterMs: 2_000 } })
    await expect
      .poll(async () => flow(right, wrong).then(() => pauseOf(right)))
      .toMatchObject({ by: 'alerts' })
    const paused = await pauseOf(right)
    expect(Math.abs((paused?.at ?? 0) - Date.now())).toBeLessThan(20_000)
    expect(paused?.reason).toContain(sinceOf(0))
  },
)

test.each([
  ['behind', -2 * HOUR],
  ['ahead', 2 * HOUR],
])('a machine whose clock is two hours %s shows the present charts', async (_, aheadMs) => {
  const crm = await endpoint(204)
  const one = await start(settingsFor([destination([crm])], { store: await server.database() }))
  await post(one, [track('m1')])
  await crm.has(1)
  const from = Date.now()
  const overview = () => withClock(aheadMs, () => ask<Overview>(one, '/overview?span=1h'))
  await expect
    .poll(overview)
    .toMatchObject({ chart: { delivered: expect.arrayContaining([1]) as unknown } })
  const { now } = await overview()
  expect(now).toBeGreaterThan(from - 60_000)
  expect(now).toBeLessThan(Date.now() + 60_000)
})
