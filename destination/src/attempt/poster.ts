import { Pool } from 'undici'
import type { Endpoint } from '../settings/settings.js'
import { Exchange, type Line } from './exchange.js'
import { fixedHeaders, type HeaderList } from './headers.js'
import type { Network } from './network.js'
import type { Outcome } from './outcome.js'

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
  /** Waits for the requests under way, and lets go of the connections. A request after that fails. */
  close(): Promise<void>
}

/** @param network - one for all endpoints of the process */
export function createPoster(endpoint: Endpoint, network: Network): Poster {
  const url = new URL(endpoint.url)
  const path = url.pathname + url.search
  const fixed = fixedHeaders(endpoint.headers)
  const pool = new Pool(url.origin, {
    connections: endpoint.concurrency,
    pipelining: 1,
    connect: network.connect,
    // The deadline is the one clock: it counts from the start, and undici's count from the last byte.
    headersTimeout: 0,
    bodyTimeout: 0,
  })

  let underWay = 0
  let closing: Promise<void> | undefined
  let idle: () => void = () => undefined
  const line: Line = {
    network,
    host: url.host,
    ended: (exchange, outcome) => {
      underWay -= 1
      if (underWay === 0) idle()
      exchange.done(outcome)
    },
  }

  const close = async () => {
    if (underWay > 0) await new Promise<void>((resolve) => (idle = resolve))
    await pool.destroy()
  }

  return {
    post: (body, headers, done) => {
      underWay += 1
      pool.dispatch(
        { path, method: 'POST', headers: fixed.concat(headers), body },
        new Exchange(line, done),
      )
    },
    close: () => (closing ??= close()),
  }
}
