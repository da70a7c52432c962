import type { Outcome } from '../model/outcome.js'
import type { HeaderList } from '../post/headers.js'
import type { Poster } from '../post/poster.js'
import type { Endpoint } from '../settings/settings.js'
import type { Gate, Health, Pass } from './breaker.js'

/** How long a request waits for its turn at an endpoint, in ms, before it does without. */
const MAX_WAIT_MS = 5_000

/** So many are let go of in one turn of the event loop, so that others do not wait for thousands of them. */
const SLICE = 32

/** Requests that wait for their turn, as a multiple of those that may be under way. */
const MAX_WAITING = 8

interface Waiting {
  body: string
  headers: HeaderList
  done: (outcome: Outcome) => void
  since: number
}

/**
 * The line to one endpoint: its gate, its connections, and a short queue.
 *
 * The queue is for destinations of several endpoints. A message goes to the quick ones at once and waits for a slow
 * one here, so that none delays another; one that can't keep up goes without, which its outcome says.
 */
export class Line {
  readonly #waiting: Waiting[] = []

  /** @param now - A monotonic clock, in ms. */
  constructor(
    readonly endpoint: Endpoint,
    readonly gate: Gate,
    readonly poster: Poster,
    readonly now: () => number,
  ) {}

  /** How many requests would start at once. Below 0, some wait already. */
  room(): number {
    return this.gate.room(this.now()) - this.#waiting.length
  }

  /** How many wait for their turn. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Sends a request, now or at its turn. `done` is called once, later, with what came of it. */
  post(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void {
    if (this.room() > 0) {
      this.#send(body, headers, done)
    } else if (this.gate.isShut) {
      setImmediate(
        done,
        unsent('endpoint_down', 'the endpoint fails; it is probed until it is well'),
      )
    } else if (this.#waiting.length >= this.gate.cap * MAX_WAITING) {
      setImmediate(done, BUSY)
    } else {
      this.#waiting.push({ body, headers, done, since: this.now() })
    }
  }

  /**
   * Lets go of requests that have waited for too long, or that wait at a gate that has shut.
   *
   * @param maxWaitMs - What is too long.
   */
  sweep(maxWaitMs = MAX_WAIT_MS): void {
    const latest = this.gate.isShut ? Infinity : this.now() - maxWaitMs
    const kept = this.#waiting.findIndex(({ since }) => since > latest)
    const count = kept < 0 ? this.#waiting.length : kept
    for (const { done } of this.#waiting.splice(0, Math.min(count, SLICE))) done(BUSY)
    if (count > SLICE) {
      setImmediate(() => {
        this.sweep(maxWaitMs)
      })
    }
  }

  #send(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void {
    const pass = this.gate.enter()
    this.poster.post(body, headers, (outcome) => {
      this.#leave(pass, outcome)
      done(outcome)
    })
  }

  #leave(pass: Pass, outcome: Outcome): void {
    this.gate.leave(pass, healthOf(outcome), outcome.retryAfterMs ?? 0, this.now())
    while (this.#waiting.length > 0 && this.gate.room(this.now()) > 0) {
      const next = this.#waiting.shift()
      if (next) this.#send(next.body, next.headers, next.done)
    }
  }
}

/** An endpoint that answers is well, whatever it says of the message, unless it says that it is not. */
function healthOf({ code, verdict }: Outcome): Health {
  if (code === 'throttled') return 'throttled'
  return verdict === 'retry' ? 'ill' : 'well'
}

function unsent(code: 'endpoint_down' | 'endpoint_busy', error: string): Outcome {
  return {
    code,
    verdict: 'retry',
    status: undefined,
    ms: 0,
    retryAfterMs: undefined,
    response: '',
    error,
  }
}

const BUSY = unsent(
  'endpoint_busy',
  'the endpoint takes longer to answer than messages keep coming',
)
