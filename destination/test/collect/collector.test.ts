import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { webhookBody } from '../../src/enqueue/webhook-body.js'
import type { Call } from '../../src/model/call.js'
import { StoreError } from '../../src/store/store-error.js'
import { AUTHORIZATION, exchange, KEY, startCollector, type Started } from './start.js'

const call = {
  type: 'track',
  messageId: 'm',
  timestamp: '2026-01-02T03:04:05.678Z',
  userId: 'u',
  event: 'E',
}
const batch = JSON.stringify({ batch: [call] })

function post(
  { url }: Started,
  body: string | Buffer<ArrayBuffer> = batch,
  headers: Record<string, string> = {},
  path = '/v1/batch',
) {
  const init = { method: 'POST', headers: { authorization: AUTHORIZATION, ...headers }, body }
  return fetch(url + path, init)
}

/** The bytes of a request. A header that is `undefined` is left out. */
function raw(
  body: string | Buffer,
  headers: Record<string, string | undefined> = {},
  path = '/v1/batch',
) {
  const all: Record<string, string | undefined> = {
    Host: 'a',
    Authorization: AUTHORIZATION,
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
    ...headers,
  }
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}`],
  )
  return Buffer.concat([
    Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`),
    Buffer.from(body),
  ])
}

test.each([
  ['bulk', true],
  ['fast', false],
  [undefined, false],
])('the header X-Lane: %s makes calls bulk work: %s', async (lane, expected) => {
  const given: unknown[] = []
  const started = await startCollector({
    enqueueCalls: (_source, _calls, _traceParent, isBulk) =>
      Promise.resolve(void given.push(isBulk)),
  })
  const response = await post(started, batch, lane === undefined ? {} : { 'X-Lane': lane })
  expect(response.status).toBe(200)
  expect(given).toEqual([expected])
})

/** A promise, and the function that resolves it. */
function gate() {
  const settle: { open?: () => void } = {}
  const opened = new Promise<void>((resolve) => {
    settle.open = resolve
  })
  return { open: () => settle.open?.(), opened }
}

/** Accepts calls only once `open` is called. `arrived` resolves as soon as some are there. */
function holdCalls(started: Awaited<ReturnType<typeof startCollector>>) {
  const { open, opened } = gate()
  const arrived = gate()
  started.accept = () => {
    arrived.open()
    return opened
  }
  return { open, arrived: arrived.opened }
}

describe('a request', () => {
  test('is answered 200 once its calls are accepted, and not before', async () => {
    const started = await startCollector()
    const { open, arrived } = holdCalls(started)
    let answered = false
    const answer = post(started).then((response) => {
      answered = true
      return response
    })
    await arrived
    await fetch(started.url) // a round trip of another request
    expect(answered).toBe(false)
    open()
    const response = await answer
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.text()).toBe('{"success":true}')
    expect(started.accepted).toEqual([{ source: 'web', calls: [call] }])
  })

  test.each(['identify', 'track', 'page', 'screen', 'group', 'alias'])(
    'may be one %s',
    async (type) => {
      const started = await startCollector()
      const body = { userId: 'u', event: 'E', groupId: 'g', previousId: 'p' }
      const response = await post(started, JSON.stringify(body), {}, `/v1/${type}`)
      expect(response.status).toBe(200)
      expect(started.accepted).toMatchObject([{ source: 'web', calls: [{ type, userId: 'u' }] }])
    },
  )

  test('may end its path with a slash, and have a query', async () => {
    const started = await startCollector()
    expect((await post(started, batch, {}, '/v1/batch/?a=1')).status).toBe(200)
  })

  test.each([
    '',
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset=utf-8',
    'json',
    ';;;',
  ])('may have the content type %j', async (type) => {
    const { port, accepted } = await startCollector()
    const answer = await exchange(port, raw(batch, { 'Content-Type': type || undefined }))
    expect(answer).toContain('HTTP/1.1 200 OK')
    expect(accepted).toHaveLength(1)
  })

  test.each(['gzip', 'GZIP', 'x-gzip', undefined])(
    'may be compressed, its encoding %j',
    async (encoding) => {
      const { port, accepted } = await startCollector()
      const bytes = raw(gzipSync(batch), {
        'Content-Encoding': encoding,
        'Content-Type': 'text/plain',
      })
      expect(await exchange(port, bytes)).toContain('HTTP/1.1 200 OK')
      expect(accepted).toHaveLength(1)
    },
  )

  test('may say gzip where a proxy has decompressed it', async () => {
    const started = await startCollector()
    expect((await post(started, batch, { 'content-encoding': 'gzip' })).status).toBe(200)
  })

  test('may come in chunks', async () => {
    const { port, accepted } = await startCollector()
    const head = raw('', { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' })
    const chunks = Array.from(batch, (character) => `1\r\n${character}\r\n`).join('')
    expect(await exchange(port, head, chunks, '0\r\n\r\n')).toContain('HTTP/1.1 200 OK')
    expect(accepted).toMatchObject([{ calls: [call] }])
  })

  test('may follow others on one connection before they are answered', async () => {
    const { port, accepted } = await startCollector()
    const one = raw(batch, { Connection: 'keep-alive' })
    const answer = await exchange(port, Buffer.concat([one, one, raw(batch)]))
    expect(answer.match(/HTTP\/1.1 200 OK/g)).toHaveLength(3)
    expect(accepted).toHaveLength(3)
  })

  test('with some bad calls keeps the good ones and tells of the others', async () => {
    const started = await startCollector()
    const response = await post(started, JSON.stringify({ batch: [{ type: 'x' }, call] }))
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual({
      success: true,
      rejected: [
        {
          index: 0,
          code: 'unknown_type',
          message: 'type must be one of identify, track, page, screen, group, alias; got "x".',
        },
      ],
    })
    expect(started.accepted).toMatchObject([{ calls: [call] }])
  })

  describe('with numbers that JavaScript cannot hold', () => {
    const BIG = '1234567890123456789'
    const warning = (index: number | undefined, path: string, number = BIG) => ({
      ...(index !== undefined && { index }),
      path,
      message:
        number === BIG
          ? `The number ${BIG} is forwarded as 1234567890123456800, the closest number of JavaScript. Send it as a string to keep its value.`
          : 'The number 1e400 is forwarded as null, because it is too large for JavaScript. Send it as a string to keep its value.',
    })
    const withBig = (properties: string) =>
      JSON.stringify({ ...call, properties: 'P' }).replace('"P"', properties)

    test('is accepted, and the answer names each of them', async () => {
      const started = await startCollector()
      const bad = withBig(`{"total":${BIG}}`).replace('"track"', '"x"')
      const good = withBig(`{"total":1.0,"items":[{"id":7},{"id":${BIG}}],"rate":1e400}`)
      const body = `{"batch":[${JSON.stringify(call)},${bad},${good}],"context":{"n":${BIG}},"sentAt":${BIG}}`
      const response = await post(started, body)
      expect(response.status).toBe(200)
      expect(await response.json()).toEqual({
        success: true,
        rejected: [expect.objectContaining({ index: 1 })],
        warnings: [
          warning(undefined, 'context.n'),
          warning(2, 'properties.items[1].id'),
          warning(2, 'properties.rate', '1e400'),
        ],
      })
      expect(started.counted).toContain('web numbers 3')
      expect(started.accepted[0]?.calls[1]?.properties).toEqual({
        total: 1,
        items: [{ id: 7 }, { id: 1234567890123456800 }],
        rate: Infinity, // JSON.stringify makes null of it
      })
    })

    test('is answered so as a single call, too', async () => {
      const started = await startCollector()
      const response = await post(started, withBig(`{"total":${BIG}}`), {}, '/v1/track')
      expect(await response.json()).toEqual({
        success: true,
        warnings: [warning(0, 'properties.total')],
      })
    })

    test.each([
      ['{"type":"identify","traits":{"n":1e400},"properties":{"n":1e400}}', ['traits.n']],
      [
        '{"type":"track","event":"E","traits":{"n":1e400},"properties":{"n":1e400}}',
        ['properties.n'],
      ],
      ['{"type":"alias","previousId":"p","traits":{"n":1e400},"groupId":5e-400}', []],
      ['{"type":"page","properties":{"n":1},"traits":{"n":1e400}}', []],
      ['{"type":"page","traits":{"n":1e400}}', ['traits.n']],
      [
        '{"type":"screen","properties":{"n":1e400},"context":{"n":1e400}}',
        ['properties.n', 'context.n'],
      ],
      [
        '{"type":"group","groupId":1.00000000000000001,"traits":{"n":1e400}}',
        ['groupId', 'traits.n'],
      ],
      ['{"type":"identify","context":{"traits":{"n":1e400}}}', ['context.traits.n']],
      [
        '{"type":"track","event":"E","messageId":5e-400,"name":1e400,"integrations":{"n":1e400}}',
        ['messageId'],
      ],
      [
        '{"type":"page","timestamp":1767323045678.00000000000001,"properties":{"n":1e400}}',
        ['properties.n'],
      ],
    ])('has warnings only about numbers that are forwarded: %s', async (message, paths) => {
      const started = await startCollector()
      const body = `{"batch":[${message.replace('{', '{"userId":"u",')}]}`
      const response = await post(started, body)
      const { warnings = [] } = (await response.json()) as { warnings?: { path: string }[] }
      expect(response.status).toBe(200)
      expect(warnings.map(({ path }) => path)).toEqual(paths)
      const counts = paths.length === 0 ? [] : [`web numbers ${paths.length}`]
      expect(started.counted.filter((event) => event.includes('numbers'))).toEqual(counts)
    })

    test('has no warnings about calls that are not forwarded', async () => {
      const isForwarded = (_source: string, { integrations }: Call) => !integrations
      const started = await startCollector({ forwarding: { isForwarded, bodyOf: webhookBody } })
      const off = withBig(`{"total":${BIG}}`)
      const body = `{"batch":[${off}],"context":{"n":${BIG}},"integrations":{"All":false}}`
      expect(await (await post(started, body)).json()).toEqual({ success: true })
    })

    test('has 100 warnings in its answer, and the number of the others', async () => {
      const started = await startCollector()
      const body = `{"batch":[${withBig(`{"all":[${Array(103).fill(BIG).join()}]}`)}]}`
      const answer = (await (await post(started, body)).json()) as { warnings: unknown[] }
      expect(answer).toMatchObject({ success: true, moreWarnings: 3 })
      expect(answer.warnings).toHaveLength(100)
      expect(started.counted).toContain('web numbers 103')
    })

    test('has a warning about bytes that are not UTF-8, and forwards U+FFFD for them', async () => {
      const started = await startCollector()
      const text = `{"batch":[${withBig(`{"Zoë":"Zoë","total":${BIG}}`)}]}`
      const body = Buffer.from(text, 'latin1')
      const answer = await post(started, body)
      expect(await answer.json()).toEqual({
        success: true,
        warnings: [
          {
            message: `The body is not in UTF-8: its byte ${text.indexOf('ë')} is 0xeb. What is not UTF-8 is read as U+FFFD. Send UTF-8.`,
          },
          warning(0, 'properties.total'),
        ],
      })
      expect(started.accepted[0]?.calls[0]?.properties).toMatchObject({ 'Zo\uFFFD': 'Zo\uFFFD' })
      expect(started.counted).toContain('web numbers 1')

      for (const fine of ['Zoë', 'Zo\uFFFD', '\uFEFF']) {
        const valid = withBig(JSON.stringify({ fine }))
        expect(await (await post(started, `\uFEFF{"batch":[${valid}]}`)).json()).toEqual({
          success: true,
        })
      }
    })

    test('counts none if the store refuses the calls', async () => {
      const started = await startCollector()
      started.accept = () => Promise.reject(new StoreError('full', 'full'))
      const response = await post(started, `{"batch":[${withBig(`{"total":${BIG}}`)}]}`)
      expect(response.status).toBe(503)
      expect(started.counted.filter((event) => event.includes('numbers'))).toEqual([])
    })
  })

  test('with nothing but bad calls is answered 400, with the same reasons', async () => {
    const started = await startCollector()
    const response = await post(started, '{"batch":[5]}')
    expect(response.status).toBe(400)
    const message = 'A call must be an object, got 5.'
    expect(await response.json()).toEqual({
      success: false,
      code: 'all_rejected',
      message,
      rejected: [{ index: 0, code: 'invalid_call', message }],
    })
    expect(started.accepted).toEqual([])
  })

  test('can make nothing of the prototypes here', async () => {
    const started = await startCollector()
    const text = `{"__proto__":{"batch":[]},"constructor":{"prototype":{"polluted":1}},"batch":[{"__proto__":{"userId":"x"},"type":"track","event":"E","anonymousId":"a","properties":{"__proto__":{"polluted":1}}}]}`
    expect((await post(started, text)).status).toBe(200)
    const [accepted] = started.accepted[0]?.calls ?? []
    expect(accepted?.userId).toBeUndefined()
    expect(accepted?.properties?.['polluted']).toBeUndefined()
    expect(JSON.stringify(accepted?.properties)).toBe('{"__proto__":{"polluted":1}}')
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('the write key', () => {
  const basic = (user: string) => `Basic ${Buffer.from(user).toString('base64')}`
  const withKey = (writeKey: unknown) => JSON.stringify({ writeKey, batch: [call] })

  test.each([
    ['as the user of Basic', basic('APP_KEY:'), batch, 'app'],
    ['as the user of Basic without its colon', basic('APP_KEY'), batch, 'app'],
    ['in the body', undefined, withKey('APP_KEY'), 'app'],
    ['in the body beside a token of someone else', 'Bearer xyz', withKey('APP_KEY'), 'app'],
    ['in the header, whatever the body says', basic('WEB_KEY:'), withKey('APP_KEY'), 'web'],
  ])('may come %s', async (_where, authorization, body, source) => {
    const { port, accepted } = await startCollector()
    expect(await exchange(port, raw(body, { Authorization: authorization }))).toContain('200 OK')
    expect(accepted).toMatchObject([{ source }])
  })

  test.each([
    ['none', undefined, batch, 'no_write_key'],
    ['one that is no text', undefined, withKey(5), 'no_write_key'],
    ['a wrong one', basic('WRONG:'), batch, 'unknown_write_key'],
    ['a wrong one in the body', undefined, withKey('WRONG'), 'unknown_write_key'],
    [
      'a wrong one, and a right one in the body',
      basic('WRONG:'),
      withKey(KEY),
      'unknown_write_key',
    ],
    ['an empty one', basic(':'), batch, 'unknown_write_key'],
  ])('must be known: %s', async (_what, authorization, body, code) => {
    const { port, accepted } = await startCollector()
    const answer = await exchange(port, raw(body, { Authorization: authorization }))
    expect(answer).toContain('HTTP/1.1 401 Unauthorized')
    expect(answer.toLowerCase()).toContain('www-authenticate: basic realm="hookline"')
    expect(answer).toContain(`{"success":false,"code":"${code}","message":"`)
    expect(answer).not.toContain('WRONG')
    expect(accepted).toEqual([])
  })

  test('may be replaced while requests are under way', async () => {
    const started = await startCollector()
    const { open, arrived } = holdCalls(started)
    const before = post(started)
    await arrived
    const use = await started.collector.prepare({
      sources: [{ name: 'new', writeKey: 'NEW_KEY' }],
      tenants: [],
    })
    use()
    open()
    expect((await before).status).toBe(200)
    expect((await post(started)).status).toBe(401)
    expect((await post(started, batch, { authorization: basic('NEW_KEY:') })).status).toBe(200)
    expect(started.accepted.map(({ source }) => source)).toEqual(['web', 'new'])
  })
})

describe('a request is refused', () => {
  const padded = (bytes: number) => batch + ' '.repeat(bytes - batch.length)
  const chunked = { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' }
  const bomb = gzipSync(Buffer.alloc(20_000_000, ' '))
  const whole = gzipSync(batch)

  test.each<[string, string, string, Buffer]>([
    ['without a body', '400 Bad Request', 'invalid_json', raw('')],
    ['that is no JSON', '400 Bad Request', 'invalid_json', raw('batch=1')],
    [
      'that says gzip and is none',
      '400 Bad Request',
      'invalid_json',
      raw('nonsense', { 'Content-Encoding': 'gzip' }),
    ],
    ['whose gzip is cut off', '400 Bad Request', 'invalid_gzip', raw(whole.subarray(0, -9))],
    [
      'whose gzip is broken',
      '400 Bad Request',
      'invalid_gzip',
      raw(Buffer.concat([whole.subarray(0, 12), Buffer.alloc(30, 7)])),
    ],
    [
      'in brotli',
      '415 Unsupported Media Type',
      'unsupported_encoding',
      raw(batch, { 'Content-Encoding': 'br' }),
    ],
    [
      'in gzip twice',
      '415 Unsupported Media Type',
      'unsupported_encoding',
      raw(batch, { 'Content-Encoding': 'gzip, gzip' }),
    ],
    ['over 500,000 bytes', '413 Payload Too Large', 'body_too_large', raw(padded(500_001))],
    [
      'over 500,000 bytes decompressed',
      '413 Payload Too Large',
      'body_too_large',
      raw(gzipSync(padded(500_001))),
    ],
    ['that is a bomb', '413 Payload Too Large', 'body_too_large', raw(bomb)],
    [
      'over 500,000 bytes in chunks',
      '413 Payload Too Large',
      'body_too_large',
      Buffer.concat([raw('', chunked), Buffer.from(`7A121\r\n${padded(500_001)}\r\n0\r\n\r\n`)]),
    ],
    [
      'of one call over 32,768 bytes',
      '413 Payload Too Large',
      'body_too_large',
      raw(JSON.stringify(call).padEnd(32_769), {}, '/v1/track'),
    ],
  ])('%s: %s, %s', async (_what, status, code, bytes) => {
    const { port, accepted, logged } = await startCollector()
    const answer = await exchange(port, bytes)
    expect(answer).toContain(`HTTP/1.1 ${status}\r\n`)
    expect(answer).toContain(`{"success":false,"code":"${code}","message":"`)
    expect(accepted).toEqual([])
    expect(logged).toEqual([])
  })

  test.each([
    ['500,000 bytes', raw(padded(500_000))],
    ['500,000 bytes decompressed', raw(gzipSync(padded(500_000)))],
    ['32,768 bytes of one call', raw(JSON.stringify(call).padEnd(32_768), {}, '/v1/track')],
  ])('only beyond %s', async (_what, bytes) => {
    const { port } = await startCollector()
    expect(await exchange(port, bytes)).toContain('HTTP/1.1 200 OK')
  })

  test('in an encoding that is not known, with the one that is', async () => {
    const response = await post(await startCollector(), batch, { 'content-encoding': 'zstd' })
    expect(response.headers.get('accept-encoding')).toBe('gzip')
  })

  test('before its body is read, and its connection goes on', async () => {
    const started = await startCollector()
    const first = raw('x'.repeat(600_000), { Connection: 'keep-alive' })
    const answer = await exchange(started.port, Buffer.concat([first, raw(batch)]))
    expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200'])
  })

  test.each([
    ['GET', '/v1/batch', 405, 'method_not_allowed', '/v1/batch accepts POST; got GET.'],
    ['PUT', '/v1/track?x=1', 405, 'method_not_allowed', '/v1/track accepts POST; got PUT.'],
    ['POST', '/v1/t', 404, 'not_found', 'There is no route /v1/t.'],
    ['GET', '/', 404, 'not_found', 'There is no route /.'],
    ['POST', '/v1/%zz', 400, 'bad_request', "'/v1/%zz' is not a valid url component"],
  ])('%s %s: %j %s', async (method, path, status, code, message) => {
    const { url } = await startCollector()
    const response = await fetch(url + path, { method })
    expect(response.status).toBe(status)
    expect(response.headers.get('allow')).toBe(status === 405 ? 'POST' : null)
    expect(await response.json()).toMatchObject({
      success: false,
      code,
      message: expect.stringContaining(message) as string,
    })
  })

  test('from a page of another origin is not allowed: no answer has the headers of CORS', async () => {
    const started = await startCollector()
    const headers = { origin: 'https://shop.example.com' }
    const asked = await fetch(`${started.url}/v1/batch`, {
      method: 'OPTIONS',
      headers: { ...headers, 'access-control-request-method': 'POST' },
    })
    const sent = await post(started, batch, headers)
    expect([asked.status, sent.status]).toEqual([405, 200])
    for (const response of [asked, sent]) {
      const names = Array.from(response.headers.keys())
      expect(names.filter((name) => name.startsWith('access-control-'))).toEqual([])
    }
  })

  test('may have 16 KB of headers', async () => {
    const { port } = await startCollector()
    const statusOf = async (bytes: number) =>
      (await exchange(port, raw(batch, { A: 'x'.repeat(bytes) }))).slice(0, 'HTTP/1.1 200'.length)
    expect(await statusOf(16_000)).toBe('HTTP/1.1 200')
    expect(await statusOf(16_400)).toBe('HTTP/1.1 431')
  })

  test.each([
    ['that is no HTTP', 'hello\r\n\r\n', '400 Bad Request'],
    [
      'whose headers have no end',
      `GET / HTTP/1.1\r\nA: ${'x'.repeat(20_000)}`,
      '431 Request Header Fields Too Large',
    ],
    [
      'with two lengths',
      `POST /v1/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      '400 Bad Request',
    ],
  ])('%s', async (_what, bytes, status) => {
    const { port, logged } = await startCollector()
    const answer = await exchange(port, bytes)
    expect(answer).toContain(`HTTP/1.1 ${status}\r\n`)
    expect(answer).toContain('{"success":false,"code":"bad_request","message":"')
    expect(logged).toEqual([])
  })
})

describe('bytes behind a complete request', () => {
  const withLengths = raw(batch, { 'Content-Length': '1\r\nContent-Length: 2' })
  test.each([
    ['that are no HTTP', Buffer.from('hello\r\n\r\n'), '400'],
    ['that are no HTTP, in many pieces', Buffer.from('x'.repeat(20)), '400'],
    ['of a request with two lengths', withLengths, '400'],
    ['of a request with long headers', raw(batch, { A: 'x'.repeat(20_000) }), '431'],
  ])('%s are refused after its answer, not in its place', async (_what, bytes, status) => {
    const started = await startCollector()
    const { open, arrived } = holdCalls(started)
    const socket = connect(started.port, '127.0.0.1')
    socket.write(raw(batch, { Connection: undefined }))
    await arrived
    const broken = once(started.collector.app.server, 'clientError')
    if (bytes.length > 20) socket.write(bytes)
    for (const byte of bytes.length > 20 ? [] : bytes) {
      socket.write(Buffer.of(byte))
      await new Promise(setImmediate)
    }
    await broken
    open()
    const [first, second] = (await text(socket)).split(/(?=HTTP\/1\.1 \d)/)
    expect(first).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"success":true\}$/)
    expect(second).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*"code":"bad_request"`))
    expect(started.logged).toEqual([])
  })
})

describe('a client that hangs up', () => {
  test.each([
    ['in the middle of its body', raw(batch, { 'Content-Length': '5000' })],
    [
      'in the middle of a chunk',
      raw('5\r\n{"b', { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' }),
    ],
  ])('%s leaves nothing behind', async (_when, bytes) => {
    const { url, port, collector, accepted, counted, logged } = await startCollector()
    const closed = new Promise<void>((resolve) => {
      collector.app.server.once('connection', (socket) => {
        socket.once('close', () => {
          resolve()
        })
      })
    })
    const socket = connect(port, '127.0.0.1')
    collector.app.server.once('request', () => socket.resetAndDestroy())
    socket.write(bytes)
    await closed
    await fetch(url) // whatever would be logged has been
    expect(accepted).toEqual([])
    expect(counted).toEqual(['web body_incomplete'])
    expect(logged).toEqual([])
  })

  test('and still reads is answered, and the answer is what is counted', async () => {
    const { port, counted } = await startCollector()
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.end(raw(batch, { 'Content-Length': '5000' }))
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 [^]*"code":"bad_request"/)
    await expect.poll(() => counted).toEqual(['web bad_request'])
  })

  test('only on its sending side, after complete requests, gets their answers', async () => {
    const started = await startCollector()
    const { open, arrived } = holdCalls(started)
    const socket = connect({ port: started.port, host: '127.0.0.1', allowHalfOpen: true })
    const ended = new Promise<void>((resolve) => {
      started.collector.app.server.once('request', ({ socket: side }) => side.once('end', resolve))
    })
    const keep = { Connection: undefined }
    socket.end(Buffer.concat([raw(batch, keep), raw(batch, keep)]))
    await arrived
    await ended
    open()
    const answers = (await text(socket)).split(/(?=HTTP\/1\.1 \d)/)
    expect(answers).toHaveLength(2)
    for (const answer of answers) {
      expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"success":true\}$/)
    }
    expect(started.counted.filter((one) => one === 'web ok')).toHaveLength(2)
  })

  test('only on its sending side keeps no connection', async () => {
    const { port, collector } = await startCollector()
    for (const sent of ['', raw(batch, { Connection: undefined })]) {
      const closed = new Promise((resolve) => {
        collector.app.server.once('connection', (side) => side.once('close', resolve))
      })
      // It reads nothing, so only the server can end the connection.
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).pause()
      socket.end(sent)
      await closed
      socket.destroy()
    }
  })

  test('while its calls are being accepted does no harm', async () => {
    const started = await startCollector()
    const { open, arrived } = holdCalls(started)
    const socket = connect(started.port, '127.0.0.1')
    socket.write(raw(batch))
    await arrived
    socket.resetAndDestroy()
    await once(socket, 'close')
    open()
    expect((await post(started)).status).toBe(200)
    expect(started.accepted).toHaveLength(2)
    expect(started.logged).toEqual([])
  })
})

describe('a store that fails', () => {
  test.each([
    ['full', 'The store is full.'],
    ['failed', 'The store cannot write.'],
    ['locked', 'The store cannot write.'],
  ] as const)(
    '%s is answered 503, with when to come again, and claims nothing of what is stored',
    async (storeCode, why) => {
      const started = await startCollector()
      started.accept = () => Promise.reject(new StoreError(storeCode, 'disk /secret/path'))
      const response = await post(started)
      expect(response.status).toBe(503)
      expect(response.headers.get('retry-after')).toMatch(/^[1-5]$/)
      const message = `${why} The request was not confirmed, but may have taken effect. Send it again later.`
      expect(await response.json()).toEqual({ success: false, code: 'store_unavailable', message })
    },
  )

  test('is logged once, and so is its return', async () => {
    const started = await startCollector()
    started.accept = () => Promise.reject(new StoreError('full', 'full'))
    await post(started)
    await post(started)
    expect(started.logged).toEqual(['the store takes no calls; clients get the answer 503'])
    started.accept = () => Promise.resolve()
    await post(started)
    await post(started)
    expect(started.logged.slice(1)).toEqual(['the store takes calls again'])
  })

  test('otherwise than stores do is answered 500 and logged, and tells the client nothing', async () => {
    const started = await startCollector()
    started.accept = () => Promise.reject(new TypeError('a secret'))
    const response = await post(started)
    expect(response.status).toBe(500)
    expect(await response.json()).toEqual({
      success: false,
      code: 'internal_error',
      message:
        'An internal error occurred. The log of the destination has the details. Send the request again.',
    })
    expect(started.logged).toEqual(['a request failed'])
  })
})

describe('closing', () => {
  test('finishes what is under way, and tells its connection to end', async () => {
    const started = await startCollector()
    const { open, arrived } = holdCalls(started)
    const agent = new Agent({ keepAlive: true })
    const request = httpRequest(`${started.url}/v1/batch`, {
      agent,
      method: 'POST',
      headers: { authorization: AUTHORIZATION },
    }).end(batch)
    const answered = once(request, 'response')
    await arrived
    const closed = started.collector.close()
    open()
    const [response] = (await answered) as [import('node:http').IncomingMessage]
    response.resume()
    expect(response.statusCode).toBe(200)
    expect(response.headers.connection).toBe('close')
    await closed
    expect(started.accepted).toHaveLength(1)
    await expect(fetch(started.url)).rejects.toThrow('fetch failed')
  })

  test('does not wait for a client that never ends its request', async () => {
    const started = await startCollector()
    const socket = connect(started.port, '127.0.0.1')
    const requested = once(started.collector.app.server, 'request')
    socket.write(raw(batch, { 'Content-Length': '5000' }))
    await requested
    const hungUp = new Promise((resolve) => socket.once('error', resolve).once('close', resolve))
    await started.collector.close(0)
    await hungUp
    expect(started.accepted).toEqual([])
    expect(started.logged).toEqual([])
  })

  test('does not wait for connections that are idle', async () => {
    const started = await startCollector()
    const socket = connect(started.port, '127.0.0.1')
    socket.write(raw(batch, { Connection: 'keep-alive' }))
    await once(socket, 'data')
    await Promise.all([once(socket, 'close'), started.collector.close(1_000_000)])
  })
})
