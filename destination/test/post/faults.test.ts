import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  answering,
  DEADLINE_MS,
  listenTcp,
  LOOPBACK,
  OK,
  onRequest,
  post,
  posterTo,
  postOnce,
} from './sockets.js'

const IN_TIME = { deadlineMs: DEADLINE_MS }

/** Sends one request to a server with a fault. Resolves with the outcome and what the server has seen. */
async function meet(fault: (socket: Socket, request: string) => void, network = {}) {
  let requests = 0
  const server = await listenTcp(
    onRequest((socket, request) => {
      requests++
      fault(socket, request)
    }),
  )
  const poster = posterTo(`http://127.0.0.1:${server.port}/`, network)
  const outcome = await post(poster)
  return { ...server, poster, outcome, requests: () => requests }
}

/** Writes repeatedly until the socket is closed. */
function drip(socket: Socket, text: string, everyMs: number): void {
  const timer = setInterval(() => socket.write(text), everyMs)
  socket.once('close', () => {
    clearInterval(timer)
  })
}

const closedByUs = (open: Set<Socket>) =>
  Promise.all([...open].map((socket) => new Promise((resolve) => socket.once('close', resolve))))

describe('time runs out', () => {
  test('if the endpoint takes the request and is silent', async () => {
    const { outcome, open, requests } = await meet(() => undefined, IN_TIME)
    expect(outcome).toMatchObject({ code: 'timeout', verdict: 'retry', status: undefined })
    expect(outcome.error).toBe(`The endpoint did not answer within ${DEADLINE_MS / 1_000} s.`)
    expect(outcome.ms).toBeGreaterThanOrEqual(DEADLINE_MS - 1)
    await closedByUs(open)
    expect(requests()).toBe(1)
  })

  test('if the headers come in drips', async () => {
    const { outcome, open } = await meet((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      drip(socket, 'X-Drip: 1\r\n', 20)
    }, IN_TIME)
    expect(outcome).toMatchObject({ code: 'timeout', status: undefined })
    await closedByUs(open)
  })

  test('if hints never end in an answer', async () => {
    const { outcome } = await meet((socket) => {
      drip(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n', 20)
    }, IN_TIME)
    expect(outcome).toMatchObject({ code: 'timeout', status: undefined })
  })

  test('if the connection goes dead without a word', async () => {
    let requests = 0
    const { port } = await listenTcp(
      onRequest((socket) => {
        requests++
        socket.write(OK)
      }),
    )
    // The proxy forwards the first answer and drops everything after it, like a router that lost its connection table.
    let forwards = true
    const proxy = await listenTcp((near) => {
      const far = connect(port, '127.0.0.1')
      onTestFinished(() => void far.destroy())
      near.on('data', (chunk) => forwards && far.write(chunk))
      far.on('data', (chunk) => {
        near.write(chunk)
        forwards = false
      })
    })
    const poster = posterTo(`http://127.0.0.1:${proxy.port}/`, IN_TIME)
    expect((await post(poster)).code).toBe('delivered')
    expect((await post(poster)).code).toBe('timeout')
    forwards = true
    expect((await post(poster)).code).toBe('delivered')
    expect(requests).toBe(2)
  })

  test('for requests without a connection, which are never sent', async () => {
    const arrived: [Socket, string][] = []
    const { port } = await listenTcp(
      onRequest((socket, request) => arrived.push([socket, request])),
    )
    const held: (() => void)[] = []
    const poster = posterTo(
      `http://hook.test:${port}/`,
      {
        ...IN_TIME,
        lookup: (_, answer) =>
          held.push(() => {
            answer(null, [{ address: '127.0.0.1', family: 4 }])
          }),
      },
      { concurrency: 1 },
    )
    const late = await Promise.all([post(poster, '"first"'), post(poster, '"second"')])
    for (const outcome of late) {
      expect(outcome.code).toBe('timeout')
      expect(outcome.error).toContain('nothing was sent')
    }
    const outcome = post(poster, '"third"')
    while (arrived.length === 0) {
      for (const answer of held.splice(0)) answer()
      await turn()
    }
    for (const [socket] of arrived) socket.write(OK)
    expect((await outcome).code).toBe('delivered')
    expect(arrived.map(([, request]) => request.split('\r\n').at(-1))).toEqual(['"third"'])
  })
})

test('an endpoint that answers 100 Continue first is told what it has to change', async () => {
  const { outcome } = await meet((socket) => {
    socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  }, IN_TIME)
  expect(outcome).toMatchObject({ code: 'connection_failed', verdict: 'retry' })
  expect(outcome.error).toMatch(/answered with 100 Continue, which was not asked for/)
})

test('an endpoint that switches to another protocol is told what it has to answer', async () => {
  const { outcome } = await meet((socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n')
  }, IN_TIME)
  expect(outcome).toMatchObject({ code: 'connection_failed', verdict: 'retry' })
  expect(outcome.error).toMatch(
    /answered with 101 Switching Protocols, which was not asked for\. .* 2xx status\.$/,
  )
})

test.each([
  ['two lengths', 'Content-Length: 2\r\nContent-Length: 2\r\n\r\nok'],
  [
    'a length and chunks',
    'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  ],
  ['a length that is too large', 'Content-Length: 99999999999999999999\r\n\r\nok'],
  ['a malformed header', 'Content-Length: 2\r\nno header\r\n\r\nok'],
])('an endpoint that answers with %s is told that its headers are wrong', async (_what, rest) => {
  const { outcome } = await meet((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n${rest}`)
  }, IN_TIME)
  expect(outcome).toMatchObject({ code: 'connection_failed', verdict: 'retry' })
  expect(outcome.error).toMatch(
    / answered with headers that are not valid HTTP\. They may have one Content-Length, which must be a/,
  )
})

describe('an answer whose body', () => {
  const answer = (headers: string, body: Buffer) => (socket: Socket) => {
    socket.write(`HTTP/1.1 400 No\r\n${headers}\r\nContent-Length: ${body.length}\r\n\r\n`)
    socket.write(body)
  }
  const words = 'größer als erlaubt'

  test.each([
    ['compressed with gzip', 'Content-Encoding: gzip', gzipSync(words)],
    ['compressed with br', 'Content-Encoding: BR', brotliCompressSync(words)],
    ['compressed with deflate', 'Content-Encoding: deflate', deflateSync(words)],
    ['in Latin-1', 'Content-Type: text/plain; charset="ISO-8859-1"', Buffer.from(words, 'latin1')],
    [
      'in Latin-1 and compressed',
      'Content-Encoding: gzip\r\nContent-Type: text/plain;charset=latin1',
      gzipSync(Buffer.from(words, 'latin1')),
    ],
    ['in an unknown charset, but UTF-8', 'Content-Type: a/b; charset=x-none', Buffer.from(words)],
  ])('is %s is read', async (_what, headers, body) => {
    expect((await meet(answer(headers, body))).outcome.response).toBe(words)
  })

  test('is compressed and cut is read as far as it came', async () => {
    const lines = Array.from({ length: 3_000 }, (_, i) => `${i * 7_919} ö`).join('\n')
    const cut = gzipSync(lines).subarray(0, 5_000)
    const { outcome } = await meet(answer('Content-Encoding: gzip', cut))
    expect(outcome.response.length).toBeGreaterThan(1_000)
    expect(lines.startsWith(outcome.response)).toBe(true)
  })

  test.each([
    ['has 100 MB when decompressed', 'gzip', gzipSync(Buffer.alloc(100_000_000))],
    ['is not what its Content-Encoding says', 'br', Buffer.from('größer')],
    ['has an unknown Content-Encoding', 'zstd', Buffer.from([0x28, 0xb5, 0x2f, 0xfd])],
  ])('%s is named by its encoding', async (_what, encoding, body) => {
    const { outcome } = await meet(answer(`Content-Encoding: ${encoding}`, body))
    expect(outcome.response).toBe(
      `(a body that can't be shown, with Content-Encoding: ${encoding})`,
    )
  })

  test('drips is what its status says, once the time is up', async () => {
    const { outcome, open } = await meet((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n')
      drip(socket, 'x', 20)
    }, IN_TIME)
    expect(outcome).toMatchObject({ code: 'delivered', status: 200, error: undefined })
    expect(outcome.response).toMatch(/^x+$/)
    await closedByUs(open)
  })

  test('never ends is cut off', async () => {
    const { outcome, open } = await meet((socket) => {
      socket.write('HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n')
      const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
      const more = () => {
        while (socket.writable && socket.write(chunk));
      }
      socket.on('drain', more)
      more()
    })
    expect(outcome).toMatchObject({ code: 'server_error', status: 503 })
    expect(outcome.response).toBe('x'.repeat(2_048))
    await closedByUs(open)
  })

  test('has 1 GB is read to 64 KB and a little', async () => {
    let written = 0
    const { outcome, open } = await meet((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 ** 30}\r\n\r\n`)
      const chunk = Buffer.alloc(65_536, 'x')
      const more = () => {
        do written += chunk.length
        while (socket.writable && socket.write(chunk))
      }
      socket.on('drain', more)
      more()
    })
    expect(outcome).toMatchObject({ code: 'delivered', status: 200 })
    await closedByUs(open)
    expect(written).toBeLessThan(2 ** 26)
  })

  test('breaks off is what its status says', async () => {
    const { outcome, poster } = await meet((socket) => {
      socket.write('HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\nhalf', () => {
        socket.resetAndDestroy()
      })
    })
    expect(outcome).toMatchObject({ code: 'server_error', status: 500 })
    expect((await post(poster)).code).toBe('server_error')
  })

  test('is longer than it says is what its status says', async () => {
    const { outcome } = await meet((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more')
    })
    expect(outcome).toMatchObject({ code: 'delivered', response: 'ok' })
  })
})

describe('no answer', () => {
  test.each<[string, (socket: Socket) => void, string]>([
    ['a reset', (socket) => void socket.resetAndDestroy(), 'connection_reset'],
    ['an end', (socket) => void socket.end(), 'connection_reset'],
    [
      'a reset within the headers',
      (socket) =>
        void socket.write('HTTP/1.1 200 OK\r\nX-', () => {
          socket.resetAndDestroy()
        }),
      'connection_reset',
    ],
    ['garbage', (socket) => void socket.end('SSH-2.0-OpenSSH_9.6\r\n'), 'connection_failed'],
    ['an odd status', (socket) => void socket.end('HTTP/1.1 abc\r\n\r\n'), 'connection_failed'],
    [
      'a status below 100',
      (socket) => void socket.write('HTTP/1.1 099 Odd\r\n\r\n'),
      'connection_failed',
    ],
    [
      'too many headers',
      (socket) => void socket.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`),
      'connection_failed',
    ],
    [
      'a length that is none',
      (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n'),
      'connection_failed',
    ],
    [
      'another protocol',
      (socket) =>
        void socket.write('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
      'connection_failed',
    ],
    // The client did not send `Expect: 100-continue`. undici closes the connection when it gets this answer.
    [
      '100-continue',
      (socket) => void socket.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`),
      'connection_failed',
    ],
  ])('but %s is tried again, but not here', async (_, fault, code) => {
    const { outcome, requests, open } = await meet(fault)
    expect(outcome).toMatchObject({ code, verdict: 'retry', status: undefined })
    expect(outcome.error).toMatch(/127\.0\.0\.1:\d+ (closed|answered)/)
    await closedByUs(open)
    expect(requests()).toBe(1)
  })

  test('from a port where nobody listens is a refused connection', async () => {
    const { server, port } = await listenTcp(() => undefined)
    server.close()
    await once(server, 'close')
    const poster = posterTo(`http://127.0.0.1:${port}/`)
    expect(await post(poster)).toMatchObject({ code: 'connection_refused', verdict: 'retry' })

    await listenTcp(
      onRequest((socket) => socket.write(OK)),
      '127.0.0.1',
      port,
    )
    expect((await post(poster)).code).toBe('delivered')
  })

  test('from an https server on an http URL is tried again', async () => {
    const { port } = await listenTcp((socket) => {
      // OpenSSL answers data that is not TLS with an alert.
      socket.once('data', () => socket.end(Buffer.from('15030100020246', 'hex')))
    })
    const outcome = await postOnce(`http://127.0.0.1:${port}/`)
    expect(outcome).toMatchObject({ code: 'connection_failed', verdict: 'retry' })
  })
})

describe('a host that is an address', () => {
  test.each([
    'http://127.0.0.1',
    'http://2130706433',
    'http://0x7f.1',
    'http://0177.0.0.1',
    'http://127.1',
    'http://0.0.0.0',
    'http://[::ffff:127.0.0.1]',
    'https://127.0.0.1',
  ])('%s is refused for good, with nothing sent', async (origin) => {
    const { port, seen } = await answering(OK)
    const outcome = await postOnce(`${origin}:${port}/`, { allowNetworks: [] })
    expect(outcome).toMatchObject({ code: 'address_refused', verdict: 'refused' })
    expect(outcome.error).toContain('the setting allowNetworks')
    expect(seen.connections).toBe(0)
  })

  test('is reached if its network is allowed', async () => {
    const { port } = await answering(OK)
    expect((await postOnce(`http://127.1:${port}/`, { allowNetworks: LOOPBACK })).code).toBe(
      'delivered',
    )
  })
})
