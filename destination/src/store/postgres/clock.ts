import type { Clock } from '../../model/clock.js'

/** The SQL expression for {@link ServerClock.note}: the server's clock at the beginning of the statement, in ms since the epoch. */
export const SERVER_AT = '(extract(epoch FROM statement_timestamp()) * 1000)::float8'

/**
 * The server's clock as this process knows it. Queries that are made anyway bring the server's time with them. In between, this
 * process measures the time that passes.
 */
export class ServerClock implements Clock {
  /** How far the server's clock is ahead of `performance.now()`, in ms. */
  #aheadMs: number | undefined

  readonly now = (): number => performance.now() + (this.#aheadMs ?? performance.timeOrigin)

  /** The server stores the times that people are shown. */
  readonly wall = this.now

  /**
   * Takes over what a query has brought. The server read its clock at some moment between the question and the answer. So what is
   * known changes only as far as it can't be right: a slow answer makes it no worse.
   *
   * @param serverAt - The value of {@link SERVER_AT}.
   * @param askedAt - What `performance.now()` was before the query.
   */
  note(serverAt: number, askedAt: number): void {
    const least = serverAt - performance.now()
    const most = serverAt - askedAt
    const known = this.#aheadMs ?? (least + most) / 2
    this.#aheadMs = Math.min(most, Math.max(least, known))
  }
}
