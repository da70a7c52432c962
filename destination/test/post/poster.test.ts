import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { messageHeaders } from '../../src/post/headers.js'
import type { Outcome } from '../../src/model/outcome.js'
import {
  answering,
  DEADLINE_MS,
  listen,
  listenTcp,
  OK,
  onRequest,
  post,
  posterTo,
  postOnce,
} from './sockets.js'

describe('on the wire', () => {
  test('a request is exactly this', async () => {
    const requests: string[] = []
    const { port } = await listenTcp(
      onRequest((socket, request) => {
        requests.push(request)
        socket.write(OK)
      }),
    )
    const poster = posterTo(
      `http://127.0.0.1:${port}/hook/ä?a=1&b=%20#part`,
      {},
      { headers: { 'X-Team': 'growth', Authorization: 'Bearer t' } },
    )
    const body = '{"a":"ü🚀"}'
    await post(poster, body, messageHeaders('s3cret', body, 'm-ü', 3))

    const signature = createHmac('sha1', 's3cret').update(Buffer.from(body)).digest('hex')
    expect(requests).toEqual([
      [
        'POST /hook/%C3%A4?a=1&b=%20 HTTP/1.1',
        `host: 127.0.0.1:${port}`,
        'connection: keep-alive',
        'User-Agent: Service.io/1.0',
        'Content-Type: application/json',
        'X-Team: growth',
        'Authorization: Bearer t',
        `X-Signature: ${signature}`,
        'X-Message-Id: m-%C3%BC',
        'X-Attempt: 3',
        `content-length: ${Buffer.byteLength(body)}`,
        '',
        Buffer.from(body).toString('latin1'),
      ].join('\r\n'),
    ])
  })

  test('without a path it goes to the root, without a secret it is not signed', async () => {
    const requests: string[] = []
    const { port } = await listenTcp(
      onRequest((socket, request) => {
        requests.push(request)
        socket.write(OK)
      }),
    )
    const body = '{}'
    await post(posterTo(`http://127.0.0.1:${port}`), body, messageHeaders(undefined, body, 'm', 1))
    expect(requests[0]).toMatch(/^POST \/ HTTP\/1\.1\r\n/)
    expect(requests[0]).not.toMatch(/x-signature/i)
  })

  test('a body of 1 MB arrives byte for byte', async () => {
    const received: Buffer[] = []
    const { port } = await listen(
      createServer((request, response) => {
        request.on('data', (chunk: Buffer) => received.push(chunk))
        request.on('end', () => response.end())
      }),
    )
    const body = JSON.stringify({ text: 'ü€🚀'.repeat(120_000) })
    const outcome = await postOnceWith(port, body)
    expect(outcome.code).toBe('delivered')
    expect(Buffer.concat(received).equals(Buffer.from(body))).toBe(true)
  })

  const postOnceWith = (port: number, body: string) =>
    post(posterTo(`http://127.0.0.1:${port}/`), body)
})

describe('an answer', () => {
  test('of 200 is a delivery, with its time and the start of its body', async () => {
    const { port } = await answering(OK)
    const outcome = await postOnce(`http://127.0.0.1:${port}/`)
    expect(outcome).toEqual({
      code: 'delivered',
      verdict: 'delivered',
      status: 200,
      ms: expect.any(Number) as number,
      retryAfterMs: undefined,
      response: 'ok',
      error: undefined,
    })
  })

  const plain = (status: string, headers = '', body = '') =>
    `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`

  test.each([
    ['HTTP/1.1 204 No Content\r\n\r\n', 204, 'delivered', ''],
    ['HTTP/1.1 304 Not Modified\r\n\r\n', 304, 'redirect', ''],
    [plain('400 Bad Request', '', 'no name'), 400, 'client_error', 'no name'],
    [plain('408 Request Timeout'), 408, 'request_timeout', ''],
    [plain('410 Gone'), 410, 'client_error', ''],
    [plain('429 Too Many Requests'), 429, 'throttled', ''],
    [plain('503 Service Unavailable', '', 'later'), 503, 'server_error', 'later'],
    ['HTTP/1.0 200 OK\r\n\r\nto the end', 200, 'delivered', 'to the end'],
    [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfoo\r\n3\r\nbar\r\n0\r\n\r\n',
      200,
      'delivered',
      'foobar',
    ],
    [
      'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n' + OK,
      200,
      'delivered',
      'ok',
    ],
  ])('%j has its status, code and body', async (reply, status, code, response) => {
    const ending = reply.startsWith('HTTP/1.0')
    const { port } = await listenTcp(
      onRequest((socket) => (ending ? socket.end(reply) : socket.write(reply))),
    )
    const outcome = await postOnce(`http://127.0.0.1:${port}/`)
    expect(outcome).toMatchObject({ status, code, response })
  })

  test('with Retry-After asks for a wait, if it is to be tried again at all', async () => {
    const now = () => Date.parse('2026-11-21T12:00:00Z')
    const outcomes = []
    for (const [status, after] of [
      ['503 No', '120'],
      ['429 No', 'Sat, 21 Nov 2026 12:00:30 GMT'],
      ['503 No', '60 \t '],
      ['503 No', '1000000000000'],
      ['503 No', '\tSat Nov 21 12:00:30 2026 '],
      ['500 No', 'soon'],
      ['404 No', '120'],
      ['200 OK', '120'],
    ]) {
      const { port } = await answering(plain(status ?? '', `Retry-After: ${after}\r\n`))
      outcomes.push((await postOnce(`http://127.0.0.1:${port}/`, { now })).retryAfterMs)
    }
    expect(outcomes).toEqual([
      ...[120_000, 30_000, 60_000, 300_000, 30_000],
      ...[undefined, undefined, undefined],
    ])
  })

  test('that repeats a header is taken at its first word', async () => {
    const now = () => Date.parse('2026-11-21T12:00:00Z')
    const twice = 'Retry-After: Sat, 21 Nov 2026 12:00:30 GMT\r\n'.repeat(2)
    const { port } = await answering(plain('503 No', twice))
    const outcome = await postOnce(`http://127.0.0.1:${port}/`, { now })
    expect(outcome).toMatchObject({ code: 'server_error', retryAfterMs: 30_000 })
  })

  test('that redirects is refused, and nobody goes there', async () => {
    const other = await answering(OK)
    const { port } = await answering(
      plain('307 Temporary', `Location: http://127.0.0.1:${other.port}/latest/meta-data\r\n`),
    )
    const outcome = await postOnce(`http://127.0.0.1:${port}/`)
    expect(outcome).toMatchObject({ code: 'redirect', verdict: 'refused', status: 307 })
    expect(outcome.error).toContain(`redirects to 127.0.0.1:${other.port}`)
    expect(other.seen.connections).toBe(0)
  })

  test.each([
    ['X-A: b\r\n c\r\n', 'Unexpected whitespace after header value'],
    ['X-A : b\r\n', 'Invalid header token'],
    ['X-A: a\x01b\r\n', 'Invalid header value char'],
  ])(
    'with the wrong header %j says what is wrong, and not that the port is',
    async (line, wrong) => {
      const { port } = await answering(plain('200 OK', line))
      const { code, error } = await postOnce(`http://127.0.0.1:${port}/`)
      expect(code).toBe('connection_failed')
      expect(error).toContain(`that is not valid HTTP/1.1: ${wrong}. Correct the endpoint`)
      expect(error).not.toContain('port of its URL')
    },
  )

  test.each([
    ['HTTP/1.1 304 Not Modified\r\n\r\n', 'redirect', 'answered 304 (Not Modified), which is no'],
    [
      'HTTP/1.1 099 No\r\n\r\n',
      'connection_failed',
      'answered with a status below 100. An endpoint',
    ],
  ])('%j is told that a 2xx is expected, in one line', async (reply, code, words) => {
    const { port } = await answering(reply)
    const outcome = await postOnce(`http://127.0.0.1:${port}/`)
    expect(outcome).toMatchObject({ code, error: expect.stringContaining(words) as string })
    expect(outcome.error).toMatch(/^.+must answer with a 2xx status\.$/)
  })

  test('is kept to 2 KB, as text', async () => {
    // The excerpt ends in the middle of a character.
    const body = Buffer.from(`\0${'a'.repeat(2046)}ü and more`)
    const head = `HTTP/1.1 500 No\r\nContent-Length: ${body.length}\r\n\r\n`
    const { port } = await answering(Buffer.concat([Buffer.from(head), body]))
    const { response } = await postOnce(`http://127.0.0.1:${port}/`)
    expect(response).toBe(`\uFFFD${'a'.repeat(2046)}`)
  })

  test('that is no UTF-8 is text with replacements', async () => {
    const reply = Buffer.from('HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\na?b')
    reply[reply.length - 2] = 0xff
    const { port } = await answering(reply)
    expect((await postOnce(`http://127.0.0.1:${port}/`)).response).toBe('a\uFFFDb')
  })
})

describe('a connection', () => {
  test('is used again, also after an answer of up to 64 KB', async () => {
    const body = 'x'.repeat(64 * 1024)
    const { port, seen } = await answering(
      `HTTP/1.1 500 No\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    for (let i = 0; i < 5; i++) expect((await post(poster)).response).toHaveLength(2_048)
    expect(seen.connections).toBe(1)
  })

  test('is closed after an answer of more than 64 KB', async () => {
    const body = 'x'.repeat(64 * 1024 + 1)
    const { port, seen } = await answering(
      `HTTP/1.1 500 No\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    for (let i = 0; i < 2; i++) expect((await post(poster)).response).toHaveLength(2_048)
    expect(seen.connections).toBe(2)
  })

  test('that the endpoint closes while idle is replaced, with nothing lost', async () => {
    const { port, open, seen } = await answering(OK)
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    for (let i = 0; i < 3; i++) {
      expect((await post(poster)).code).toBe('delivered')
      for (const socket of open) {
        const closed = once(socket, 'close')
        socket.end()
        await closed
      }
    }
    expect(seen.connections).toBe(3)
  })

  test('that is reset as it is used again is a reset, and the request went out once', async () => {
    let requests = 0
    const { port } = await listenTcp(
      onRequest((socket) => {
        if (++requests === 1) socket.write(OK)
        else socket.resetAndDestroy()
      }),
    )
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    expect((await post(poster)).code).toBe('delivered')
    expect(await post(poster)).toMatchObject({ code: 'connection_reset', verdict: 'retry' })
    expect(requests).toBe(2)
  })

  test('is one of at most as many as the endpoint takes', async () => {
    const waiting: Socket[] = []
    const { port, seen } = await listenTcp(
      onRequest((socket) => {
        waiting.push(socket)
        if (waiting.length === 3) for (const each of waiting.splice(0)) each.write(OK)
      }),
    )
    const poster = posterTo(`http://127.0.0.1:${port}/`, {}, { concurrency: 3 })
    const outcomes = await Promise.all(Array.from({ length: 12 }, () => post(poster)))
    expect(outcomes.map(({ code }) => code)).toEqual(Array(12).fill('delivered'))
    expect(seen.connections).toBe(3)
  })
})

describe('done', () => {
  test('that throws is heard of, and the next request goes out', async () => {
    const { port } = await answering(OK)
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    // Without a listener, Node ends the process.
    const listeners = process.listeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection')
    const thrown = once(process, 'unhandledRejection')
    poster.post('{}', [], () => {
      throw new Error('a bug')
    })
    const [error] = (await thrown) as [Error]
    for (const listener of listeners) process.on('unhandledRejection', listener)
    expect(error.message).toBe('a bug')
    expect((await post(poster)).code).toBe('delivered')
  })

  test('is called for a request that can not be sent at all', async () => {
    const { port, seen } = await answering(OK)
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    expect(await post(poster, '{}', ['X-Odd', 'a\r\nb'])).toMatchObject({
      code: 'connection_failed',
      error: expect.stringContaining('invalid X-Odd header') as string,
    })
    expect(seen.connections).toBe(0)
  })
})

describe('closing', () => {
  test('waits for what is under way', async () => {
    const arrived: Socket[] = []
    const { port } = await listenTcp(onRequest((socket) => arrived.push(socket)))
    const poster = posterTo(`http://127.0.0.1:${port}/`, {}, { concurrency: 2 })
    const outcomes: Outcome[] = []
    for (let i = 0; i < 4; i++) poster.post('{}', [], (outcome) => outcomes.push(outcome))
    const closed = Promise.all([poster.close(), poster.close()])
    while (outcomes.length < 4) {
      for (const socket of arrived.splice(0)) socket.write(OK)
      await new Promise(setImmediate)
    }
    await closed
    expect(outcomes.map(({ code }) => code)).toEqual(Array(4).fill('delivered'))
  })

  test('ends even if the endpoint is silent', async () => {
    const { port } = await listenTcp(() => undefined)
    const poster = posterTo(`http://127.0.0.1:${port}/`, { deadlineMs: DEADLINE_MS })
    const outcome = post(poster)
    await poster.close()
    expect((await outcome).code).toBe('timeout')
  })

  test('makes later requests fail, for another time', async () => {
    const { port } = await answering(OK)
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    await poster.close()
    expect(await post(poster)).toMatchObject({ code: 'connection_failed', verdict: 'retry' })
  })
})
