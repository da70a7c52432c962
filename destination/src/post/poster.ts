import { Client } from 'undici'
import type { Endpoint } from '../settings/settings.js'
import { Exchange, type ExchangeOwner } from './exchange.js'
import { fixedHeaders, type HeaderList } from './headers.js'
import type { Network } from './network.js'
import type { Outcome } from '../model/outcome.js'

/** Sends requests to one endpoint. */
export interface Poster {
  /**
   * Sends one request. It is not retried here.
   *
   * @param body - Sent unchanged, in UTF-8.
   * @param headers - Sent in addition to the fixed headers of the endpoint.
   * @param done - Called once, after `post` has returned, and at the latest at the deadline.
   * @remarks A request beyond the endpoint's `concurrency` waits for a connection. The wait counts towards its
   * deadline.
   */
  post(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void
  /** Waits for the requests under way, and closes the connections. Later requests fail with `connection_failed`. */
  close(): Promise<void>
}

/**
 * Makes the connections to an endpoint, with one undici client for each. undici's pool is not used: it drops a client
 * whose connection failed, but that client still sends its waiting requests. Such requests exceed the limit of
 * connections, and the pool's `close` does not wait for them.
 *
 * @param network - Shared by all endpoints of the process.
 */
export function createPoster(endpoint: Endpoint, network: Network): Poster {
  const url = new URL(endpoint.url)
  const path = url.pathname + url.search
  const fixed = fixedHeaders(endpoint.headers)
  const clients = new Set<Client>()
  /**
   * The client that was used last is used next, so that few connections stay open and no idle one is used after a long
   * time.
   */
  const free: Client[] = []
  const waiting = new Set<Exchange>()
  let underWay = 0
  let closing: Promise<void> | undefined
  let idle: () => void = () => undefined

  const open = (): Client => {
    const client = new Client(url.origin, {
      pipelining: 1,
      connect: network.connect,
      // Only `network.deadline` limits the time, counted from the start. undici's timeouts count from the last byte.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    clients.add(client)
    return client
  }

  const start = (exchange: Exchange): void => {
    const client = free.pop() ?? (clients.size < endpoint.concurrency ? open() : undefined)
    if (client === undefined) {
      waiting.add(exchange)
      return
    }
    exchange.client = client
    client.dispatch(exchange.request, exchange)
  }

  /**
   * A client is kept only after a complete answer. After a failure, undici may count the request as running forever.
   */
  const release = (client: Client, isReusable: boolean): void => {
    if (isReusable) free.push(client)
    else {
      clients.delete(client)
      void client.destroy()
    }
    for (const next of waiting) {
      waiting.delete(next)
      start(next)
      return
    }
  }

  const owner: ExchangeOwner = {
    network,
    host: url.host,
    ended: (exchange, outcome) => {
      if (exchange.client === undefined) waiting.delete(exchange)
      else release(exchange.client, exchange.isComplete)
      underWay -= 1
      if (underWay === 0) idle()
      exchange.done(outcome)
    },
  }

  const close = async (): Promise<void> => {
    if (underWay > 0) await new Promise<void>((resolve) => (idle = resolve))
    await Promise.all(Array.from(clients, (client) => client.destroy()))
  }

  return {
    post: (body, headers, done) => {
      const request = { path, method: 'POST' as const, headers: fixed.concat(headers), body }
      const exchange = new Exchange(owner, request, done)
      underWay += 1
      if (closing === undefined) start(exchange)
      else
        exchange.onResponseError(
          undefined,
          new Error('the connections to this endpoint are closed'),
        )
    },
    close: () => (closing ??= close()),
  }
}
