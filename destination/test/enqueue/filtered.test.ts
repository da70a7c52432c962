// What filters do in a running destination.
import { describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { Overview, ShownMessage, Status } from '../../src/model/answers.js'
import type { CallFilter } from '../../src/settings/settings.js'
import { runInside } from '../cli/inside.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { parseScrape } from '../observe/scrape.js'
import {
  ADMIN_TOKEN,
  KEY,
  destination,
  endpoint,
  post,
  settingsFor,
  silent,
  start,
  track,
} from '../run.js'

const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }

const get = async ({ adminUrl }: RunningDestination, path: string): Promise<Response> =>
  await fetch(adminUrl + path, { headers })

const filtersOf = async (running: RunningDestination) => {
  const status = (await (await get(running, '/v1/admin/status')).json()) as Status
  return status.destinations.map(({ filters }) => filters)
}

const deliveriesOf = async (running: RunningDestination, messageId: string) => {
  const found = await get(running, `/v1/admin/messages?messageId=${messageId}`)
  return ((await found.json()) as ShownMessage).deliveries
}

const ORDERS: CallFilter[] = [{ events: { allow: ['Order *'], deny: ['Order Viewed'] } }]

/** A destination with filters, and one without. */
async function withFilters(filters: CallFilter[] = ORDERS) {
  const [crm, lake] = [await endpoint(), await endpoint()]
  const settings = settingsFor([
    destination([crm], { filters }),
    destination([lake], { name: 'lake' }),
  ])
  return { crm, lake, settings }
}

const namesOf = ({ received }: { received: { event: Record<string, unknown> }[] }) =>
  received.map(({ event }) => event['event'] ?? event['type']).sort()

describe('a call that the filters of one destination stop', () => {
  test('goes to the others, and is visible wherever somebody looks for it', async () => {
    const { crm, lake, settings } = await withFilters()
    const lines: object[] = []
    const debug = (fields: object, message: string) => lines.push({ ...fields, message })
    const running = await start(settings, { ...silent, debug })
    const calls = [
      track('m1', { event: 'Order Completed' }),
      track('m2', { event: 'Order Viewed' }),
      track('m3', { event: 'Signed Up' }),
      { type: 'identify', userId: 'u1', messageId: 'm4' },
    ]
    expect((await post(running, calls)).status).toBe(200)
    await Promise.all([crm.has(2), lake.has(4)])
    expect(namesOf(crm)).toEqual(['Order Completed', 'identify'])
    expect(namesOf(lake)).toEqual(['Order Completed', 'Order Viewed', 'Signed Up', 'identify'])

    // A client that sends the calls again is not counted again.
    await post(running, calls)
    expect(await filtersOf(running)).toEqual([{ passed: 2, stopped: 2 }, null])
    const samples = parseScrape(await (await get(running, '/metrics')).text())
    expect(samples.get('hookline_filtered_calls_total{destination="crm",rule="deny"}')).toBe(1)
    expect(samples.get('hookline_filtered_calls_total{destination="crm",rule="allow"}')).toBe(1)
    const reason = 'filtered: the event is denied by "Order Viewed" (filters[0].events.deny)'
    const deliveries = await deliveriesOf(running, 'm2')
    expect(deliveries.find(({ destination }) => destination === 'crm')).toMatchObject({
      ...{ state: 'skipped', reason, event: 'Order Viewed', user: 'u1', source: 'web' },
      ...{ body: '', attempts: [], requests: [] },
    })
    await expect
      .poll(async () => (await deliveriesOf(running, 'm2')).map(({ state }) => state).sort())
      .toEqual(['done', 'skipped'])
    expect(lines).toContainEqual({
      ...{ messageId: 'm2', source: 'web', destination: 'crm', reason, message: 'filtered' },
    })
    const where = ['--url', running.adminUrl, '--token', ADMIN_TOKEN]
    const trace = await runInside(['trace', 'm2', ...where])
    expect(trace.stdout).toContain(`It was not sent: ${reason}.`)
    const status = await runInside(['status', ...where])
    expect(status.stdout).toMatch(/^crm .* 2 of 4$/m)
    expect(status.stdout).toMatch(/^lake .* -$/m)
  })

  test('is not replayed, because its body is not stored', async () => {
    const { settings } = await withFilters()
    const running = await start(settings)
    await post(running, [track('m2', { event: 'Order Viewed' })])
    const [id] = (await deliveriesOf(running, 'm2')).flatMap((one) =>
      one.destination === 'crm' ? [one.id] : [],
    )
    const byId = await fetch(`${running.adminUrl}/v1/admin/replay`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ ids: [id], force: true }),
    })
    expect(await byId.json()).toMatchObject({ matched: 0, replayed: 0 })
  })
})

test('bulk work is filtered as other calls are, and what is no call is not filtered', async () => {
  const { crm, lake, settings } = await withFilters([
    { types: ['track'], events: { allow: ['Order *'] }, where: { userId: 'nobody' } },
  ])
  const running = await start(settings)
  await fetch(`${running.url}/v1/batch`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${KEY}:`)}`, 'X-Lane': 'bulk' },
    body: JSON.stringify({ batch: [track('m1'), { type: 'page', userId: 'u1' }] }),
  })
  await lake.has(2)
  const audience = await fetch(`${running.adminUrl}/v1/audiences/VIP`, {
    method: 'PUT',
    headers: { ...headers, 'Content-Type': 'application/x-ndjson' },
    body: '"u1"\n{"end":1}',
  })
  expect(await audience.json()).toMatchObject({ joined: 1 })
  await crm.has(1)
  const deletion = await fetch(`${running.adminUrl}/v1/deletions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ userId: 'u1' }),
  })
  expect(await deletion.json()).toMatchObject({ sent: 2 })
  await crm.has(2)
  expect(crm.received.map(({ event }) => event['type'])).toEqual(['identify', 'delete'])
  expect(crm.received[0]?.event).toMatchObject({ traits: { vip: true } })
})

describe('new filters', () => {
  test('decide about new calls only: what was accepted before keeps its decision', async () => {
    const { crm, lake, settings } = await withFilters()
    const running = await start(settings)
    crm.answer(503)
    await post(running, [
      track('passed', { event: 'Order Completed' }),
      track('stopped', { event: 'Order Viewed' }),
    ])
    await Promise.all([crm.has(1), lake.has(2)])
    const reversed = destination([crm], { filters: [{ events: { allow: ['Order Viewed'] } }] })
    await running.reload({ ...settings, destinations: [reversed] })
    crm.answer(204)
    // The first message waits for its retry, which comes although the new filters would stop it.
    await expect
      .poll(async () => (await deliveriesOf(running, 'passed')).map(({ state }) => state))
      .toEqual(expect.arrayContaining(['done', 'done']))
    await post(running, [
      track('stopped', { event: 'Order Viewed' }),
      track('new', { event: 'Order Viewed' }),
    ])
    await expect
      .poll(() => crm.received.map(({ headers }) => headers['x-message-id']))
      .toContain('new')
    expect(crm.received.map(({ headers }) => headers['x-message-id'])).not.toContain('stopped')
  })

  test('begin to count at zero, and the same filters go on', async () => {
    const { settings } = await withFilters()
    const running = await start(settings)
    await post(running, [track('m1')])
    await running.reload(structuredClone(settings))
    await post(running, [track('m2')])
    expect(await filtersOf(running)).toEqual([{ passed: 0, stopped: 2 }, null])
    const [crm, lake] = structuredClone(settings.destinations)
    const changed = [{ ...crm, filters: [{ events: { deny: ['x'] } }] }, lake]
    await running.reload({ ...settings, destinations: changed as typeof settings.destinations })
    expect(await filtersOf(running)).toEqual([{ passed: 0, stopped: 0 }, null])
    await post(running, [track('m3')])
    expect(await filtersOf(running)).toEqual([{ passed: 1, stopped: 0 }, null])
  })
})

test('filters of a destination in the store are changed at run time, by the same rules', async () => {
  const crm = await endpoint()
  const running = await start(settingsFor([], { settingsKeys: [SETTINGS_KEY] }))
  const webhooks = [{ url: crm.url }]
  const crmSettings = { sources: ['web'], webhooks, filters: ORDERS }
  expect((await ask(running, 'PUT', '/destinations/crm', crmSettings)).status).toBe(201)
  await post(running, [
    track('m1', { event: 'Order Viewed' }),
    track('m2', { event: 'Order Sent' }),
  ])
  await crm.has(1)
  const changed = { filters: [{ events: { allow: ['Order Viewed'] } }] }
  expect((await ask(running, 'PATCH', '/destinations/crm', changed)).status).toBe(200)
  await post(running, [
    track('m3', { event: 'Order Viewed' }),
    track('m4', { event: 'Order Sent' }),
  ])
  await crm.has(2)
  expect(namesOf(crm)).toEqual(['Order Sent', 'Order Viewed'])
  expect(await filtersOf(running)).toEqual([{ passed: 1, stopped: 1 }])
  const wrong = await ask(running, 'PATCH', '/destinations/crm', { filters: [{ types: ['trak'] }] })
  expect(wrong.status).toBe(400)
  expect(wrong.text).toContain('filters[0].types[0]')
  const shown = await ask(running, 'GET', '/destinations/crm')
  expect(shown.body).toMatchObject({ settings: changed })
})

test('filters that let nothing through are warned of once', async () => {
  const { settings } = await withFilters([{ events: { allow: ['order *'] } }])
  const warnings: [object, string][] = []
  const warn = (fields: object, message: string) => void warnings.push([fields, message])
  const running = await start(settings, { ...silent, warn })
  const calls = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => track(`m${from + i}`, { event: 'Order Completed' }))
  const troubled = async () => {
    const overview = (await (await get(running, '/v1/admin/overview')).json()) as Overview
    return overview.destinations.map(({ name }) => name)
  }
  await post(running, calls(0, 99))
  expect(warnings).toEqual([])
  expect(await troubled()).toEqual([])
  await post(running, calls(99, 1))
  await post(running, calls(100, 200))
  await expect.poll(troubled).toEqual(['crm'])
  expect(warnings).toEqual([
    [
      {
        destination: 'crm',
        stopped: 100,
        last: 'filtered: the event is not allowed (filters[0].events.allow)',
      },
      expect.stringContaining(
        'the filters of this destination have let no call through so far',
      ) as string,
    ],
  ])
})
