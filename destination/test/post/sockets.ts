import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { NetworkOptions } from '../../src/post/network.js'
import { createNetwork } from '../../src/post/network.js'
import type { Outcome } from '../../src/model/outcome.js'
import { createPoster, type Poster } from '../../src/post/poster.js'
import type { Endpoint } from '../../src/settings/settings.js'

/** A short deadline for tests that wait until it passes. */
export const DEADLINE_MS = 400

export const LOOPBACK = ['127.0.0.0/8', '::1/128']

/** Starts a TCP server on a free port of 127.0.0.1. It lists its open sockets, and it is closed after the test. */
export const listenTcp = (onSocket: (socket: Socket) => void, host?: string, port?: number) =>
  listen(createServer(onSocket), host, port)

/** Does the same with any server that is built on TCP sockets. */
export async function listen<T extends Server>(server: T, host = '127.0.0.1', port = 0) {
  const open = new Set<Socket>()
  const seen = { connections: 0 }
  server.on('connection', (socket: Socket) => {
    seen.connections++
    open.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => open.delete(socket))
  })
  server.listen(port, host)
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return { server, port: (server.address() as AddressInfo).port, open, seen }
}

/** Calls back with the text of each request once it has arrived completely. */
export function onRequest(
  act: (socket: Socket, request: string) => void,
): (socket: Socket) => void {
  return (socket) => {
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const head = text.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
      if (head === -1 || text.length < head + 4 + length) return
      const request = text.slice(0, head + 4 + length)
      text = text.slice(head + 4 + length)
      act(socket, request)
    })
  }
}

/** Starts a server that answers each request with the same bytes. */
export const answering = (reply: string | Buffer) =>
  listenTcp(onRequest((socket) => socket.write(reply)))

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Makes a poster to a URL. It is closed after the test, with its connections. */
export function posterTo(
  url: string,
  network: Partial<NetworkOptions> = {},
  endpoint: Partial<Endpoint> = {},
): Poster {
  const shared = createNetwork({ allowNetworks: LOOPBACK, ca: [], ...network })
  const poster = createPoster({ url, headers: {}, concurrency: 4, ...endpoint }, shared)
  onTestFinished(async () => {
    await Promise.all([poster.close(), shared.connections.close()])
  })
  return poster
}

/** Sends one request. Resolves with its outcome; a second outcome fails the test. */
export function post(poster: Poster, body = '{}', headers: readonly string[] = []) {
  return new Promise<Outcome>((resolve, reject) => {
    let outcomes = 0
    poster.post(body, headers, (outcome) => {
      outcomes += 1
      if (outcomes === 1) resolve(outcome)
      else reject(new Error('done was called twice'))
    })
    if (outcomes > 0) reject(new Error('done was called within post'))
  })
}

/** Sends one request to a URL. Resolves with its outcome. */
export const postOnce = (url: string, network: Partial<NetworkOptions> = {}) =>
  post(posterTo(url, network))
