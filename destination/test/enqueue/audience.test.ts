import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { json } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { createServer } from '../../src/http/server.js'
import { addActRoutes } from '../../src/operate/act-routes.js'
import type { TestEndpoint } from '../endpoint.js'
import { openStore } from '../../src/store/open.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { ADMIN_TOKEN, destination, endpoint, KEY, post, settingsFor, start, track } from '../run.js'
import { slowBody } from '../slow-body.js'

const NDJSON = 'application/x-ndjson'

interface Init {
  /** The number of members that the URL names. By default it is that of a list in JSON. */
  count?: number | string | undefined
  type?: string
  encoding?: string
  token?: string
}

async function put(
  { adminUrl }: Pick<RunningDestination, 'adminUrl'>,
  name: string,
  body: BodyInit,
  init: Init = {},
) {
  const { type = 'application/json', encoding, token = ADMIN_TOKEN } = init
  const count = 'count' in init ? init.count : countOf(body)
  const query = count === undefined ? '' : `?count=${count}`
  const response = await fetch(`${adminUrl}/v1/audiences/${encodeURIComponent(name)}${query}`, {
    method: 'PUT',
    headers: {
      'Content-Type': type,
      ...(encoding === undefined ? {} : { 'Content-Encoding': encoding }),
      ...(token === '' ? {} : { Authorization: `Bearer ${token}` }),
    },
    body,
    duplex: 'half',
  } as RequestInit)
  return [response.status, (await response.json()) as unknown]
}

function countOf(body: BodyInit): number {
  try {
    const members: unknown = JSON.parse(body as string)
    return Array.isArray(members) ? members.length : 0
  } catch {
    return 0
  }
}

const list = (...ids: unknown[]) => JSON.stringify(ids)
const told = ({ received }: TestEndpoint) =>
  received.map(({ event }) => [event['userId'], event['traits']])

describe('an audience', () => {
  test('is not told of to a destination without sources, which only gets what waits for it', async () => {
    const [crm, old] = [await endpoint(), await endpoint()]
    const former = destination([old], { name: 'old', sources: [] })
    const running = await start(settingsFor([destination([crm]), former]))
    await put(running, 'vip', list('u1'))
    await crm.has(1)
    await running.close()
    expect(told(old)).toEqual([])
  })

  test('is told of as identifies: at first of everyone, then of who joined or left', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    expect(await put(running, 'VIP Users', list('u1', 2, { userId: 'u3', more: true }))).toEqual([
      200,
      { success: true, audience: 'vip_users', listed: 3, joined: 3, left: 0 },
    ])
    await crm.has(3)
    expect(crm.received[0]?.body).toMatch(
      /^\{"version":1,"type":"identify","userId":"(u1|2|u3)","timestamp":"[\d-]+T[\d:.]+Z","traits":\{"vip_users":true\}\}$/,
    )
    expect(
      told(crm)
        .map(([user]) => user)
        .sort(),
    ).toEqual(['2', 'u1', 'u3'])

    expect(await put(running, 'vip_users', list('2', 'u3', 'u4'))).toMatchObject([
      200,
      { joined: 1, left: 1 },
    ])
    await crm.has(5)
    expect(Object.fromEntries(told(crm).slice(3))).toEqual({
      u1: { vip_users: false },
      u4: { vip_users: true },
    })
    expect(await put(running, 'VIP Users', list('u4', 'u3', '2'))).toMatchObject([
      200,
      { joined: 0, left: 0 },
    ])
    await running.close()
    expect(crm.received).toHaveLength(5)
  })

  test('goes signed to every destination that is enabled, and to no other', async () => {
    const [one, two, off] = [await endpoint(), await endpoint(), await endpoint()]
    const running = await start(
      settingsFor([
        destination([one], { name: 'one' }),
        destination([two], { name: 'two' }),
        destination([off], { name: 'off', enabled: false }),
      ]),
    )
    await put(running, 'VIP', list('u1'))
    await Promise.all([one.has(1), two.has(1)])
    await running.close()
    expect(one.received[0]?.headers['x-signature']).toMatch(/^[0-9a-f]{40}$/)
    expect([one, two, off].map(({ received }) => received.length)).toEqual([1, 1, 0])
  })

  test.each([
    ['plain', undefined],
    ['in gzip', 'gzip'],
  ])('may come as a stream of lines, %s', async (_, encoding) => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const lines = '"u1"\n2\r\n\n{"userId":"ü 3"}'
    const body = encoding === undefined ? lines : gzipSync(lines)
    const init = { type: NDJSON, count: 3, ...(encoding === undefined ? {} : { encoding }) }
    expect(await put(running, 'a', body, init)).toMatchObject([200, { listed: 3, joined: 3 }])
    await crm.has(3)
    expect(
      told(crm)
        .map(([user]) => user)
        .sort(),
    ).toEqual(['2', 'u1', 'ü 3'])
  })

  test('may come as JSON with a byte order mark', async () => {
    const running = await start(settingsFor([]))
    expect(await put(running, 'a', `\uFEFF${list('u1')}`, { count: 1 })).toMatchObject([
      200,
      { listed: 1 },
    ])
  })

  test.each<[string, BodyInit, string, number, string, RegExp]>([
    ...['u1,u2', '"u1"\n{"end":1}'].map(
      (text): [string, BodyInit, string, number, string, RegExp] => [
        'no JSON',
        text,
        'application/json',
        400,
        'invalid_members',
        /^The body must be a JSON array of user ids\. .* the content type application\/x-ndjson\./,
      ],
    ),
    [
      'an object',
      '{}',
      'application/json',
      400,
      'invalid_members',
      /array of user ids; got an obj/,
    ],
    [
      'a null',
      list('u1', null),
      'application/json',
      400,
      'invalid_members',
      /^Member 2 of the list/,
    ],
    [
      'an empty id',
      '"u1"\n""\n',
      NDJSON,
      400,
      'invalid_members',
      /^Line 2 must be the id of a user/,
    ],
    ['a broken line', '"u1"\n{"userId', NDJSON, 400, 'invalid_members', /^Line 2 must be JSON/],
    ...['', '"u1"\n'].flatMap((before, i) =>
      ['\n"u3"\n', ''].map((after): [string, BodyInit, string, number, string, RegExp] => [
        'a long line',
        `${before}{"userId":"u2","pad":"${'x'.repeat(10_000)}"}${after}`,
        NDJSON,
        400,
        'invalid_members',
        new RegExp(`^Line ${i + 1} is too long: the limit is 10000 characters per line\\.`),
      ]),
    ),
    [
      'an id in Latin-1',
      Buffer.from(list('u1', 'Zoë'), 'latin1'),
      'application/json',
      400,
      'invalid_members',
      /^The body must be in UTF-8\./,
    ],
    ...['"u1"\n"Zoë"\n"u2"\n', '"u1"\n"Zoë'].map(
      (lines): [string, BodyInit, string, number, string, RegExp] => [
        'a line in Latin-1',
        Buffer.from(lines, 'latin1'),
        NDJSON,
        400,
        'invalid_members',
        /^Line [12] or a later one is not in UTF-8\./,
      ],
    ),
    ['a number that is no id', list(1.5), 'application/json', 400, 'invalid_members', /got 1\.5/],
    [
      'a list that is too large',
      list('x'.repeat(5_000_000)),
      'text/plain',
      413,
      'body_too_large',
      /./,
    ],
  ])('with %s is refused, and nobody leaves', async (_, body, type, status, code, message) => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    await put(running, 'a', list('u0'))
    const refused = await put(running, 'a', body, { type })
    expect(refused).toMatchObject([
      status,
      { code, message: expect.stringMatching(message) as string },
    ])
    expect(await put(running, 'a', list('u0', 'u1'))).toMatchObject([200, { left: 0 }])
  })

  test.each([
    ['identity', Buffer.from('"u1"\n"u2"\n')],
    ['gzip', gzipSync('"u1"\n"u2"\n').subarray(0, -4)],
  ])('whose list in %s is cut off lets nobody go', async (encoding, bytes) => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    await put(running, 'a', list('u0'))
    const { hostname, port } = new URL(running.adminUrl)
    const socket = connect(Number(port), hostname)
    socket.write(
      `PUT /v1/audiences/a?count=3 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\n` +
        `Content-Type: ${NDJSON}\r\nContent-Encoding: ${encoding}\r\nContent-Length: 100\r\n\r\n`,
    )
    socket.end(bytes)
    socket.resume()
    await once(socket, 'close')
    expect(await put(running, 'a', list('u0', 'u1', 'u2'))).toMatchObject([200, { left: 0 }])
  })

  test.each<[string, BodyInit, Init, string, RegExp]>([
    [
      'nothing',
      '',
      {},
      'no_member_count',
      /^The list must say how many members it has, .*\?count=N/,
    ],
    ['nothing', '', { type: NDJSON }, 'no_member_count', /the last line \{"end":N\}/],
    ['no members', '[]', {}, 'no_member_count', /N is 0 if every user is to leave/],
    [
      'no count',
      '"u1"\n{"end":1}',
      { type: 'text/plain' },
      'no_member_count',
      /with the content type application\/x-ndjson\./,
    ],
    ['no count', '"u1"\n', { type: NDJSON }, 'no_member_count', /./],
    ['a larger count', list('u1'), { count: 2 }, 'wrong_member_count', /have 2 members.* has 1\./],
    ['a smaller count', list('u1'), { count: 0 }, 'wrong_member_count', /have 0 members.* has 1\./],
    [
      'a larger count in its end line',
      '"u1"\n{"end":2}',
      { type: NDJSON },
      'wrong_member_count',
      /have 2 members.* has 1\./,
    ],
    [
      'a count and an end line that differ',
      '"u1"\n{"end":1}',
      { type: NDJSON, count: 2 },
      'wrong_member_count',
      /have 2 members.* has 1\./,
    ],
    [
      'members after its end line',
      '{"end":0}\n"u1"\n{"end":1}',
      { type: NDJSON },
      'invalid_members',
      /^The line \{"end":0\} must be the last one\./,
    ],
    ['an end that is no number', '{"end":"1"}', { type: NDJSON }, 'invalid_members', /got "1"\./],
    ['an end in an array', '[{"end":1}]', { count: 1 }, 'invalid_members', /got an object\./],
    ['a count that is no number', list('u1'), { count: '-1' }, 'invalid_parameter', /got "-1"\./],
    ['two counts', list('u1'), { count: '1&count=1' }, 'invalid_parameter', /got an array\./],
  ])('with %s is refused, and nobody leaves', async (_, body, init, code, message) => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    await put(running, 'a', list('u0'))
    const [status, answer] = await put(running, 'a', body, { count: undefined, ...init })
    expect([status, answer]).toMatchObject([
      400,
      { code, message: expect.stringMatching(message) as string },
    ])
    expect((answer as { message: string }).message).toContain('No user has been removed')
    expect(await put(running, 'a', list('u0', 'u1'))).toMatchObject([200, { left: 0 }])
  })

  test.each<[string, Init]>([
    ['[]', {}],
    ['', { type: NDJSON, count: 0 }],
    ['{"end":0}\n', { type: NDJSON, count: undefined }],
  ])('is emptied by a list that says so: %j', async (body, init) => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    await put(running, 'a', list('u0'))
    expect(await put(running, 'a', body, init)).toMatchObject([200, { listed: 0, left: 1 }])
    await crm.has(2)
  })

  test('may have lines of 10,000 characters', async () => {
    const running = await start(settingsFor([]))
    const opening = '{"userId":"u1","pad":"'
    const line = `${opening.padEnd(9_998, 'x')}"}`
    const lines = `${line}\n${line}`
    expect(await put(running, 'long', lines, { type: NDJSON, count: 2 })).toMatchObject([200, {}])
  })

  test('may say its number of members in the last line', async () => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    const lines = '"u1"\n{"userId":"u2","end":7}\n\n{"end":2}\n'
    const init = { type: NDJSON, count: undefined }
    expect(await put(running, 'a', lines, init)).toMatchObject([200, { listed: 2, joined: 2 }])
  })

  test('is told of to a destination that was disabled, after the next list', async () => {
    const [crm, mail] = [await endpoint(), await endpoint()]
    const both = (enabled: boolean) => [
      destination([crm], { name: 'crm' }),
      destination([mail], { name: 'mail', enabled }),
    ]
    const settings = settingsFor(both(true))
    const running = await start(settings)
    await put(running, 'a', list('u1', 'u2'))
    await mail.has(2)
    await running.reload({ ...settings, destinations: both(false) })
    await put(running, 'a', list('u2', 'u3'))
    await running.reload(settings)
    expect(await put(running, 'a', list('u2', 'u3'))).toEqual([
      200,
      { success: true, audience: 'a', listed: 2, joined: 0, left: 0, caughtUp: 2 },
    ])
    await mail.has(4)
    await crm.has(4)
    expect(Object.fromEntries(told(mail).slice(2))).toEqual({
      u1: { a: false },
      u3: { a: true },
    })
  })

  test('is not told to a destination of a tenant', async () => {
    const [crm, acme] = [await endpoint(), await endpoint()]
    const running = await start(
      settingsFor([destination([crm]), destination([acme], { name: 'acme', tenant: 'acme' })], {
        tenants: [{ name: 'acme', portal: { editUrls: false } }],
        sources: [{ name: 'web', tenant: 'acme', writeKey: KEY }],
      }),
    )
    await put(running, 'a', list('u1', 'u2'))
    await post(running, [track('m1')])
    await crm.has(3)
    await acme.has(1)
    expect(acme.received.map(({ headers }) => headers['x-message-id'])).toEqual(['m1'])
  })

  test.each<[removed: string, back: string]>([
    ['a DELETE', 'a PUT'],
    ['a list of settings', 'a list of settings'],
    ['a DELETE', 'the settings file'],
  ])(
    'begins again for a destination that %s removed and %s brought back',
    async (removed, back) => {
      const [before, after] = [await endpoint(), await endpoint()]
      const settings = settingsFor([], { settingsKeys: [SETTINGS_KEY] })
      const running = await start(settings)
      const fields = ({ url }: TestEndpoint) => ({ sources: ['web'], webhooks: [{ url }] })
      const apply = (destinations: object[]) =>
        ask(running, 'POST', '/settings', {
          ...{ settings: { destinations }, dryRun: false, prune: true, waiting: 'discard' },
        })
      await ask(running, 'PUT', '/destinations/crm', fields(before))
      await put(running, 'a', list('u1', 'u2'))
      await before.has(2)
      // The messages about u3 are discarded, so that nobody is told of u3 but by the new destination.
      await ask(running, 'POST', '/destinations/crm/pause', { reason: 'test' })
      await put(running, 'a', list('u1', 'u2', 'u3'))
      const { body } =
        removed === 'a DELETE'
          ? await ask(running, 'DELETE', '/destinations/crm?waiting=discard')
          : await apply([])
      expect(body).toMatchObject({ discarded: 1 })
      if (back === 'a PUT') await ask(running, 'PUT', '/destinations/crm', fields(after))
      else if (back === 'a list of settings') await apply([{ name: 'crm', ...fields(after) }])
      else await running.reload({ ...settings, destinations: [destination([after])] })
      expect(await put(running, 'a', list('u1', 'u3', 'u4'))).toMatchObject([200, { caughtUp: 3 }])
      await after.has(3)
      expect(Object.fromEntries(told(after))).toEqual({
        ...{ u1: { a: true }, u3: { a: true }, u4: { a: true } },
      })
    },
  )

  test('begins again for a new destination, if a list has begun with the deleted one since', async () => {
    const crm = await endpoint()
    const settings = settingsFor([], { settingsKeys: [SETTINGS_KEY] })
    const fields = { sources: ['web'], webhooks: [{ url: crm.url }] }
    const first = await start(settings)
    await ask(first, 'PUT', '/destinations/crm', fields)
    await ask(first, 'DELETE', '/destinations/crm')
    await first.close()
    // Another process of the store learns of the deletion up to a second later, and sends the message to the former endpoint.
    const store = await openStore(settings.store)
    const sync = await store.beginSync('a', [{ name: 'crm', enabled: true }])
    const message = { source: 'audience:a', destination: 'crm', before: '{"userId":', after: '}' }
    await store.join(sync, ['u1'], [message])
    await store.discard('crm', 1)
    await store.close()
    const running = await start(settings)
    await ask(running, 'PUT', '/destinations/crm', fields)
    expect(await put(running, 'a', list('u1'))).toMatchObject([200, { caughtUp: 1 }])
    await crm.has(1)
  })

  test('goes on where it was for a destination that leaves the file and is back before the next list', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const running = await start(settings)
    await put(running, 'a', list('u1', 'u2'))
    await crm.has(2)
    await running.reload({ ...settings, destinations: [] })
    await running.reload(settings)
    expect(await put(running, 'a', list('u2'))).toEqual([
      200,
      { success: true, audience: 'a', listed: 1, joined: 0, left: 1 },
    ])
    await crm.has(3)
    expect(told(crm)[2]).toEqual(['u1', { a: false }])
  })

  test("is told of to a destination that was a tenant's, after the list that follows its return", async () => {
    const crm = await endpoint()
    const own = destination([crm])
    const given = { ...own, tenant: 'acme', sources: [] }
    const tenants = [{ name: 'acme', portal: { editUrls: false } }]
    const settings = settingsFor([own], { tenants })
    const running = await start(settings)
    await put(running, 'a', list('u1', 'u2'))
    await crm.has(2)
    await running.reload({ ...settings, destinations: [given] })
    await put(running, 'a', list('u2', 'u3'))
    await running.reload(settings)
    expect(await put(running, 'a', list('u2', 'u3'))).toMatchObject([200, { caughtUp: 2 }])
    await crm.has(4)
    expect(Object.fromEntries(told(crm).slice(2))).toEqual({ u1: { a: false }, u3: { a: true } })
  })

  test("is told no further to a destination that becomes a tenant's during the list", async () => {
    const crm = await endpoint()
    const own = destination([crm])
    const tenants = [{ name: 'acme', portal: { editUrls: false } }]
    const settings = settingsFor([own], { tenants })
    const running = await start(settings)
    const slow = slowBody('"u1"\n'.repeat(1_000), '"u2"')
    const whole = put(running, 'a', slow.body, { type: NDJSON, count: 1_001 })
    await crm.has(1)
    const given = { ...own, tenant: 'acme', sources: [] }
    await running.reload({ ...settings, destinations: [given] })
    slow.goOn()
    expect(await whole).toMatchObject([200, { joined: 2 }])
    expect(await running.stats()).toEqual([])
    await running.reload(settings)
    expect(await put(running, 'a', list('u1', 'u2'))).toMatchObject([200, { caughtUp: 1 }])
    await crm.has(2)
    expect(told(crm)).toEqual([
      ['u1', { a: true }],
      ['u2', { a: true }],
    ])
  })

  test('of a name without a letter is refused', async () => {
    const running = await start(settingsFor([]))
    expect(await put(running, '🎉', list('u1'))).toMatchObject([400, { code: 'invalid_audience' }])
  })

  test('is shut without the token', async () => {
    const running = await start(settingsFor([]))
    expect(await put(running, 'a', list('u1'), { token: '' })).toMatchObject([
      401,
      { code: 'no_admin_token' },
    ])
    const off = await start(settingsFor([], { adminToken: undefined }))
    expect(await put(off, 'a', list('u1'))).toMatchObject([403, { code: 'admin_disabled' }])
  })

  test('whose list comes while a newer one has been begun is told so', async () => {
    const running = await start(settingsFor([]))
    const slow = slowBody('"u"\n'.repeat(1_000), '"u2"')
    const first = put(running, 'a', slow.body, { type: NDJSON, count: 1_001 })
    // A second list with the first piece of the first one changes nothing as soon as the first list has begun.
    await expect.poll(() => put(running, 'a', list('u'))).toMatchObject([200, { joined: 0 }])
    slow.goOn()
    expect(await first).toMatchObject([409, { code: 'audience_superseded' }])
  })
})

/** Lines of which the sixth is not JSON, or all are; larger than what a connection holds. */
const longList = (isValid: boolean) =>
  Array.from({ length: 20_000 }, (_, i) =>
    i === 5 && !isValid ? '{bad\n' : `"user-${i}-${Math.random()}"\n`,
  ).join('')

test.each([
  ['a bad line', longList(false), undefined, [400, 'invalid_members']],
  ['a bad line, in gzip', gzipSync(longList(false)), 'gzip', [400, 'invalid_members']],
  ['a list that is not gzip', longList(true), 'gzip', [400, 'invalid_gzip']],
  ['an unknown encoding', longList(true), 'br', [415, 'unsupported_encoding']],
])(
  '%s does not hold up the next request of its connection',
  async (_, body, encoding, expected) => {
    const running = await start(settingsFor([]))
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => {
      agent.destroy()
    })
    const send = async (method: string, path: string, given: string | Buffer = '') => {
      const headers = {
        ...{ Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': NDJSON },
        ...{ 'Content-Length': Buffer.byteLength(given) },
        ...(method === 'PUT' && encoding !== undefined && { 'Content-Encoding': encoding }),
      }
      const sent = request(`${running.adminUrl}${path}`, { method, agent, headers })
      sent.end(given)
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      const { code } = (await json(response)) as { code?: string }
      return { status: response.statusCode, code, isReused: sent.reusedSocket }
    }
    const refused = await send('PUT', '/v1/audiences/a?count=20000', body)
    expect([refused.status, refused.code]).toEqual(expected)
    // The error of a body that stays in the connection comes after 30 s.
    expect(await send('GET', '/v1/admin/status')).toMatchObject({ status: 200, isReused: true })
  },
)

test('a list may take longer than other requests, as long as it comes', async () => {
  const nothing = () => undefined
  const timeouts = { headersMs: 100, requestMs: 200, checkMs: 20 }
  const server = createServer({ warn: nothing, error: nothing }, '', { timeouts })
  const listed: string[] = []
  addActRoutes(server.app, {
    settings: () => ({ adminToken: ADMIN_TOKEN, tenants: [] }),
    isKeptLocal: false,
    clock: { wall: Date.now },
    syncAudience: async (_, members) => {
      for await (const piece of members) listed.push(...piece)
      return { listed: listed.length, joined: 0, left: 0 }
    },
    deleteUser: () => Promise.resolve({ sent: 0, purged: 0 }),
  })
  const adminUrl = await server.listen('127.0.0.1', 0)
  const startedAt = performance.now()
  let sent = 0
  const slow = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      // Goes on for much longer than the 200 ms after which the server closes the connection of any other request.
      if (performance.now() - startedAt > 1_000) {
        controller.enqueue(Buffer.from(`{"end":${sent}}`))
        controller.close()
        return
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
      controller.enqueue(Buffer.from(`"u${sent++}"\n`))
    },
  })
  expect(await put({ adminUrl }, 'a', slow, { type: NDJSON, count: undefined })).toMatchObject([
    200,
    {},
  ])
  expect(listed).toHaveLength(sent)
  await server.close(0)
})
