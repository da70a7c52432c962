import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { Replayed } from '../../src/model/answers.js'
import { getDead, getDeliveries } from '../../src/operate/read-routes.js'
import type { Settings } from '../../src/settings/settings.js'
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

const BEARER = { authorization: `Bearer ${ADMIN_TOKEN}` }

interface Answer {
  status: number
  headers: Headers
  body: Record<string, unknown>
}

/** Asks the admin API, as somebody with the token unless it is said otherwise. */
async function ask(
  { adminUrl }: RunningDestination,
  path: string,
  { body, headers = BEARER }: { body?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const posting = body !== undefined && {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
  }
  const response = await fetch(`${adminUrl}/v1/admin${path}`, {
    ...posting,
    headers: { ...(posting && { 'content-type': 'application/json' }), ...headers },
  })
  const { status, headers: received } = response
  return { status, headers: received, body: (await response.json()) as Answer['body'] }
}

/** A destination with one endpoint. */
async function running(
  script: Parameters<typeof endpoint> = [204],
  changes: Partial<Settings> = {},
) {
  const crm = await endpoint(...script)
  const settings = settingsFor([destination([{ url: `${crm.url}?key=s3cr3t` }])], changes)
  return { crm, settings, destination: await start(settings) }
}

/** Asks until it is so: what an endpoint has got is settled a moment later. */
async function until<T>(get: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await get()
    if (isSo(value)) return value
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

interface Listed {
  deliveries: { id: number; messageId: string; state: string }[]
  next: string | null
  isComplete: boolean
}

const listed = async (one: RunningDestination, query = '') =>
  (await ask(one, `/deliveries${query}`)).body as unknown as Listed

/** Waits until a state has so many deliveries. */
const has = (one: RunningDestination, state: string, count: number) =>
  until(
    () => listed(one, `?state=${state}`),
    ({ deliveries }) => deliveries.length === count,
  )

describe('who may', () => {
  const READS = [
    '/status',
    '/deliveries',
    '/deliveries/1',
    '/messages/m',
    '/messages?messageId=m',
    '/stream',
  ] as const
  const WRITES = ['/replay'] as const

  const WHO: [string, Record<string, string>, number | 'ok'][] = [
    ['on this machine, without a token', {}, 401],
    ['on this machine, with a wrong one', { authorization: 'Bearer wrong' }, 401],
    ['with the token', BEARER, 'ok'],
    ['through a proxy, without a token', { 'x-forwarded-for': '203.0.113.7' }, 401],
    ['through another, without a token', { forwarded: 'for=203.0.113.7' }, 401],
    [
      'through a proxy, with a wrong one',
      { 'x-forwarded-for': '203.0.113.7', authorization: 'Bearer wrong' },
      401,
    ],
    ['through a proxy, with the token', { 'x-forwarded-for': '203.0.113.7', ...BEARER }, 'ok'],
    ["by a stranger's name for this machine", { host: 'evil.example.com' }, 401],
    ['by localhost', { host: 'localhost:3300' }, 401],
    ['by the address of IPv6', { host: '[::1]:3300' }, 401],
  ]

  /** The status of a request, by a socket: fetch sets its own host, and a stream has no end. */
  const statusOf = async (
    url: string,
    method: string,
    path: string,
    headers: Record<string, string>,
    version = '1.1',
  ) => {
    const { port, host } = new URL(url)
    const lines = Object.entries({ host, connection: 'close', ...headers })
    const body = method === 'POST' ? '{"all":true}' : ''
    if (body)
      lines.push(['content-type', 'application/json'], ['content-length', String(body.length)])
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(
      `${method} ${path} HTTP/${version}\r\n` +
        lines.map(([name, value]) => `${name}: ${value}\r\n`).join('') +
        `\r\n${body}`,
    )
    const [line] = await new Promise<string[]>((resolve) => {
      socket.once('data', (data) => {
        resolve(data.toString().split('\r\n'))
      })
    })
    socket.destroy()
    return Number(line?.split(' ')[1])
  }

  const routes = [
    ...READS.map((path) => ['GET', `/v1/admin${path}`] as const),
    ...WRITES.map((path) => ['POST', `/v1/admin${path}`] as const),
    ['GET', '/metrics'] as const,
  ]

  test.each([['127.0.0.1'], ['0.0.0.0'], [undefined]])(
    'read and write: nobody without the token, if the settings have one, at the address %s',
    async (host) => {
      const adminListen = host === undefined ? undefined : { host, port: 0 }
      const { destination } = await running([204], { adminListen })
      await post(destination, [track('m')])
      for (const [who, headers, expected] of WHO) {
        for (const [method, path] of routes) {
          const status = await statusOf(destination.adminUrl, method, path, headers)
          expect(status, `${path} ${who}`).toBe(expected === 'ok' ? 200 : expected)
        }
      }
    },
  )

  test('read without a token in the settings: only who comes to a loopback address of the operator', async () => {
    const { destination } = await running([204], {
      adminToken: undefined,
      adminListen: { host: '127.0.0.1', port: 0 },
    })
    const statusAt = (headers: Record<string, string>, version?: string) =>
      statusOf(destination.adminUrl, 'GET', '/v1/admin/status', headers, version)
    for (const headers of [{}, { host: 'localhost:3301' }, { host: '[::1]:3301' }]) {
      expect(await statusAt(headers)).toBe(200)
    }
    const proxied: Record<string, string>[] = [
      { 'x-forwarded-for': '203.0.113.7' },
      { via: '1.1 a' },
      { host: 'evil.test' },
    ]
    for (const headers of proxied) expect(await statusAt(headers)).toBe(403)
    expect(await statusAt({}, '1.0')).toBe(403)
    expect(await statusOf(destination.adminUrl, 'POST', '/v1/admin/replay', {})).toBe(403)
    expect(await statusOf(destination.url, 'GET', '/v1/admin/status', {})).toBe(404)
  })

  test.each([[{ host: '0.0.0.0', port: 0 }], [undefined]])(
    'read without a token in the settings: nobody, if the address is %j',
    async (adminListen) => {
      const { destination } = await running([204], { adminToken: undefined, adminListen })
      // A proxy on the same machine that adds no header, as nginx does by default, looks exactly like this.
      for (const [method, path] of routes) {
        expect(await statusOf(destination.adminUrl, method, path, {}), path).toBe(403)
      }
    },
  )

  test('write nothing where there is no token', async () => {
    const adminListen = { host: '127.0.0.1', port: 0 }
    const { destination } = await running([204], { adminToken: undefined, adminListen })
    const { status, body } = await ask(destination, '/replay', { body: { all: true } })
    expect({ status, body }).toMatchObject({
      status: 403,
      body: { error: { code: 'admin_disabled' } },
    })
    const { body: told } = await ask(destination, '/status', { headers: {} })
    expect(told).toMatchObject({ access: 'reader' })
  })

  test('is told why not', async () => {
    const { destination } = await running()
    const headers = { 'x-forwarded-for': '203.0.113.7' }
    const without = await ask(destination, '/status', { headers })
    expect(without.body).toMatchObject({ error: { code: 'no_admin_token' } })
    const wrong = { ...headers, authorization: 'Bearer wrong' }
    const { body } = await ask(destination, '/status', { headers: wrong })
    expect(body).toMatchObject({ error: { code: 'wrong_admin_token' } })
    expect(without.headers.get('cache-control')).toBe('no-store')
  })
})

test('the status tells of sources, destinations, endpoints and breakers', async () => {
  const { crm, destination } = await running()
  await post(destination, [track('a'), track('b'), { type: 'none', messageId: 'c' }])
  await has(destination, 'done', 2)
  const { body } = await ask(destination, '/status')
  expect(body).toMatchObject({
    access: 'admin',
    store: 'sqlite',
    role: 'all',
    retentionMs: 7 * 86_400_000,
    sources: [{ name: 'web', accepted: 2, rejected: 1 }],
    destinations: [
      {
        name: 'crm',
        enabled: true,
        sources: ['web'],
        fresh: 0,
        backlog: 0,
        bulk: 0,
        leased: 0,
        dead: 0,
        oldestMs: 0,
        endpoints: [
          {
            url: crm.url,
            breaker: { state: 'closed', allowed: 128, inFlight: 0, waiting: 0 },
            delivered: 2,
            failed: 0,
            p50Ms: expect.any(Number) as number,
            p99Ms: expect.any(Number) as number,
            lastFailure: null,
          },
        ],
      },
    ],
  })
  expect((await ask(destination, '/status', { headers: {} })).body).toMatchObject({
    error: { code: 'no_admin_token' },
  })
})

describe('deliveries', () => {
  test('are listed, the newest first, page by page', async () => {
    const { destination } = await running()
    for (const id of ['a', 'b', 'c']) await post(destination, [track(id, { event: `E${id}` })])
    await has(destination, 'done', 3)
    const first = await listed(destination, '?limit=2')
    expect(first.deliveries.map(({ messageId }) => messageId)).toEqual(['c', 'b'])
    expect(first).toMatchObject({ isComplete: true, next: expect.any(String) as string })
    const second = await listed(destination, `?limit=2&before=${first.next}`)
    expect(second.deliveries.map(({ messageId }) => messageId)).toEqual(['a'])
    expect(second.next).toBeNull()
    expect(
      await listed(destination, '?event=Eb&user=u1&source=web&destination=crm&type=track'),
    ).toEqual({
      deliveries: [
        {
          id: expect.any(Number) as number,
          messageId: 'b',
          source: 'web',
          destination: 'crm',
          type: 'track',
          event: 'Eb',
          user: 'u1',
          state: 'done',
          reason: null,
          attempt: 1,
          receivedAt: expect.any(Number) as number,
          dueAt: null,
          cause: null,
          lastCode: 'delivered',
          lastStatus: 204,
        },
      ],
      next: null,
      isComplete: true,
    })
    expect((await listed(destination, '?state=waiting')).deliveries).toEqual([])
  })

  test('are told of whole, one by one and by their message', async () => {
    const { crm, destination } = await running([
      500,
      (response) => response.writeHead(400).end('no such thing'),
    ])
    await post(destination, [track('m1/ä')])
    const waiting = await has(destination, 'backlog', 1)
    const path = `/deliveries/${waiting.deliveries[0]?.id}`
    const { body: before } = await ask(destination, path)
    expect(before).toMatchObject({
      state: 'backlog',
      attempts: [{ code: 'server_error', url: crm.url }],
    })
    expect(before['deadlineAt']).toBe((before['firstAttemptAt'] as number) + 4 * 3_600_000)
    await has(destination, 'dead', 1)
    const { body } = await ask(destination, path)
    expect(body).toMatchObject({
      messageId: 'm1/ä',
      body: crm.received[0]?.body,
      state: 'dead',
      reason: expect.stringContaining('refused') as string,
      deadlineAt: null,
      attempts: [
        { attempt: 1, status: 500, url: crm.url },
        { attempt: 2, status: 400, response: 'no such thing' },
      ],
    })
    const message = await ask(destination, `/messages/${encodeURIComponent('m1/ä')}`)
    expect(message.body).toMatchObject({ deliveries: [body], now: expect.any(Number) as number })
    const withKey = async (key: string) => {
      const headers = { ...BEARER, 'x-write-key': key }
      const path = encodeURIComponent('m1/ä')
      return await Promise.all([
        ask(destination, `/messages/${path}`, { headers }),
        ask(destination, `/messages?messageId=${path}`, { headers }),
      ])
    }
    for (const { body: own } of await withKey(KEY))
      expect(own).toMatchObject({ deliveries: [body], now: expect.any(Number) as number })
    for (const [key, code] of [
      ['other', 'unknown_message'],
      ['%zz', 'invalid_parameter'],
    ] as const) {
      for (const { body: none } of await withKey(key))
        expect(none).toMatchObject({ error: { code } })
    }
  })
})

test.each([
  ['GET', 'nothing', 404, 'not_found'],
  ['POST', 'nothing/here?x=1', 404, 'not_found'],
  ['GET', '', 404, 'not_found'],
  ['GET', 'replay', 405, 'method_not_allowed'],
  ['POST', 'deliveries/1', 405, 'method_not_allowed'],
  ['DELETE', 'messages/m1', 405, 'method_not_allowed'],
  ['POST', 'deliveries/1/more', 404, 'not_found'],
  ['GET', 'messages/%zz', 400, 'bad_request'],
  ['GET', 'messages/LONG', 414, 'bad_request'],
])(
  'an error of the admin API has one form: %s /v1/admin/%s',
  async (method, path, status, code) => {
    const { destination } = await running()
    const url = `${destination.adminUrl}/v1/admin/${path.replace('LONG', 'm'.repeat(1_001))}`
    const response = await fetch(url, { method, headers: BEARER })
    expect(response.status).toBe(status)
    expect(await response.json()).toEqual({
      error: { code, message: expect.any(String) as string },
    })
  },
)

describe('a search', () => {
  const group = (cause: string, count: number) => {
    const at = { firstAt: 1, lastAt: 1 }
    return { destination: 'crm', code: 'client_error', status: 422, cause, count, ...at } as const
  }

  test('for the causes of dead letters reads 10,000 of them, and says that there may be more', async () => {
    const next = { diedAt: 1, id: 1 }
    const found = await getDead(
      {
        stats: () => Promise.resolve([]),
        deadGroups: (_, _before, limit) =>
          Promise.resolve({ groups: [group('no', Math.min(limit, 300))], next }),
      },
      'crm',
    )
    expect(found).toEqual({ groups: [group('no', 10_000)], isComplete: false })
  })

  test('for the causes of dead letters gives the 100 that most have, and says that there are more', async () => {
    const groups = Array.from({ length: 101 }, (_, i) => group(`no ${i}`, i + 1)).reverse()
    const first = (count: number) => ({
      stats: () => Promise.resolve([]),
      deadGroups: () => Promise.resolve({ groups: groups.slice(0, count), next: undefined }),
    })
    expect(await getDead(first(100), 'crm')).toEqual({
      groups: groups.slice(0, 100),
      isComplete: true,
    })
    expect(await getDead(first(101), 'crm')).toEqual({
      groups: groups.slice(0, 100),
      isComplete: false,
    })
  })

  test.each(['', '?key=s3cr3t', '?', '#top'])(
    'for an endpoint takes its URL with %j behind it',
    async (rest) => {
      const { crm, destination } = await running([400])
      await post(destination, [track('m')])
      await has(destination, 'dead', 1)
      const endpoint = crm.url + rest
      const query = `?endpoint=${encodeURIComponent(endpoint)}`
      expect((await listed(destination, query)).deliveries).toMatchObject([{ messageId: 'm' }])
      const other = `?endpoint=${encodeURIComponent(`${crm.url}x${rest}`)}`
      expect((await listed(destination, other)).deliveries).toEqual([])
      const { body } = await ask(destination, '/replay', {
        body: { filter: { endpoint }, dryRun: true },
      })
      expect(body).toMatchObject({ matched: 1 })
    },
  )

  test('stops after a second, and says so', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => {
      vi.useRealTimers()
    })
    const slices: string[] = []
    const afterHalfASecond = <T>(slice: string, found: T): Promise<T> => {
      slices.push(slice)
      vi.advanceTimersByTime(500)
      return Promise.resolve(found)
    }
    const next = { diedAt: 1, id: 1 }
    const dead = await getDead(
      {
        stats: () => Promise.resolve([]),
        deadGroups: () => afterHalfASecond('dead', { groups: [group('no', 1)], next }),
      },
      'crm',
    )
    expect(dead).toEqual({ groups: [group('no', 2)], isComplete: false })
    const list = await getDeliveries(
      { find: () => afterHalfASecond('found', { deliveries: [], next: 7 }) },
      { filter: {}, before: undefined, limit: 50 },
    )
    expect(list).toEqual({ deliveries: [], next: '7', isComplete: false })
    expect(slices).toEqual(['dead', 'dead', 'found', 'found'])
  })
})

test.each([
  ['shows signatures', 'with an adminToken', ADMIN_TOKEN, /^(?:[0-9a-f]{40}|v1,.+)$/],
  ['shows no signature', 'without one', undefined, /^…$/],
])('a delivery %s in settings %s', async (_shown, _token, adminToken, expected) => {
  const crm = await endpoint()
  const webhookSecrets = [`whsec_${Buffer.alloc(32, 1).toString('base64')}`]
  const settings = settingsFor([destination([crm], { webhookSecrets })], {
    adminToken,
    adminListen: { host: '127.0.0.1', port: 0 },
  })
  const one = await start(settings)
  await post(one, [track('m1')])
  await crm.has(1)
  const { body } = await ask(one, '/deliveries/1', adminToken === undefined ? { headers: {} } : {})
  const [request] = body['requests'] as { headers: [string, string][] }[]
  const headers = Object.fromEntries(request?.headers ?? [])
  for (const name of ['X-Signature', 'webhook-signature']) expect(headers[name]).toMatch(expected)
})

test('an error of another route keeps the form that clients know', async () => {
  const { destination } = await running()
  const response = await fetch(`${destination.url}/v1/administration`)
  expect(await response.json()).toMatchObject({ success: false, code: 'not_found' })
})

describe('a replay', () => {
  test('by filter tells first, and then sends what is dead again', async () => {
    const { crm, destination } = await running([400, 400, 400, 204])
    await post(destination, [track('a', { event: 'A' }), track('b', { event: 'B' })])
    await post(destination, [track('c', { event: 'A' })])
    await has(destination, 'dead', 3)
    const filter = { event: 'A', source: 'web', until: Date.now() + 1_000 }
    const dry = await ask(destination, '/replay', { body: { filter, dryRun: true } })
    const byDestination = [{ name: 'crm', count: 2 }]
    const asOf = expect.any(Number) as number
    expect(dry.body).toEqual({
      ...{ matched: 2, replayed: 0, byDestination, kept: [], dryRun: true, asOf },
    })
    expect(crm.received).toHaveLength(3)
    const { body } = await ask(destination, '/replay', { body: { filter } })
    expect(body).toEqual({ matched: 2, replayed: 2, byDestination, kept: [], dryRun: false })
    await has(destination, 'done', 2)
    expect(crm.received.slice(3).map(({ headers }) => headers['x-attempt'])).toEqual(['2', '2'])
    expect((await listed(destination, '?state=dead')).deliveries).toMatchObject([
      { messageId: 'b' },
    ])
    const again = await ask(destination, '/replay', { body: { filter } })
    expect(again.body).toMatchObject({ matched: 0, replayed: 0 })
    expect((await ask(destination, '/replay', { body: { all: true } })).body).toMatchObject({
      replayed: 1,
    })
    await has(destination, 'done', 3)
  })

  test('of one message is a retry, and of several is bulk work, as are audiences and calls that say so', async () => {
    const { destination } = await running([400, 400, 400, 503])
    await post(destination, [track('a'), track('b'), track('c')])
    const { deliveries } = await has(destination, 'dead', 3)
    const [first, ...others] = deliveries.map(({ id }) => id)
    await ask(destination, '/replay', { body: { ids: [first] } })
    await has(destination, 'backlog', 1)
    await ask(destination, '/replay', { body: { ids: others } })
    await has(destination, 'bulk', 2)
    await fetch(`${destination.adminUrl}/v1/audiences/vip?count=2`, {
      method: 'PUT',
      headers: BEARER,
      body: '["u1","u2"]',
    })
    await has(destination, 'bulk', 4)
    await fetch(`${destination.url}/v1/batch`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${KEY}:`)}`, 'x-lane': 'bulk' },
      body: JSON.stringify({ batch: [track('d')] }),
    })
    await has(destination, 'bulk', 5)
    // One may be leased at a moment, because it is tried again.
    await expect
      .poll(async () => (await ask(destination, '/status')).body)
      .toMatchObject({ destinations: [{ backlog: 1, bulk: 5, dead: 0 }] })
  })

  test('leaves the dead letters of a destination that is disabled or not in the settings, and says so', async () => {
    const { crm, destination, settings } = await running([400, 204])
    await post(destination, [track('a')])
    await has(destination, 'dead', 1)
    const [first] = settings.destinations
    if (!first) throw new Error('there is no destination')
    for (const changed of [
      { ...first, name: 'renamed' },
      { ...first, enabled: false },
    ]) {
      await destination.reload({ ...settings, destinations: [changed] })
      for (const dryRun of [true, false]) {
        const { body } = await ask(destination, '/replay', { body: { all: true, dryRun } })
        expect(body).toMatchObject({
          ...{ matched: 0, replayed: 0, byDestination: [], dryRun },
          kept: [{ name: 'crm', count: 1 }],
        })
      }
    }
    await destination.reload(settings)
    const { body } = await ask(destination, '/replay', { body: { all: true } })
    expect(body).toMatchObject({ replayed: 1, kept: [] })
    await crm.has(2)
  })

  test('of a count that is no longer right sends nothing and says the new one', async () => {
    const { crm, destination } = await running([400, 400, 204])
    await post(destination, [track('a'), track('b')])
    await has(destination, 'dead', 2)
    const confirm = (count: unknown) =>
      ask(destination, '/replay', { body: { all: true, confirm: count } })
    for (const count of [0, 1, 3]) {
      expect(await confirm(count)).toMatchObject({
        status: 409,
        body: {
          error: {
            code: 'count_changed',
            message: `The count is 2, not ${count}. Nothing was sent by this request. Confirm 2 to send them.`,
          },
        },
      })
    }
    for (const text of ['many', '2']) expect((await confirm(text)).status).toBe(400)
    const since = { filter: { since: '1' }, dryRun: true }
    expect(await ask(destination, '/replay', { body: since })).toMatchObject({
      status: 400,
      body: { error: { message: 'since must be a whole number of at least 0, got "1".' } },
    })
    const range = { filter: { since: 2_000, until: 1_000 }, dryRun: true }
    expect(await ask(destination, '/replay', { body: range })).toMatchObject({
      status: 400,
      body: {
        error: { message: 'since must be earlier than until, got since 2000 and until 1000.' },
      },
    })
    expect(crm.received).toHaveLength(2)
    expect((await confirm(2)).body).toMatchObject({ matched: 2, replayed: 2 })
    await has(destination, 'done', 2)
  })

  test.each([
    ['all', () => ({ all: true })],
    ['a filter', () => ({ filter: { destination: 'crm' } })],
    ['ids', (ids: number[]) => ({ ids })],
  ])('of %s that were counted takes no others, and a repeat sends nothing twice', async (_, of) => {
    const { crm, destination } = await running([400])
    await post(destination, [track('a'), track('b')])
    const { deliveries } = await has(destination, 'dead', 2)
    const which = of(deliveries.map(({ id }) => id))
    const counted = await ask(destination, '/replay', { body: { ...which, dryRun: true } })
    const { matched: confirm, asOf } = counted.body as unknown as Replayed
    expect(confirm).toBe(2)
    // Another one dies before the count is confirmed.
    await post(destination, [track('c')])
    await has(destination, 'dead', 3)
    const body = { ...which, confirm, asOf }
    expect((await ask(destination, '/replay', { body })).body).toMatchObject({ replayed: 2, asOf })
    await crm.has(5)
    await has(destination, 'dead', 3)
    // The answer was lost, and the client asks again. Both were refused again.
    const message = 'The count is 0, not 2. Nothing was sent by this request.'
    expect(await ask(destination, '/replay', { body })).toMatchObject({
      ...{ status: 409, body: { error: { code: 'count_changed', message } } },
    })
    const rest = await ask(destination, '/replay', { body: { ...which, asOf } })
    expect(rest.body).toMatchObject({ matched: 0, replayed: 0 })
    expect(crm.received.map(({ headers }) => headers['x-attempt'])).toEqual([
      ...['1', '1', '1', '2', '2'],
    ])
  })

  test('as of the future is refused: what dies until then would be sent again', async () => {
    const { destination } = await running()
    const counted = await ask(destination, '/replay', { body: { all: true, dryRun: true } })
    const { asOf: now } = counted.body as unknown as Required<Replayed>
    const asOf = now + 3_600_000
    for (const which of [{ all: true }, { ids: [1] }, { all: true, dryRun: true }]) {
      const refused = await ask(destination, '/replay', { body: { ...which, asOf } })
      expect(refused).toMatchObject({
        status: 400,
        body: {
          error: {
            code: 'invalid_parameter',
            message: expect.stringMatching(
              new RegExp(
                `^asOf must not be in the future: the clock of the store shows \\d+, got ${asOf}\\. Count with "dryRun": true, and`,
              ),
            ) as string,
          },
        },
      })
    }
  })

  test('by ids or message takes what has arrived only by force', async () => {
    const { crm, destination } = await running()
    await post(destination, [track('m')])
    const { deliveries } = await has(destination, 'done', 1)
    const ids = deliveries.map(({ id }) => id)
    for (const which of [{ ids }, { messageId: 'm' }]) {
      const without = await ask(destination, '/replay', { body: which })
      expect(without.body).toMatchObject({ matched: 0, replayed: 0 })
      const forced = await ask(destination, '/replay', { body: { ...which, force: true } })
      expect(forced.body).toMatchObject({ matched: 1, replayed: 1 })
      await has(destination, 'done', 1)
    }
    await crm.has(3)
    expect(crm.received.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2', '3'])
  })
})

describe('a wrong request', () => {
  // No test changes anything, so they share a destination.
  let shared: RunningDestination
  const cleanUps: (() => unknown)[] = []

  beforeAll(async () => {
    const later = (cleanUp: () => unknown) => void cleanUps.push(cleanUp)
    const settings = settingsFor([destination([{ url: 'http://127.0.0.1:9/' }])], {}, later)
    shared = await start(settings, silent, later)
  })

  afterAll(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  })

  test.each([
    ['/deliveries/99', 404, 'unknown_delivery'],
    ['/messages/none', 404, 'unknown_message'],
    ['/messages?messageId=none', 404, 'unknown_message'],
    ['/messages', 400, 'invalid_parameter'],
    ['/messages?id=none', 400, 'invalid_parameter'],
    ['/deliveries/x', 400, 'invalid_parameter'],
    ['/deliveries?limit=0', 400, 'invalid_parameter'],
    ['/deliveries?limit=201', 400, 'invalid_parameter'],
    ['/deliveries?state=lost', 400, 'invalid_parameter'],
    ['/deliveries?before=x', 400, 'invalid_parameter'],
    ['/deliveries?user=a&user=b', 400, 'invalid_parameter'],
    ['/deliveries?dest=crm', 400, 'invalid_parameter'],
    ['/deliveries?since=2&until=1', 400, 'invalid_parameter'],
    ['/deliveries?since=2&until=2', 400, 'invalid_parameter'],
    ['/deliveries?code=bogus', 400, 'invalid_parameter'],
    ['/deliveries?match=prefix&event=', 400, 'invalid_parameter'],
    ['/deliveries?match=prefix&messageId=&user=u', 400, 'invalid_parameter'],
    ['/deliveries?type=tracks', 400, 'invalid_parameter'],
  ])('%s is answered %i', async (path, status, code) => {
    expect(await ask(shared, path)).toMatchObject({ status, body: { error: { code } } })
  })

  test.each([
    'application/x-www-form-urlencoded',
    'text/plain',
    'application/json; charset=utf-8',
    'json',
    ';;;',
    '',
  ])('reads a body of the content type %j as JSON', async (type) => {
    const { destination } = await running([400, 204])
    await post(destination, [track('m')])
    await has(destination, 'dead', 1)
    const headers = { ...BEARER, 'content-type': type }
    const { status, body } = await ask(destination, '/replay', { body: { all: true }, headers })
    expect({ status, body }).toMatchObject({ status: 200, body: { replayed: 1 } })
    const deleted = await fetch(`${destination.url}/v1/deletions`, {
      method: 'POST',
      headers,
      body: '{"userId":"u9"}',
    })
    expect(deleted.status).toBe(200)
  })

  test.each(['text/plain', 'application/json'])(
    'needs the token, which no form of another site can send, whatever the content type: %s',
    async (type) => {
      const { destination } = await running()
      const headers = { 'content-type': type, origin: 'https://evil.example.com' }
      const { status } = await ask(destination, '/replay', { body: { all: true }, headers })
      expect(status).toBe(401)
      const preflight = await fetch(`${destination.adminUrl}/v1/admin/replay`, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://evil.example.com',
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization',
        },
      })
      expect(preflight.ok).toBe(false)
      expect(preflight.headers.get('access-control-allow-origin')).toBeNull()
    },
  )

  const MANY = Array.from({ length: 100_000 }, (_, i) => i + 1)
  test.each([
    ['', 'The body must be JSON in UTF-8: it is empty.'],
    ['all=true', /^The body must be JSON in UTF-8: /],
    ['[1]', 'The body must be a JSON object; got an array.'],
    ['{"ids":7}', 'ids must be a list of 1 to 10000 ids of deliveries, got 7.'],
    ['{"ids":[]}', 'ids must be a list of 1 to 10000 ids of deliveries, got an empty list.'],
    ['{"ids":[0]}', 'ids[0] must be a whole number of at least 1, got 0.'],
    ['{"ids":[1,"2",0]}', 'ids[1] must be a whole number of at least 1, got "2".'],
    [
      JSON.stringify({ ids: MANY }),
      'ids must be a list of 1 to 10000 ids of deliveries, got a list of 100000.',
    ],
  ])('of a wrong body names what is wrong', async (body, message) => {
    const { destination } = await running()
    const answer = await ask(destination, '/replay', { body })
    expect(answer).toMatchObject({
      status: 400,
      body: {
        error: {
          message:
            typeof message === 'string' ? message : (expect.stringMatching(message) as string),
        },
      },
    })
  })

  test('may be compressed', async () => {
    const { destination } = await running()
    const response = await fetch(`${destination.adminUrl}/v1/admin/replay`, {
      method: 'POST',
      headers: { ...BEARER, 'content-encoding': 'gzip' },
      body: gzipSync('{"all":true}'),
    })
    expect(response.status).toBe(200)
  })

  test.each([
    [{}],
    [{ all: true, ids: [1] }],
    [{ all: false }],
    [{ ids: [] }],
    [{ ids: ['1'] }],
    [{ filter: {} }],
    [{ filter: { match: 'prefix' } }],
    [{ filter: { match: 'prefix', event: '' } }],
    [{ filter: { match: 'prefix', user: '', destination: 'crm' } }],
    [{ filter: { dest: 'crm' } }],
    [{ filter: { since: 'yesterday' } }],
    [{ filter: { since: 2, until: 2 } }],
    [{ filter: { code: 'bogus' } }],
    [{ filter: { type: 'tracks' } }],
    [{ all: true, dryrun: true }],
    [{ all: true, dryRun: 'yes' }],
    [{ all: true, asOf: '1' }],
    [{ all: true, force: true }],
    [[1]],
    ['nothing'],
  ])('a replay of %j is refused', async (body) => {
    const answer = await ask(shared, '/replay', { body })
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({ error: { message: expect.any(String) as string } })
  })
})

describe('the stream', () => {
  test('tells of calls and attempts as they happen, and ends with the destination', async () => {
    const { destination, crm } = await running([500])
    const response = await fetch(`${destination.url}/v1/admin/stream`, { headers: BEARER })
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    await post(destination, [track('m')])
    await has(destination, 'backlog', 1)
    const all = text(response.body as unknown as AsyncIterable<Uint8Array> as never)
    await destination.close()
    const events = (await all)
      .split('\n\n')
      .filter((part) => part.startsWith('event: '))
      .map((part) => {
        const [, name = '', data = ''] = /^event: (.*)\ndata: (.*)$/.exec(part) ?? []
        return { name, ...(JSON.parse(data) as object) }
      })
    expect(events).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          name: 'call',
          source: 'web',
          type: 'track',
          event: 'Signed Up',
          user: 'u1',
          messageId: 'm',
        }),
        expect.objectContaining({
          name: 'attempt',
          id: expect.any(Number) as number,
          messageId: 'm',
          destination: 'crm',
          endpoint: crm.url,
          attempt: 1,
          code: 'server_error',
          status: 500,
          next: 'backlog',
          error: 'The endpoint answered 500.',
        }),
      ]),
    )
  })

  test('ends with the token with which it was opened', async () => {
    const operatorToken = 'the-token-of-an-operator'
    const { destination, settings } = await running([204], { operatorToken })
    const open = async (token: string) => {
      const headers = { Authorization: `Bearer ${token}` }
      const { status, body } = await fetch(`${destination.url}/v1/admin/stream`, { headers })
      expect(status).toBe(200)
      return { all: text(body as unknown as AsyncIterable<Uint8Array> as never) }
    }
    const [ofOperator, ofAdmin] = [await open(operatorToken), await open(ADMIN_TOKEN)]
    await destination.reload({ ...settings, operatorToken: 'another-token-of-an-operator' })
    expect(await ofOperator.all).toBe(': hello\n\n')
    await destination.reload({ ...settings, adminToken: 'another-admin-token-01' })
    expect(await ofAdmin.all).toBe(': hello\n\n')
  })

  test('ends with a client that shuts down its sending side, which gets the answers of other requests', async () => {
    const { destination } = await running()
    const answerOf = async (...paths: string[]): Promise<string> => {
      const port = Number(new URL(destination.url).port)
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
      const rest = `HTTP/1.1\r\nHost: a\r\nAuthorization: ${BEARER.authorization}\r\n\r\n`
      socket.end(paths.map((path) => `GET ${path} ${rest}`).join(''))
      return await text(socket)
    }
    expect(await answerOf('/v1/admin/status')).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*"destinations"/)
    expect(await answerOf('/v1/admin/stream')).not.toContain('data:')
    // Of more than 20 that stayed, the next one would be refused.
    for (let n = 0; n <= 20; n++) {
      expect(await answerOf('/v1/admin/status', '/v1/admin/stream')).not.toContain('data:')
    }
    const warned = vi.fn()
    process.on('warning', warned)
    onTestFinished(() => void process.off('warning', warned))
    const many = Array<string>(15).fill('/v1/admin/stream')
    expect(await answerOf('/v1/admin/status', ...many)).not.toContain('data:')
    expect(warned).not.toHaveBeenCalled()
    expect((await fetch(`${destination.url}/v1/admin/stream`, { headers: BEARER })).status).toBe(
      200,
    )
  })

  test(
    'has room for 20, and for another once one of them has hung up',
    { tags: 'long' },
    async () => {
      const { destination } = await running()
      const hangUp = new AbortController()
      const open = (signal?: AbortSignal) =>
        fetch(`${destination.url}/v1/admin/stream`, { headers: BEARER, ...(signal && { signal }) })
      const first = await open(hangUp.signal)
      expect(first.status).toBe(200)
      for (let n = 1; n < 20; n++) expect((await open()).status).toBe(200)
      const refused = await open()
      expect(refused.status).toBe(503)
      expect(await refused.json()).toMatchObject({ error: { code: 'too_many_listeners' } })
      hangUp.abort()
      const next = await until(open, ({ status }) => status === 200)
      expect(next.status).toBe(200)
    },
  )
})

describe('the trace that a request belongs to', () => {
  const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

  const send = (one: RunningDestination, messageId: string, traceparent: string, state?: string) =>
    fetch(`${one.url}/v1/track`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${btoa('web-key:')}`,
        traceparent,
        ...(state !== undefined && { tracestate: state }),
      },
      body: JSON.stringify(track(messageId)),
    })

  test('goes along with every attempt, if the settings say so', async () => {
    const { crm, destination } = await running([500, 204], { traceContext: true })
    await send(destination, 'a', TRACE)
    await crm.has(2)
    await send(destination, 'b', 'none')
    await crm.has(3)
    expect(crm.received.map(({ headers }) => headers['traceparent'])).toEqual([
      TRACE,
      TRACE,
      undefined,
    ])
  })

  test('has its state with it, and no state without a valid parent', async () => {
    const { crm, destination } = await running([500, 204], { traceContext: true })
    await send(destination, 'a', TRACE, 'congo=t61rcWkgMzE , rojo=00f067aa0ba902b7')
    await crm.has(2)
    await send(destination, 'b', 'none', 'congo=t61rcWkgMzE')
    await crm.has(3)
    await send(destination, 'c', TRACE, 'Congo=1')
    await crm.has(4)
    const pairs = crm.received.map(({ headers }) => [headers['traceparent'], headers['tracestate']])
    expect(pairs).toEqual([
      [TRACE, 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7'],
      [TRACE, 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7'],
      [undefined, undefined],
      [TRACE, undefined],
    ])
  })

  test('is left out otherwise', async () => {
    const { crm, destination } = await running()
    await send(destination, 'a', TRACE)
    await crm.has(1)
    expect(crm.received[0]?.headers['traceparent']).toBeUndefined()
  })
})
