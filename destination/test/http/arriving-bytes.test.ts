// What clients have sent of bodies that never end.
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { ArrivingBytes } from '../../src/http/arriving-bytes.js'
import { AUTHORIZATION, startCollector } from '../collect/start.js'

const CALL = '{"userId":"u","event":"E"}'

/** Sends the beginning of a body of 30,000 bytes, and on demand the rest. */
function slowClient(port: number, bytes: number, headers = '') {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  let answer = ''
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString()
  })
  const body = CALL.padEnd(30_000)
  socket.write(`POST /v1/track HTTP/1.1\r\nHost: a\r\n${headers}Content-Length: 30000\r\n\r\n`)
  socket.write(body.slice(0, bytes))
  return { answer: () => answer, end: () => socket.write(body.slice(bytes)) }
}

const post = async (url: string): Promise<number> => {
  const request = { method: 'POST', headers: { authorization: AUTHORIZATION }, body: CALL }
  return (await fetch(`${url}/v1/track`, request)).status
}

test('clients that hold all the room lose their bodies, the first one first, and nobody else is refused', async () => {
  const { port, url, accepted } = await startCollector({ maxArrivingBytes: 100_000 })
  const clients: ReturnType<typeof slowClient>[] = []
  for (let n = 0; n < 6; n++) {
    // None of them has said who it is.
    clients.push(slowClient(port, 29_000))
    expect(await post(url)).toBe(200)
  }
  expect(accepted).toHaveLength(6)
  for (const { end } of clients) end()
  const statuses = () => clients.map(({ answer }) => answer().slice('HTTP/1.1 '.length, 12))
  await expect.poll(statuses).toEqual(['503', '503', '503', '401', '401', '401'])
  expect(clients[0]?.answer()).toMatch(/retry-after: [1-5]\r\n/i)
  expect(clients[0]?.answer()).toContain(
    '"code":"overloaded","message":"Too many bodies arrive slowly at once, and this one began first. The request was not accepted. Send it again later."',
  )
})

test('bodies that have arrived take no room', async () => {
  const { port, url } = await startCollector({ maxArrivingBytes: 40_000 })
  const slow = slowClient(port, 29_000, `Authorization: ${AUTHORIZATION}\r\n`)
  for (let n = 0; n < 500; n++) expect(await post(url)).toBe(200)
  slow.end()
  await expect.poll(slow.answer).toMatch(/^HTTP\/1\.1 200 /)
})

test('there is room for 64 MB', () => {
  expect(new ArrivingBytes().maxBytes).toBe(64_000_000)
})
