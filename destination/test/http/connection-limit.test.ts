import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { underWayLimit } from '../../src/destination.js'
import { connectionLimit } from '../../src/http/connection-limit.js'
import { createServer } from '../../src/http/server.js'
import type { Log } from '../../src/observe/log.js'
import { warnOfFiles } from '../../src/operate/warnings.js'

test.each([
  ['Max open files            256                  4096                 files', 128],
  ['Max open files            65536                65536                files', 32_768],
  ['Max open files            1                    1                    files', 1],
  ['Max open files            unlimited            unlimited            files', undefined],
  ['', undefined],
])('of %j the clients get half', (line, expected) => {
  const text = `Limit                     Soft Limit           Hard Limit           Units\n${line}\n`
  expect(connectionLimit(text)).toBe(expected)
})

test.each([
  ['1024', 256],
  ['65536', 4_096],
  ['unlimited', 4_096],
])('of %s files, deliveries have at most a quarter, and at most 4,096', (files, expected) => {
  expect(underWayLimit(`Max open files            ${files}  ${files}  files`)).toBe(expected)
})

test('a server has that limit by default', async () => {
  const server = createServer({ warn: () => undefined, error: () => undefined }, '')
  expect(server.app.server.maxConnections).toBe(connectionLimit())
  await server.close(0)
})

async function serverFor(maxConnections: number) {
  const warnings: string[] = []
  const log = {
    warn: (_details: object, message: string) => warnings.push(message),
    error: () => undefined,
  }
  const server = createServer(log, 'No routes.', { maxConnections })
  const url = await server.listen('127.0.0.1', 0)
  onTestFinished(() => server.close(0))
  return { port: Number(new URL(url).port), warnings }
}

/** Opens a connection and sends a part of a request. */
async function open(port: number, text: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(text)
  return socket
}

const SILENT = 'GET / HTTP/1.1\r\nHost: a\r\n'
const WHOLE = `${SILENT}\r\n`
/** The server answers `100 Continue` once it has read these headers. */
const UNDER_WAY = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n'

/** Sends a request on a new connection; `undefined` if the server closes the connection without an answer. */
async function answered(port: number): Promise<string | undefined> {
  const socket = await open(port, WHOLE)
  return await new Promise((resolve) => {
    socket.once('data', (data) => {
      resolve(data.toString().split('\r\n', 1)[0])
      socket.destroy()
    })
    socket.once('close', () => {
      resolve(undefined)
    })
  })
}

test('a client above the limit is refused, and one is accepted again when another has gone', async () => {
  const { port, warnings } = await serverFor(2)
  const [first, second] = [await open(port, UNDER_WAY), await open(port, UNDER_WAY)]
  await Promise.all([once(first, 'data'), once(second, 'data')])
  expect(await answered(port)).toBeUndefined()
  expect(await answered(port)).toBeUndefined()
  expect(warnings).toEqual([
    expect.stringMatching(/^refused a connection: .* Raise the limit of open files \(`ulimit -n`/),
  ])
  first.destroy()
  await expect.poll(() => answered(port)).toBe('HTTP/1.1 404 Not Found')
})

test('silent clients make room for others, and do not affect those that send requests', async () => {
  const { port } = await serverFor(2)
  const kept = await open(port, WHOLE)
  await once(kept, 'data')
  const silent = await open(port, SILENT)
  expect(await answered(port)).toBeUndefined()
  if (!silent.destroyed) await once(silent, 'close')
  expect(await answered(port)).toBe('HTTP/1.1 404 Not Found')
  kept.write(WHOLE)
  await once(kept, 'data')
})

test('connections without a request make room for new ones', async () => {
  const { port } = await serverFor(2)
  for (const idle of [await open(port, WHOLE), await open(port, WHOLE)]) await once(idle, 'data')
  await expect.poll(() => answered(port)).toBe('HTTP/1.1 404 Not Found')
})

test.each([
  ['of fewer than 1,024 is', 511, 1],
  ['of 1,024 is not', 512, 0],
])('a limit of open files %s warned of at the start', (_of, maxConnections, lines) => {
  const warn = vi.fn()
  warnOfFiles({ warn } as unknown as Log, maxConnections)
  expect(warn).toHaveBeenCalledTimes(lines)
})
