// Quotas of tenants in a running destination.
import { describe, expect, test, vi } from 'vitest'
import type { RunningDestination } from '../src/destination.js'
import type { Quotas } from '../src/settings/settings.js'
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

/** The settings of two tenants, each with a source and a destination. */
async function twoTenants(quotas: Quotas) {
  const acme = await endpoint((response) => void held.push(() => response.writeHead(204).end()))
  const held: (() => void)[] = []
  const other = await endpoint(204)
  const of = (tenant: string, url: string) =>
    destination([{ url }], { name: `${tenant}-hook`, tenant, sources: [tenant] })
  const settings = settingsFor([of('acme', acme.url), of('other', other.url)], {
    sources: ['acme', 'other'].map((name) => ({ name, tenant: name, writeKey: name })),
    tenants: [
      { name: 'acme', quotas, portal: { editUrls: false } },
      { name: 'other', portal: { editUrls: false } },
    ],
  })
  return { settings, acme, other, held }
}

const calls = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, i) => track(`${prefix}${i}`))

async function admin({ adminUrl }: RunningDestination, path: string, body: object) {
  const response = await fetch(`${adminUrl}${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    body: JSON.stringify(body),
  })
  return [response.status, await response.json()] as const
}

describe('a tenant with as many waiting messages as it may have', () => {
  test('is refused until some are delivered, while others are served and nothing is lost', async () => {
    const { settings, acme, other, held } = await twoTenants({ waiting: 10 })
    const lines: string[] = []
    const note = (fields: object, message: string) => {
      if ('quota' in fields) lines.push(`${message} ${JSON.stringify(fields)}`)
    }
    const running = await start(settings, { ...silent, warn: note, info: note })
    // The batch that reaches the quota is accepted as a whole.
    expect((await post(running, calls('a', 8), 'acme')).status).toBe(200)
    expect((await post(running, calls('b', 8), 'acme')).status).toBe(200)
    for (const prefix of ['c', 'd']) {
      const refused = await post(running, calls(prefix, 1), 'acme')
      expect(refused.status).toBe(429)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await refused.json()).toEqual({
        ...{ success: false, code: 'tenant_full' },
        message:
          '16 messages wait for the destinations of the tenant acme, whose quota is 10. No call was accepted. Send the request again later.',
      })
    }
    // A deletion is the operator's, and is not refused. Its message waits like the others.
    expect(await admin(running, '/v1/deletions', { userId: 'u9' })).toMatchObject([
      200,
      { sent: 2 },
    ])
    expect((await post(running, calls('e', 20), 'other')).status).toBe(200)
    await other.has(21)
    await acme.has(17)
    for (const release of held.splice(0)) release()
    await vi.waitUntil(
      async () => (await post(running, calls('f', 1), 'acme')).status === 200,
      60_000,
    )
    await acme.has(18)
    for (const release of held.splice(0)) release()
    const ids = acme.received.map(({ headers }) => headers['x-message-id'] as string)
    expect(ids.filter((id) => /^[a-f]\d/.test(id)).sort()).toEqual(
      [...calls('a', 8), ...calls('b', 8), ...calls('f', 1)].map(({ messageId }) => messageId),
    )
    expect(lines).toEqual([
      'a quota of this tenant refuses calls {"tenant":"acme","quota":"waiting"}',
    ])
  })

  test('has its refused calls counted, which are not rejected for good', async () => {
    const { settings, held } = await twoTenants({ waiting: 1 })
    const running = await start(settings)
    expect((await post(running, calls('a', 3), 'acme')).status).toBe(200)
    for (const prefix of ['b', 'c', 'd']) {
      expect((await post(running, calls(prefix, 7), 'acme')).status).toBe(429)
    }
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
    const status = await fetch(`${running.adminUrl}/v1/admin/status`, { headers })
    expect(await status.json()).toMatchObject({
      sources: [{ name: 'acme', accepted: 3, rejected: 0 }, { name: 'other' }],
    })
    const metrics = await fetch(`${running.adminUrl}/metrics`, { headers })
    expect((await metrics.text()).split('\n')).toEqual(
      expect.arrayContaining([
        'hookline_requests_total{source="acme",answer="tenant_full"} 3',
        'hookline_calls_total{source="acme",answer="tenant_full"} 21',
      ]),
    )
    await vi.waitUntil(() => held.length === 3, 60_000)
    for (const release of held) release()
  })

  test('may have more as soon as the settings say so', async () => {
    const { settings, held } = await twoTenants({ waiting: 1 })
    const running = await start(settings)
    expect((await post(running, calls('a', 1), 'acme')).status).toBe(200)
    expect((await post(running, calls('b', 1), 'acme')).status).toBe(429)
    const [acme, ...others] = settings.tenants ?? []
    const tenants = [{ ...acme, name: 'acme', portal: { editUrls: false }, quotas: { waiting: 2 } }]
    await running.reload({ ...settings, tenants: [...tenants, ...others] })
    expect((await post(running, calls('b', 1), 'acme')).status).toBe(200)
    expect((await post(running, calls('c', 1), 'acme')).status).toBe(429)
    await vi.waitUntil(() => held.length === 2, 60_000)
    for (const release of held) release()
  })
})

describe('a tenant with as many requests under way as it may have', () => {
  test('is sent no more until one ends, while others are, and more when the settings say so', async () => {
    const { settings, acme, other, held } = await twoTenants({ concurrency: 3 })
    const running = await start(settings)
    expect((await post(running, calls('a', 10), 'acme')).status).toBe(200)
    await acme.has(3)
    expect((await post(running, calls('b', 20), 'other')).status).toBe(200)
    await other.has(20)
    expect(acme.received).toHaveLength(3)
    held.shift()?.()
    await acme.has(4)
    const tenants = settings.tenants?.map((tenant) => ({ ...tenant, quotas: { concurrency: 5 } }))
    await running.reload({ ...settings, tenants })
    await acme.has(6)
    await post(running, calls('c', 20), 'other')
    await other.has(40)
    expect(acme.received).toHaveLength(6)
    while (acme.received.length < 10) {
      await vi.waitUntil(() => held.length > 0, 60_000)
      held.shift()?.()
    }
    for (const release of held) release()
    await vi.waitUntil(async () => (await running.stats()).length === 0, 5_000)
  })
})
