import { Client } from 'undici'
import type { Endpoint } from '../settings/settings.js'
import { Exchange, type ExchangeOwner } from './exchange.js'
import { fixedHeaders, type HeaderList } from './headers.js'
import type { Network } from './network.js'
import type { Outcome } from '../model/outcome.js'

/** Sends requests to one endpoint. */
export interface Poster {
  /**
   * Sends one request, once: nothing here tries again.
   *
   * @param body - goes out as it is, in UTF-8
   * @param headers - beside those that all requests of the endpoint have
   * @param done - called once, never before `post` returns, and at the latest when the time is up
   * @remarks A request beyond the endpoint's `concurrency` waits for a connection, within its time.
   */
  post(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void
  /** Waits for the requests under way, and lets go of the connections. A request from now on fails. */
  close(): Promise<void>
}

/**
 * One undici client for each connection, rather than a pool of them: a pool lets a client whose connection failed go,
 * and yet sends what waits through it, beyond the number of connections and out of reach of its own `close`.
 *
 * @param network - one for all endpoints of the process
 */
export function createPoster(endpoint: Endpoint, network: Network): Poster {
  const url = new URL(endpoint.url)
  const path = url.pathname + url.search
  const fixed = fixedHeaders(endpoint.headers)
  const clients = new Set<Client>()
  /** The last one to be used is used next, so that few connections are kept busy, and none goes stale unseen. */
  const free: Client[] = []
  const waiting = new Set<Exchange>()
  let underWay = 0
  let closing: Promise<void> | undefined
  let idle: () => void = () => undefined

  const open = (): Client => {
    const client = new Client(url.origin, {
      pipelining: 1,
      connect: network.connect,
      // The deadline is the one clock: it counts from the start, and undici's count from the last byte.
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

  /** After a failure, undici may count the request as running for ever. So a client is kept only after a complete answer. */
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
