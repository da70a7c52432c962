import { expect, test } from 'vitest'
import { folderWith, start as startProcess, type Running } from '../cli/process.js'
import { ADMIN_TOKEN, endpoint } from '../run.js'

const MEMBERS = process.env['SLOW'] ? 100_000 : 3_000

test('an audience whose process is killed in the middle, twice, tells of each change once, and of all', async () => {
  const crm = await endpoint()
  const folder = folderWith({
    listen: '127.0.0.1:0',
    sources: [{ name: 'web', writeKey: 'k' }],
    destinations: [{ name: 'crm', sources: ['web'], webhooks: [{ url: crm.url }] }],
    allowNetworks: ['127.0.0.1'],
    adminToken: ADMIN_TOKEN,
  })
  const serve = async (): Promise<[Running, string]> => {
    const service = startProcess(['serve', '--log-level', 'info'], {
      folder,
    })
    const [, url = ''] = await service.printed(/"url":"([^"]+)".*"msg":"listening"/)
    return [service, url]
  }
  /** The result of the sync; `undefined` if the connection broke. */
  const put = async (url: string, from: number, to: number): Promise<unknown> => {
    const lines = Array.from({ length: to - from }, (_, i) => `"u${from + i}"\n`)
    const response = await fetch(`${url}/v1/audiences/vip?count=${to - from}`, {
      method: 'PUT',
      headers: {
        Authorization: `Bearer ${ADMIN_TOKEN}`,
        'Content-Type': 'application/x-ndjson',
      },
      body: lines.join(''),
    }).catch(() => undefined)
    return await response?.json().catch(() => undefined)
  }

  /** Sends a list, kills the process after a number of requests at the endpoint, and starts another process. */
  const killed = async ([service, url]: [Running, string], from: number, to: number) => {
    const before = crm.received.length
    const putting = put(url, from, to)
    await crm.has(before + 50)
    service.kill('SIGKILL')
    await Promise.all([service.ended, putting])
    return serve()
  }

  const half = MEMBERS / 2
  let serving = await killed(await serve(), 0, MEMBERS)
  expect(await put(serving[1], 0, MEMBERS)).toMatchObject({ success: true, listed: MEMBERS })
  serving = await killed(serving, half, MEMBERS + half)
  expect(await put(serving[1], half, MEMBERS + half)).toMatchObject({ listed: MEMBERS })
  const changes = () =>
    new Map(crm.received.map(({ event, headers }) => [headers['x-message-id'], event] as const))
  await expect.poll(() => changes().size, { timeout: 300_000 }).toBe(MEMBERS * 2)
  serving[0].kill('SIGTERM')
  expect((await serving[0].ended).code).toBe(0)

  const told = new Map<unknown, unknown[]>()
  for (const { userId, traits } of changes().values()) {
    told.set(userId, [...(told.get(userId) ?? []), (traits as { vip: boolean }).vip])
  }
  expect(told.size).toBe(MEMBERS + half)
  for (let i = 0; i < MEMBERS + half; i++) {
    const wanted = i < half ? [false, true] : [true]
    expect(told.get(`u${i}`)?.sort(), `u${i}`).toEqual(wanted)
  }
  console.log(`${crm.received.length} requests for ${MEMBERS * 2} changes, 2 kills`)
}, 600_000)
