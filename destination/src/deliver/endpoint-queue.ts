import type { Outcome } from '../model/outcome.js'
import type { HeaderList } from '../post/headers.js'
import type { Poster } from '../post/poster.js'
import type { Endpoint } from '../settings/settings.js'
import type { Breaker, Period, Signal } from './breaker.js'

/** How long a request waits for its turn at an endpoint, in ms, before the message skips that endpoint. */
const MAX_WAIT_MS = 5_000

/** The most requests that are dropped in one turn of the event loop, so that dropping thousands does not block it. */
const SLICE = 32

/** The most requests that wait, as a multiple of the requests that may be under way. */
const MAX_WAITING = 8

interface Waiting {
  body: string
  headers: HeaderList
  done: (outcome: Outcome) => void
  since: number
}

/**
 * What is sent to one endpoint: its breaker, its connections, and a short queue of requests.
 *
 * Only destinations with several endpoints need the queue. A message goes to the fast endpoints at once, and waits here
 * for a slow one, so that a slow endpoint does not delay the others. A request that waits for too long is not sent, and
 * its outcome is `endpoint_busy`.
 */
export class EndpointQueue {
  readonly #waiting: Waiting[] = []

  /** @param now - A monotonic clock, in ms. */
  constructor(
    readonly endpoint: Endpoint,
    readonly breaker: Breaker,
    readonly poster: Poster,
    readonly now: () => number,
  ) {}

  /** How many requests can start now. It is negative if more requests wait than can start. */
  room(): number {
    return this.breaker.room(this.now()) - this.#waiting.length
  }

  /** How many requests wait for their turn. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Sends a request, now or when it is its turn. `done` is called once with the outcome, after `post` has returned. */
  post(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void {
    if (this.room() > 0) {
      this.#send(body, headers, done)
    } else if (this.breaker.isOpen) {
      setImmediate(done, unsent(DOWN, this.breaker.probeInMs(this.now())))
    } else if (this.#waiting.length >= this.breaker.cap * MAX_WAITING) {
      setImmediate(done, unsent(BUSY, 0))
    } else {
      this.#waiting.push({ body, headers, done, since: this.now() })
    }
  }

  /**
   * Drops requests that have waited for too long, and all of them if the breaker is open.
   *
   * @param maxWaitMs - How long a request may wait.
   */
  sweep(maxWaitMs = MAX_WAIT_MS): void {
    const latest = this.breaker.isOpen ? Infinity : this.now() - maxWaitMs
    const kept = this.#waiting.findIndex(({ since }) => since > latest)
    const count = kept < 0 ? this.#waiting.length : kept
    for (const { done } of this.#waiting.splice(0, Math.min(count, SLICE))) {
      done(unsent(this.breaker.isOpen ? DOWN : BUSY, this.breaker.probeInMs(this.now())))
    }
    if (count > SLICE) {
      setImmediate(() => {
        this.sweep(maxWaitMs)
      })
    }
  }

  #send(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void {
    const period = this.breaker.start()
    this.poster.post(body, headers, (outcome) => {
      this.#end(period, outcome)
      done(outcome)
    })
  }

  #end(period: Period, outcome: Outcome): void {
    this.breaker.end(period, signalOf(outcome), outcome.retryAfterMs ?? 0, this.now())
    while (this.#waiting.length > 0 && this.breaker.room(this.now()) > 0) {
      const next = this.#waiting.shift()
      if (next) this.#send(next.body, next.headers, next.done)
    }
  }
}

/** An endpoint that refuses a message is healthy. An endpoint that answers with an error to be retried is not. */
function signalOf({ code, verdict }: Outcome): Signal {
  if (code === 'throttled') return 'throttled'
  return verdict === 'retry' ? 'failure' : 'success'
}

const DOWN = {
  code: 'endpoint_down',
  error: 'the endpoint is down; it is probed until it recovers',
} as const

const BUSY = {
  code: 'endpoint_busy',
  error: 'the endpoint answers more slowly than messages arrive',
} as const

/** The outcome of a request that was not sent. `waitMs` says when to try again at the earliest. */
function unsent({ code, error }: typeof DOWN | typeof BUSY, waitMs: number): Outcome {
  return {
    code,
    verdict: 'retry',
    status: undefined,
    ms: 0,
    retryAfterMs: waitMs,
    response: '',
    error,
  }
}
