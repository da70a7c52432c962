import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AUTHORIZATION, startCollector } from '../collect/start.js'

const TIMEOUTS = { headersMs: 300, requestMs: 600, checkMs: 30 }

const CALL = '{"userId":"u","event":"E"}'

/** Sends `text` at once, and then repeats `dripping` byte by byte until the server closes the connection. */
async function drip(
  port: number,
  text: string,
  dripping: string,
  allowHalfOpen = false,
): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen })
  let answer = ''
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString()
  })
  socket.on('error', () => undefined) // a byte that was sent after the server closed the connection
  socket.write(text)
  let sent = 0
  const timer = setInterval(() => {
    socket.write(dripping[sent++ % dripping.length] ?? '')
  }, 10)
  await new Promise((resolve) => socket.once('close', resolve)) // also after an error
  clearInterval(timer)
  return answer
}

const post = async (url: string): Promise<number> => {
  const request = { method: 'POST', headers: { authorization: AUTHORIZATION }, body: CALL }
  return (await fetch(`${url}/v1/track`, request)).status
}

describe('a client is hung up on', () => {
  test.each([
    ['that says nothing', '', ''],
    ['whose headers never end', 'POST /v1/track HTTP/1.1\r\nHost: a\r\n', 'X-A: b\r\n'],
    [
      'whose body comes in drips',
      `POST /v1/track HTTP/1.1\r\nHost: a\r\nAuthorization: ${AUTHORIZATION}\r\nContent-Length: 30000\r\n\r\n{`,
      ' ',
    ],
    [
      'whose chunks come in drips',
      `POST /v1/track HTTP/1.1\r\nHost: a\r\nAuthorization: ${AUTHORIZATION}\r\nTransfer-Encoding: chunked\r\n\r\n`,
      '1\r\n \r\n',
    ],
  ])('%s, and hears why', async (_name, text, dripping) => {
    const { port, accepted, counted } = await startCollector({ timeouts: TIMEOUTS })
    const answer = await drip(port, text, dripping)
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[^]*"code":"bad_request"/)
    expect(accepted).toEqual([])
    // What has begun to arrive at a route is counted as it was answered.
    const known = text.includes(AUTHORIZATION) ? ['web bad_request'] : []
    await expect.poll(() => counted).toEqual(known)
  })

  test.each([
    ['a wrong key', '/v1/batch', 'Authorization: Basic eA==', 401, 'unknown_write_key'],
    ['a large body', '/v1/batch', `Authorization: ${AUTHORIZATION}`, 413, 'body_too_large'],
    ['a wrong encoding', '/v1/batch', 'Content-Encoding: br', 415, 'unsupported_encoding'],
    ['a wrong path', '/v1/batches', 'X-A: b', 404, 'not_found'],
  ])(
    'whose body comes in drips after it was refused for %s, and hears why it was refused',
    async (_name, path, header, status, code) => {
      const { port } = await startCollector({ timeouts: TIMEOUTS })
      const head = `POST ${path} HTTP/1.1\r\nHost: a\r\n${header}\r\nContent-Length: 3000000\r\n\r\n{`
      const answer = await drip(port, head, ' ')
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [A-Z][^]*"code":"${code}"[^]*\\}$`))
      expect(answer).toMatch(/\r\nconnection: close\r\n/)
      if (status === 401) expect(answer).toContain('\r\nWWW-Authenticate: Basic')
    },
  )
})

test.each([
  ['that never ends its headers', 'POST /v1/track HTTP/1.1\r\nHost: a\r\n', 'X-A: b\r\n'],
  ['that sends no HTTP', 'nonsense\r\n\r\n', 'x'],
])(
  'a client %s is hung up on, even if it keeps its side of the connection open',
  async (_name, text, dripping) => {
    const { port } = await startCollector({ timeouts: TIMEOUTS })
    expect(await drip(port, text, dripping, true)).toMatch(/^HTTP\/1\.1 4/)
  },
)

test('a request that is slow behind one under way is answered if it arrives, and so is what is wrong later', async () => {
  const started = await startCollector({ timeouts: TIMEOUTS })
  const { server } = started.collector.app
  const held: (() => void)[] = []
  started.accept = () => new Promise<void>((resolve) => held.push(resolve))
  const open = async () => {
    await expect.poll(() => held.length).toBeGreaterThan(0)
    held.shift()?.()
  }
  const head = `POST /v1/track HTTP/1.1\r\nHost: a\r\nAuthorization: ${AUTHORIZATION}\r\n`
  const rest = `Content-Length: ${CALL.length}\r\n\r\n${CALL}`
  const socket = connect(started.port, '127.0.0.1')
  let answers = ''
  socket.on('data', (chunk: Buffer) => (answers += chunk.toString()))
  const statuses = () => Array.from(answers.matchAll(/HTTP\/1\.1 (\d+)/g), ([, status]) => status)

  socket.write(head + rest + head)
  await once(server, 'clientError') // the second request has had its time
  const arrived = once(server, 'request')
  socket.write(rest)
  await arrived
  await new Promise(setImmediate) // its body has arrived too
  await open()
  await expect.poll(statuses).toEqual(['200'])
  await open()
  await expect.poll(statuses).toEqual(['200', '200'])

  const third = once(server, 'request')
  socket.write(head + rest)
  await third
  const broken = once(server, 'clientError')
  socket.write('hello\r\n\r\n')
  await broken
  await open()
  await once(socket, 'close')
  expect(statuses()).toEqual(['200', '200', '200', '400'])
})

test('a client has 10 s for the headers and 30 s for the whole request, unless it is said otherwise', async () => {
  const { collector } = await startCollector()
  expect(collector.app.server).toMatchObject({ headersTimeout: 10_000, requestTimeout: 30_000 })
})

test('three hundred slow clients keep nobody else waiting', async () => {
  const { port, url } = await startCollector() // with the default timeouts
  const sockets: Socket[] = []
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (let i = 0; i < 300; i++) {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    await once(socket, 'connect')
    socket.write(
      i % 2 === 0
        ? 'POST /v1/track HTTP/1.1\r\nHost: a\r\n'
        : `POST /v1/track HTTP/1.1\r\nHost: a\r\nAuthorization: ${AUTHORIZATION}\r\nContent-Length: 9\r\n\r\n{`,
    )
  }
  const statuses = await Promise.all(Array.from({ length: 50 }, () => post(url)))
  expect(new Set(statuses)).toEqual(new Set([200]))
})
