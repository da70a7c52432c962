import { describe, expect, test } from 'vitest'
import type {
  DeadCauses,
  DeliveryList,
  DestinationDetails,
  Overview,
  ShownDelivery,
} from '../../src/model/answers.js'
import type { RunningDestination } from '../../src/destination.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'

async function ask<T>({ adminUrl }: RunningDestination, path: string): Promise<T> {
  const response = await fetch(`${adminUrl}/v1/admin${path}`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  return (await response.json()) as T
}

/** Asks until it is so: what an endpoint has got is settled a moment later. */
async function until<T>(get: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await get()
    if (isSo(value)) return value
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

const deadOf = (running: RunningDestination, count: number) =>
  until(
    () => ask<DeadCauses>(running, '/dead'),
    ({ groups }) => groups.reduce((sum, group) => sum + group.count, 0) === count,
  )

describe('the overview', () => {
  test('has a page of the destinations, however many there are', async () => {
    const crm = await endpoint()
    const many = Array.from({ length: 300 }, (_, i) =>
      destination([crm], { name: `d${String(i).padStart(3, '0')}`, sources: [] }),
    )
    const running = await start(settingsFor(many))
    const { rows, found, totals } = await ask<Overview>(running, '/overview?sort=name')
    expect(rows.map(({ name }) => name)).toEqual(many.slice(0, 25).map(({ name }) => name))
    expect(found).toBe(300)
    expect(totals).toMatchObject({ destinations: 300, byHealth: { idle: 300 } })
    const last = await ask<Overview>(
      running,
      '/overview?sort=name&order=desc&offset=2&limit=2&q=D29',
    )
    expect(last.rows.map(({ name }) => name)).toEqual(['d297', 'd296'])
    expect(last.found).toBe(10)
    const all = await fetch(`${running.adminUrl}/v1/admin/overview`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    expect((await all.text()).length).toBeLessThan(30_000)
  })

  test('adds up the calls of all sources, and shows those that have refused calls', async () => {
    const sources = Array.from({ length: 40 }, (_, i) => ({
      name: `s${i + 10}`,
      writeKey: `k${i}`,
    }))
    const running = await start(settingsFor([], { sources }))
    for (const { writeKey } of sources) await post(running, [track(`of-${writeKey}`)], writeKey)
    await post(running, [track('once-more')], 'k30')
    await post(running, [{ type: 'track', messageId: 'wrong' }], 'k39')
    const { totals, sources: shown } = await until(
      () => ask<Overview>(running, '/overview'),
      (found) => found.totals.rejected === 1,
    )
    expect(totals).toMatchObject({ sources: 40, accepted: 41 })
    expect(shown).toHaveLength(12)
    expect(shown.slice(-2)).toEqual([
      { name: 's40', accepted: 2, rejected: 0 },
      { name: 's49', accepted: 1, rejected: 1 },
    ])
  })

  test('still knows after a restart what was delivered before', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const first = await start(settings)
    await post(first, [track('m1'), track('m2')])
    await crm.has(2)
    await until(
      () => ask<DeliveryList>(first, '/deliveries?state=done'),
      ({ deliveries }) => deliveries.length === 2,
    )
    await first.close()
    const second = await start(settings)
    for (const span of ['1h', '24h', '7d']) {
      const { totals, rows } = await ask<Overview>(second, `/overview?span=${span}`)
      expect(totals).toMatchObject({ delivered: 2, failed: 0 })
      expect(rows[0]).toMatchObject({ name: 'crm', health: 'healthy', delivered: 2 })
    }
    const details = await ask<DestinationDetails>(second, '/destination?name=crm&span=7d')
    expect(details.charts[0]?.delivered.reduce((a, b) => a + b)).toBe(2)
  })

  test('calls what was repaired recovering, and says the same of the destination and of its endpoint', async () => {
    const crm = await endpoint(400)
    const running = await start(settingsFor([destination([crm])]))
    await post(running, [track('m0'), track('m1'), track('m2'), track('m3')])
    await deadOf(running, 4)
    const details = (health: string) =>
      until(
        () => ask<DestinationDetails>(running, '/destination?name=crm'),
        (found) => found.health === health,
      )
    expect(await details('failing')).toMatchObject({ healths: ['failing'], failedShares: [1] })
    crm.answer(204)
    await post(
      running,
      Array.from({ length: 10 }, (_, i) => track(`n${i}`)),
    )
    const found = await details('recovering')
    expect(found.healths).toEqual(['recovering'])
    expect(found.failedShares).toEqual([found.failedShare])
    const settled = await until(
      () => ask<DestinationDetails>(running, '/destination?name=crm'),
      ({ endpoints }) => endpoints[0]?.deliveredInARow === 10,
    )
    expect(settled.endpoints[0]).toMatchObject({ failuresInARow: 0, delivered: 10, failed: 4 })
  })

  test('refuses a wrong parameter, and knows which destinations there are', async () => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    const code = async (path: string) =>
      (await ask<{ error: { code: string } }>(running, path)).error.code
    expect(await code('/overview?span=2h')).toBe('invalid_parameter')
    expect(await code('/overview?limit=101')).toBe('invalid_parameter')
    expect(await code('/destination?name=nobody')).toBe('unknown_destination')
    expect(await code('/deliveries?status=50')).toBe('invalid_parameter')
    expect(await code('/deliveries?match=fuzzy')).toBe('invalid_parameter')
  })
})

describe('dead letters', () => {
  test('are grouped by cause, and a group can be listed and replayed alone', async () => {
    const refusing = await endpoint((response, { headers }) => {
      const isKnown = String(headers['x-message-id']).startsWith('known')
      response.writeHead(422, { 'x-trace': 'abc', 'set-cookie': 'session=secret' })
      response.end(isKnown ? '{"message":"Too late"}' : '{"message":"Unknown event type"}')
    })
    const running = await start(settingsFor([destination([refusing])]))
    await post(running, [track('m1'), track('m2'), track('m3'), track('known-1')])
    const { groups, isComplete } = await deadOf(running, 4)
    expect(isComplete).toBe(true)
    expect(groups).toMatchObject([
      {
        destination: 'crm',
        code: 'client_error',
        status: 422,
        cause: 'Unknown event type',
        count: 3,
      },
      { cause: 'Too late', count: 1 },
    ])
    const { deliveries } = await ask<DeliveryList>(
      running,
      '/deliveries?state=dead&status=4xx&cause=Too%20late',
    )
    expect(deliveries.map(({ messageId }) => messageId)).toEqual(['known-1'])
    const response = await fetch(`${running.adminUrl}/v1/admin/replay`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      body: JSON.stringify({
        filter: { code: 'client_error', status: 422, cause: 'Unknown event type' },
        dryRun: true,
      }),
    })
    expect(await response.json()).toMatchObject({ matched: 3, replayed: 0 })
  })

  test('show the headers of the answer and of the request, and no key in them', async () => {
    const refusing = await endpoint((response) => {
      response.writeHead(400, { 'x-trace': 'abc', 'set-cookie': 'session=secret' }).end('no')
    })
    const settings = settingsFor([
      {
        ...destination([refusing]),
        webhooks: [{ url: refusing.url, headers: { 'X-Api-Key': 'k3y' }, concurrency: 1 }],
      },
    ])
    const running = await start(settings)
    await post(running, [track('m1')])
    await deadOf(running, 1)
    const shown = await ask<ShownDelivery>(running, '/deliveries/1')
    expect(shown.attempts[0]?.headers).toContain('x-trace: abc')
    expect(shown.attempts[0]?.headers).toContain('set-cookie: …')
    const [request] = shown.requests
    const sent = refusing.received[0]
    const headers = new Map(request?.headers.map(([name, value]) => [name.toLowerCase(), value]))
    for (const name of ['user-agent', 'content-type', 'x-message-id', 'x-attempt', 'x-signature']) {
      expect(headers.get(name)).toBe(sent?.headers[name])
    }
    expect(headers.get('x-api-key')).toBe('…')
    expect(JSON.stringify(shown)).not.toMatch(/k3y|session=secret/)
  })

  test('show where a redirect leads, and no key in the query that it repeats', async () => {
    const moved = 'https://me:hush1@example.com/hook/?key=hush2#hush3'
    const redirecting = await endpoint((response) => {
      response.writeHead(301, { location: moved }).end()
    })
    const url = `${redirecting.url}?key=hush2`
    const running = await start(settingsFor([destination([{ url }])]))
    await post(running, [track('m1')])
    await deadOf(running, 1)
    const shown = await ask<ShownDelivery>(running, '/deliveries/1')
    expect(shown.attempts[0]?.headers).toContain('location: https://me:***@example.com/hook/…')
    expect(JSON.stringify(shown)).not.toContain('hush')
  })
})
