import type { Endpoint } from '../settings/settings.js'
import type { Connection } from './connections.js'
import { Exchange, type ExchangeOwner } from './exchange.js'
import { fixedHeaders, type HeaderList } from './headers.js'
import type { Network } from './network.js'
import type { Outcome } from '../model/outcome.js'

/** Sends requests to one endpoint. */
export interface Poster {
  /**
   * Sends one request. It is not retried here.
   *
   * @param body - Sent unchanged. A text is sent in UTF-8.
   * @param headers - Sent in addition to the fixed headers of the endpoint.
   * @param done - Called once, after `post` has returned, and at the latest at the deadline.
   * @remarks A request beyond the endpoint's `concurrency` waits for a connection. The wait counts towards its
   * deadline.
   */
  post(body: string | Buffer, headers: HeaderList, done: (outcome: Outcome) => void): void
  /** Waits for the requests under way. Later requests fail with `connection_failed`. */
  close(): Promise<void>
}

/**
 * Makes what sends requests to an endpoint.
 *
 * @param network - Shared by all endpoints of the process.
 */
export function createPoster(endpoint: Endpoint, network: Network): Poster {
  const { connections } = network
  const url = new URL(endpoint.url)
  const path = url.pathname + url.search
  const fixed = fixedHeaders(endpoint.headers)
  const waiting = new Set<Exchange>()
  /** How many requests have a connection. */
  let connected = 0
  let underWay = 0
  let closing: Promise<void> | undefined
  let idle: () => void = () => undefined

  const start = (exchange: Exchange): void => {
    if (connected >= endpoint.concurrency) {
      waiting.add(exchange)
      return
    }
    connected++
    exchange.connection = connections.take(url.origin)
    exchange.connection.client.dispatch(exchange.request, exchange)
  }

  const release = (connection: Connection, isReusable: boolean): void => {
    connected--
    if (isReusable) connections.give(connection)
    else connections.drop(connection)
    for (const next of waiting) {
      waiting.delete(next)
      start(next)
      return
    }
  }

  const owner: ExchangeOwner = {
    network,
    url,
    ended: (exchange, outcome) => {
      if (exchange.connection === undefined) waiting.delete(exchange)
      else release(exchange.connection, exchange.isComplete)
      underWay -= 1
      if (underWay === 0) idle()
      exchange.done(outcome)
    },
  }

  const close = async (): Promise<void> => {
    if (underWay > 0) await new Promise<void>((resolve) => (idle = resolve))
  }

  return {
    post: (body, headers, done) => {
      const request = { path, method: 'POST' as const, headers: fixed.concat(headers), body }
      const exchange = new Exchange(owner, request, done)
      underWay += 1
      if (closing === undefined) start(exchange)
      else exchange.fail(new Error('nothing is sent to this endpoint any more'))
    },
    close: () => (closing ??= close()),
  }
}
