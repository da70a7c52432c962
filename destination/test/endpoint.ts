import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** One request as an endpoint received it. */
export interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  /** Names and values as they arrived, in their order. */
  rawHeaders: string[]
  body: string
  /** The parsed body. */
  event: Record<string, unknown>
}

/** How an endpoint answers: a status, or a function that answers. */
export type Answer = number | ((response: ServerResponse, received: Received) => void)

/** A customer's endpoint: an HTTP server on a port of its own. */
export interface TestEndpoint extends AsyncDisposable {
  url: string
  received: Received[]
  /** Resolves once it has received `count` requests. */
  has: (count: number) => Promise<void>
  /** Replaces the rest of the script: all later requests get this answer. */
  answer: (answer: Answer) => void
}

/**
 * @param script - The answers in turn. The last one is repeated.
 * @param port - The port of an endpoint that comes back; 0 takes a free one.
 */
export async function startEndpoint(script: Answer[] = [204], port = 0): Promise<TestEndpoint> {
  const received: Received[] = []
  const waiting = new Set<() => void>()
  let rest = [...script]
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { method = '', url = '', headers, rawHeaders } = request
      const event = JSON.parse(body) as Record<string, unknown>
      const one = { method, path: url, headers, rawHeaders, body, event }
      received.push(one)
      const answer = (rest.length > 1 ? rest.shift() : rest[0]) ?? 204
      if (typeof answer === 'number') response.writeHead(answer).end()
      else answer(response, one)
      for (const check of waiting) check()
    })
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    has: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (received.length < count) return
          waiting.delete(check)
          resolve()
        }
        waiting.add(check)
        check()
      }),
    answer: (answer) => {
      rest = [answer]
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
