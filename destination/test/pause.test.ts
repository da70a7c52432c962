// A destination that is paused: what is sent, what waits, and what a restart changes.
import { describe, expect, test } from 'vitest'
import type { RunningDestination } from '../src/destination.js'
import type {
  AuditEntry,
  AuditLog,
  PauseChanged,
  ShownMessage,
  Status,
} from '../src/model/answers.js'
import { startDestination } from '../src/destination.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  post,
  settingsFor,
  silent,
  start,
  track,
} from './run.js'
import { parseScrape } from './observe/scrape.js'
import { dice } from './simulation/chance.js'

async function ask<T>(one: RunningDestination, path: string, body?: object): Promise<T> {
  const response = await fetch(`${one.adminUrl}/v1/admin${path}`, {
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  expect(response.status, path).toBe(200)
  return (await response.json()) as T
}

const pause = (one: RunningDestination, reason = 'maintenance', name = 'crm') =>
  ask<PauseChanged>(one, `/destinations/${name}/pause`, { reason })
const resume = (one: RunningDestination, name = 'crm') =>
  ask<PauseChanged>(one, `/destinations/${name}/resume`, {})

const idsOf = (received: readonly { headers: Record<string, unknown> }[]) =>
  received.map(({ headers }) => String(headers['x-message-id']))

describe('a paused destination', () => {
  test('takes calls and is sent nothing, while others are, until it is resumed', async () => {
    const [crm, ads] = [await endpoint(), await endpoint()]
    const one = await start(settingsFor([destination([crm]), destination([ads], { name: 'ads' })]))
    await post(one, [track('before')])
    await Promise.all([crm.has(1), ads.has(1)])
    expect(await pause(one)).toMatchObject({ wasPaused: false, paused: { reason: 'maintenance' } })
    expect((await post(one, [track('m1'), track('m2')])).status).toBe(200)
    await ads.has(3)
    expect(crm.received).toHaveLength(1)
    const { deliveries } = await ask<ShownMessage>(one, '/messages?messageId=m1')
    expect(deliveries.map(({ destination: name, hold }) => [name, hold])).toContainEqual([
      'crm',
      'paused',
    ])
    const { destinations } = await ask<Status>(one, '/status')
    expect(destinations).toMatchObject([{ name: 'crm', fresh: 2 }, { paused: null }])
    expect(await resume(one)).toEqual({ destination: 'crm', paused: null, wasPaused: true })
    await crm.has(3)
    expect(idsOf(crm.received).slice(1).sort()).toEqual(['m1', 'm2'])
  })

  test('keeps what was waiting for a retry, and what is under way ends as usual', async () => {
    let goOn: () => void = () => undefined
    const crm = await endpoint(503, (response) => (goOn = () => response.writeHead(204).end()), 204)
    const one = await start(settingsFor([destination([crm])]))
    await post(one, [track('retried')])
    await expect.poll(async () => (await one.stats())[0]?.backlog).toBe(1)
    await post(one, [track('under way')])
    await crm.has(2)
    await pause(one)
    goOn()
    // The retry is due after 2 s.
    await new Promise((resolve) => setTimeout(resolve, 2_600))
    expect(crm.received).toHaveLength(2)
    const { deliveries } = await ask<ShownMessage>(one, '/messages?messageId=under%20way')
    expect(deliveries).toMatchObject([{ state: 'done', hold: null }])
    await resume(one)
    await crm.has(3)
    expect(idsOf(crm.received)[2]).toBe('retried')
  })

  test('stays paused over a restart and a reload, and keeps its first time when the reason changes', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const first = await startDestination(settings, silent)
    const { paused: before } = await pause(first, 'first')
    const { paused, wasPaused } = await pause(first, 'second')
    expect({ paused, wasPaused }).toEqual({
      paused: { ...before, reason: 'second' },
      wasPaused: true,
    })
    await post(first, [track('m1')])
    await first.close()
    const second = await start(settings)
    await second.reload({ ...settings, retentionMs: settings.retentionMs + 1 })
    await post(second, [track('m2')])
    const { destinations } = await ask<Status>(second, '/status')
    expect(destinations).toMatchObject([{ fresh: 2, paused }])
    expect(crm.received).toEqual([])
    await resume(second)
    await crm.has(2)
  })

  test('has its pauses in the audit log, among its other changes', async () => {
    const settings = settingsFor([destination([await endpoint()])])
    const one = await start({
      ...settings,
      settingsKeys: [Buffer.alloc(32, 'k').toString('base64')],
    })
    const audit = (query: string) => ask<AuditLog>(one, `/audit${query}`)
    const vip = { sources: ['web'], webhooks: [{ url: 'https://example.com/' }] }
    const by = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'X-Actor': 'ann' }
    const send = (method: string, path: string, body: object) =>
      fetch(`${one.adminUrl}/v1/admin/destinations/${path}`, {
        ...{ method, headers: by, body: JSON.stringify(body) },
      })
    await send('PUT', 'vip', vip)
    await send('POST', 'vip/pause', { reason: 'first' })
    await pause(one, 'of another', 'crm')
    await pause(one, 'second', 'vip')
    await send('PATCH', 'vip', { enabled: false })
    await resume(one, 'vip')
    const known = { kind: 'destination', name: 'vip', from: '127.0.0.1' }
    const { entries } = await audit('?kind=destination&name=vip')
    expect(entries).toMatchObject([
      { ...known, action: 'resume', by: null, changes: [{ path: 'paused', from: 'second' }] },
      { ...known, action: 'update' },
      {
        ...{ ...known, action: 'pause', by: null },
        changes: [{ path: 'paused', from: 'first', to: 'second' }],
      },
      { ...known, action: 'pause', by: 'ann', changes: [{ path: 'paused', to: 'first' }] },
      { ...known, action: 'create', by: 'ann' },
    ])
    // Page by page it is the same.
    const paged: AuditEntry[] = []
    for (let next: number | null | undefined; next !== null;) {
      const before = next === undefined ? '' : `&before=${next}`
      const page = await audit(`?kind=destination&name=vip&limit=2${before}`)
      paged.push(...page.entries)
      next = page.next
    }
    expect(paged).toEqual(entries)
    expect((await audit('')).entries.filter(({ name }) => name === 'crm')).toHaveLength(1)
  })

  test('whose settings were removed can be resumed, and is unknown afterwards', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const one = await start(settings)
    await pause(one)
    await one.reload({ ...settings, destinations: [] })
    expect(await resume(one)).toMatchObject({ wasPaused: true })
    await expect(resume(one)).rejects.toThrow('404')
  })

  test('gets everything in the end and nothing while it is paused, whatever happens (random)', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const { pick, between } = dice(seed)
    const names = ['a', 'b', 'c']
    const endpoints = await Promise.all(names.map(() => endpoint()))
    const settings = settingsFor(
      names.map((name, i) => destination(endpoints.slice(i, i + 1), { name })),
    )
    let one = await startDestination(settings, silent)
    const paused = new Set<string>()
    /** How many requests each endpoint had when its pause began. */
    const frozen = new Map<string, number>()
    let sent = 0
    const countOf = (name: string) => endpoints[names.indexOf(name)]?.received.length ?? 0
    /** All that may be sent is sent: what an unpaused destination got is everything. */
    const settled = async () => {
      for (const name of names) {
        if (!paused.has(name)) await endpoints[names.indexOf(name)]?.has(sent)
      }
    }
    for (let step = 0; step < 40; step++) {
      const name = pick(names)
      const kind = between(0, 99)
      if (kind < 40) {
        await post(one, [track(`m${sent++}`)])
      } else if (kind < 65) {
        await settled()
        const { wasPaused } = await pause(one, `step ${step}`, name)
        expect(wasPaused, `seed ${seed}, step ${step}`).toBe(paused.has(name))
        if (!paused.has(name)) frozen.set(name, countOf(name))
        paused.add(name)
      } else if (kind < 90) {
        const { wasPaused } = await resume(one, name)
        expect(wasPaused, `seed ${seed}, step ${step}`).toBe(paused.delete(name))
      } else {
        await one.close()
        one = await startDestination(settings, silent)
      }
      for (const each of paused) {
        expect(countOf(each), `seed ${seed}, step ${step}, ${each}`).toBe(frozen.get(each))
      }
    }
    for (const name of paused) await resume(one, name)
    paused.clear()
    await settled()
    await one.close()
    const all = Array.from({ length: sent }, (_, i) => `m${i}`).sort()
    for (const { received } of endpoints) {
      expect([...new Set(idsOf(received))].sort(), `seed ${seed}`).toEqual(all)
    }
  })
})

test('messages that expire during a pause are dead letters in the metrics, in the log, and in an alert', async () => {
  const [crm, ops] = [await endpoint(), await endpoint()]
  const settings = settingsFor(
    [destination([crm]), destination([ops], { name: 'ops', sources: [] })],
    {
      alerts: {
        destination: 'ops',
        afterMs: [60_000],
        deadLetters: { count: 3, withinMs: 60_000 },
      },
    },
  )
  const first = await startDestination(settings, silent)
  await pause(first)
  await post(first, [track('m1'), track('m2'), track('m3')])
  await first.close()
  const lines: object[] = []
  const error = (details: object, message: string) => {
    if (message === 'dead letters') lines.push(details)
  }
  const one = await start({ ...settings, retentionMs: -1 }, { ...silent, error })
  await ops.has(1)
  expect(JSON.parse(ops.received[0]?.body ?? '')).toMatchObject({
    event: 'Dead Letters Above Limit',
    properties: { destination: 'crm', limit: 3 },
  })
  expect(lines).toEqual([{ destination: 'crm', count: 3, reason: 'older than the retention' }])
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
  const metrics = parseScrape(await (await fetch(`${one.adminUrl}/metrics`, { headers })).text())
  expect(metrics.get('hookline_messages_total{destination="crm",result="dead"}')).toBe(3)
  expect(crm.received).toEqual([])
})
