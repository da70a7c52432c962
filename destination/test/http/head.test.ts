import { expect, test } from 'vitest'
import { AUTHORIZATION, exchange, startCollector } from '../collect/start.js'

const BODY = '{"userId":"u","event":"E"}'

function request(version: string, ...headers: string[]): string {
  const lines = [
    `POST /v1/track HTTP/${version}`,
    `Authorization: ${AUTHORIZATION}`,
    `Content-Length: ${BODY.length}`,
    ...headers,
  ]
  return `${lines.join('\r\n')}\r\n\r\n${BODY}`
}

const CLOSE = 'Connection: close'

test('a request that expects something unknown is taken and counted as others', async () => {
  const { port, counted, accepted } = await startCollector()
  const answer = await exchange(port, request('1.1', 'Host: a', 'Expect: foo', CLOSE))
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\{"success":true\}$/)
  expect(counted).toEqual(['web accepted 1', 'web ok'])
  expect(accepted).toHaveLength(1)
})

test('a request that waits for 100 Continue gets it', async () => {
  const { port } = await startCollector()
  expect(await exchange(port, request('1.1', 'Host: a', 'Expect: 100-continue', CLOSE))).toMatch(
    /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/,
  )
})

test('a request of HTTP/1.1 without a Host is refused in JSON, and the next one on its connection is taken', async () => {
  const { port, accepted } = await startCollector()
  const both = request('1.1') + request('1.1', 'Host: a', CLOSE)
  const [first, second] = (await exchange(port, both)).split(/(?=HTTP\/1\.1 \d)/)
  expect(first).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
  expect(JSON.parse(first?.split('\r\n\r\n')[1] ?? '')).toEqual({
    success: false,
    code: 'bad_request',
    message: 'A request of HTTP/1.1 must have a Host header; it has none.',
  })
  expect(second).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  expect(accepted).toHaveLength(1)
})

test('a request of HTTP/1.0 needs no Host', async () => {
  const { port } = await startCollector()
  expect(await exchange(port, request('1.0'))).toMatch(/^HTTP\/1\.[01] 200 OK\r\n/)
})
