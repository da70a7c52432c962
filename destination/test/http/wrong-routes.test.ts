// Requests with a wrong path or method have bodies, too, which nobody reads.
import { beforeAll, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { exchange } from '../collect/start.js'
import { freePort, settingsFor, silent, start } from '../run.js'

let running: RunningDestination

beforeAll(async () => {
  const cleanUps: (() => unknown)[] = []
  const later = (cleanUp: () => unknown) => cleanUps.unshift(cleanUp)
  const adminListen = { host: '127.0.0.1', port: await freePort() }
  running = await start(settingsFor([], { adminListen }, later), silent, later)
  return async () => {
    for (const cleanUp of cleanUps) await cleanUp()
  }
})

/** Content types and bodies: malformed, unknown, JSON that is not valid, and none. */
const BODIES = [
  ['x', 'x'],
  ['application/xml', '<x/>'],
  ['application/json', '{'],
  ['application/json', ''],
  [undefined, 'x'],
] as const

const WRONG = [
  ['collector', 'PUT', '/v1/track', 405],
  ['collector', 'POST', '/nope', 404],
  ['collector', 'POST', '/healthz', 405],
  ['collector', 'DELETE', '/nope', 404],
  ['admin', 'PATCH', '/v1/admin/status', 405],
  ['admin', 'POST', '/v1/admin/nope', 404],
  ['admin', 'POST', '/v1/track', 404],
  ['admin', 'PUT', '/v1/portal/sources', 405],
  ['admin', 'POST', '/v1/portal/nope', 404],
] as const

test.each(WRONG)(
  'at the %s, %s %s is answered %i, whatever its body is',
  async (server, method, path, status) => {
    const url = server === 'admin' ? running.adminUrl : running.url
    const code = status === 404 ? 'not_found' : 'method_not_allowed'
    for (const [type, body] of BODIES) {
      const headers = type === undefined ? {} : { 'Content-Type': type }
      const response = await fetch(`${url}${path}`, { method, body: Buffer.from(body), headers })
      const answer = (await response.json()) as { code?: string; error?: { code: string } }
      expect([type, response.status, answer.error?.code ?? answer.code]).toEqual([
        type,
        status,
        code,
      ])
      expect(response.headers.has('allow')).toBe(status === 405)
    }
  },
)

test('the next request of the connection is answered as if there had been no body', async () => {
  const { port } = new URL(running.url)
  const body = 'GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(10_000)
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const wrong = (head: string, rest: string) =>
    `${head} HTTP/1.1\r\nHost: a\r\nContent-Type: x\r\n${rest}`
  const answers = await exchange(
    Number(port),
    wrong('POST /nope', `Content-Length: ${body.length}\r\n\r\n${body}`),
    wrong('PUT /v1/track', `Transfer-Encoding: chunked\r\n\r\n${chunked}`),
    wrong('GET /nope', `Content-Length: ${body.length}\r\n\r\n${body}`),
    'GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  )
  expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(
    [404, 405, 404, 200].map((status) => `HTTP/1.1 ${status}`),
  )
  expect(answers).toMatch(/\{"status":"ok"\}$/)
})

test('a body that ends too early is answered, and the connection closed', async () => {
  const { port } = new URL(running.url)
  const head = 'POST /nope HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
  const answer = await exchange(Number(port), `${head}zz\r\n`)
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
})
