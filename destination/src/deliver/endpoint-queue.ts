import type { DeliveryId, Lane } from '../model/delivery.js'
import type { Outcome } from '../model/outcome.js'
import type { HeaderList } from '../post/headers.js'
import type { Poster } from '../post/poster.js'
import type { Endpoint } from '../settings/settings.js'
import type { Breaker, Period } from './breaker.js'
import { LaneTurns } from './lane-turns.js'
import type { Pace } from './pace.js'

/** How long a request waits for its turn at an endpoint, in ms, before the message skips that endpoint. */
const MAX_WAIT_MS = 5_000

/** The most requests that are dropped in one turn of the event loop, so that dropping thousands does not block it. */
const SLICE = 32

/** The most requests of a lane that wait, as a multiple of the requests that may be under way. */
const MAX_WAITING = 8

/** At least so many may wait, so that an endpoint that takes few requests at once is busy until the next ones are claimed. */
const LEAST_MAX_WAITING = 128

/** What an endpoint takes in this time, in s, may always wait. */
const SOON_S = 0.5

/** A request to one endpoint. */
export interface EndpointRequest {
  /** The delivery that it is for. */
  id: DeliveryId
  /** The lane that the delivery came from. */
  lane: Lane
  body: Buffer
  headers: HeaderList
  /** Whether the message was claimed before: an earlier attempt failed, or could not be sent. */
  wasTried: boolean
  /** It is not sent if so many requests wait in its lane, unless these are sent soon. */
  mostWaiting: number
}

interface Waiting {
  request: EndpointRequest
  done: (outcome: Outcome) => void
  since: number
}

/**
 * What is sent to one endpoint: its breaker, its pace, its connections, and a short queue of requests.
 *
 * Only destinations with several endpoints need the queue. A message goes to the fast endpoints at once, and waits here
 * for a slow one, so that a slow endpoint does not delay the others. A request that waits for too long, or that too many others wait
 * before, is not sent, and its outcome is `endpoint_busy`.
 */
export class EndpointQueue {
  readonly #now: () => number
  /** The requests that wait. */
  readonly #lines: Readonly<Record<Lane, Waiting[]>> = { fresh: [], backlog: [], bulk: [] }
  /** The lanes take turns, so that none of them delays the others. */
  readonly #turns = new LaneTurns()
  #isRetired = false
  /** The requests of each lane, under way or waiting. */
  readonly #requests: Record<Lane, number> = { fresh: 0, backlog: 0, bulk: 0 }

  /** @param now - A monotonic clock, in ms. */
  constructor(
    readonly endpoint: Endpoint,
    readonly breaker: Breaker,
    readonly pace: Pace,
    readonly poster: Poster,
    now: () => number,
  ) {
    this.#now = now
  }

  /** Whether the settings do not use it any more. */
  get isRetired(): boolean {
    return this.#isRetired
  }

  /** Whether it takes requests other than probes: it is neither down nor paused. */
  get isAvailable(): boolean {
    return !this.breaker.isOpen && this.pace.pauseMs(this.#now()) === 0
  }

  /** Whether a rate limits its requests, by the settings or since it answered 429. */
  get isPaced(): boolean {
    return this.pace.rate < Infinity
  }

  /** How many requests can start now. It is negative if more requests wait than can start. */
  room(): number {
    return this.#open() - this.waiting
  }

  /** How many requests may be under way at once now. */
  limit(): number {
    const { breaker, pace } = this
    return breaker.inFlight + Math.min(breaker.room(this.#now()), pace.burst)
  }

  /** How many requests of a lane are under way, or wait for their turn. */
  requestsOf(lane: Lane): number {
    return this.#requests[lane]
  }

  /** How many requests it takes in a second, as far as is known. */
  get recentRate(): number {
    return this.pace.recentRate(this.#now())
  }

  /** Its settings are used from now on. Its breaker and its pace may have those of before. */
  useLimits(): void {
    const { concurrency, rateLimit = Infinity } = this.endpoint
    this.breaker.cap = concurrency
    this.pace.setLimit(rateLimit, this.#now())
  }

  /** Shares the endpoint among this many workers, including this one. */
  shareAmong(workers: number): void {
    this.breaker.shareAmong(workers)
    this.pace.shareAmong(workers)
  }

  /** How many requests wait for their turn. */
  get waiting(): number {
    const { fresh, backlog, bulk } = this.#lines
    return fresh.length + backlog.length + bulk.length
  }

  /** Sends a request, now or when it is its turn. `done` is called once with the outcome, after `post` has returned. */
  post(request: EndpointRequest, done: (outcome: Outcome) => void): void {
    if (this.#isRetired) {
      setImmediate(done, this.#unsentNow())
    } else if (this.room() > 0) {
      this.#requests[request.lane]++
      this.#send(request, done)
    } else if (this.#isHopeless(request)) {
      setImmediate(done, this.#unsentNow())
    } else {
      this.#requests[request.lane]++
      this.#lines[request.lane].push({ request, done, since: this.#now() })
    }
  }

  /**
   * The settings do not use it any more, or the process ends. What is under way ends as usual, and no other request starts: not
   * those that wait, and not the one with the other secret, if an endpoint refuses a signature during a rotation.
   */
  retire(): void {
    this.#isRetired = true
    this.sweep(0)
  }

  /** Requests of these deliveries that wait for their turn are not sent. Their outcome is `endpoint_busy`. */
  withdraw(ids: ReadonlySet<DeliveryId>): void {
    for (const line of Object.values(this.#lines)) {
      const withdrawn = line.filter(({ request }) => ids.has(request.id))
      if (withdrawn.length === 0) continue
      line.splice(0, line.length, ...line.filter(({ request }) => !ids.has(request.id)))
      for (const one of withdrawn) this.#drop(one)
    }
  }

  /**
   * Sends the requests whose turn it is now. Drops those that have waited for too long, and all of them if the breaker is
   * open.
   *
   * @param maxWaitMs - How long a request may wait.
   */
  sweep(maxWaitMs = MAX_WAIT_MS): void {
    if (this.waiting === 0) return
    if (maxWaitMs > 0) this.#sendWaiting()
    const latest = this.breaker.isOpen ? Infinity : this.#now() - maxWaitMs
    const dropped: Waiting[] = []
    let isMore = false
    for (const line of Object.values(this.#lines)) {
      const kept = line.findIndex(({ since }) => since > latest)
      const count = kept < 0 ? line.length : kept
      const now = Math.min(count, SLICE - dropped.length)
      dropped.push(...line.splice(0, now))
      isMore ||= count > now
    }
    for (const one of dropped) this.#drop(one)
    if (isMore) {
      setImmediate(() => {
        this.sweep(maxWaitMs)
      })
    }
  }

  /** How many requests can start now, waiting or not. */
  #open(): number {
    const now = this.#now()
    return Math.min(this.breaker.room(now), this.pace.room(now))
  }

  /** A request that waited is not sent. */
  #drop({ request, done }: Waiting): void {
    this.#requests[request.lane]--
    done(this.#unsentNow())
  }

  #send(request: EndpointRequest, done: (outcome: Outcome) => void): void {
    const { body, headers, lane, wasTried } = request
    const startedAt = this.#now()
    const period = this.breaker.start()
    this.pace.start(startedAt)
    this.poster.post(body, headers, (outcome) => {
      this.#requests[lane]--
      this.#end(period, startedAt, wasTried, outcome)
      done(outcome)
    })
  }

  #end(period: Period, startedAt: number, wasTried: boolean, outcome: Outcome): void {
    const now = this.#now()
    const { code, verdict, retryAfterMs = 0 } = outcome
    const isHealthy = verdict !== 'retry'
    const isThrottled = code === 'throttled'
    if (isHealthy) this.pace.succeed(now)
    else if (isThrottled) this.pace.throttle(retryAfterMs, startedAt, now)
    this.breaker.end(period, { isHealthy: isHealthy || isThrottled, retryAfterMs, wasTried }, now)
    this.#sendWaiting()
  }

  /** Whether a request that is queued now would be dropped in the end, or waits for too long. */
  #isHopeless({ lane, mostWaiting }: EndpointRequest): boolean {
    const { breaker, pace } = this
    const most = Math.max(breaker.cap * MAX_WAITING, LEAST_MAX_WAITING)
    const mostNow = Math.max(mostWaiting, this.recentRate * SOON_S)
    const isFull = this.#lines[lane].length >= Math.min(most, mostNow)
    return breaker.isOpen || isFull || pace.pauseMs(this.#now()) > MAX_WAIT_MS
  }

  /** The outcome of a request that is not sent. It says when to try again at the earliest. */
  #unsentNow(): Outcome {
    const now = this.#now()
    if (this.breaker.isOpen) return unsent(DOWN, this.breaker.probeInMs(now))
    const pauseMs = this.pace.pauseMs(now)
    return unsent(pauseMs > 0 ? PAUSED : BUSY, pauseMs)
  }

  #sendWaiting(): void {
    if (this.#isRetired) return
    while (this.waiting > 0 && this.#open() > 0) {
      const lane = this.#turns.next((each) => this.#lines[each].length > 0)
      const next = this.#lines[lane].shift()
      if (next) this.#send(next.request, next.done)
    }
  }
}

const DOWN = {
  code: 'endpoint_down',
  error: 'the endpoint is down; it is probed until it recovers',
} as const

const BUSY = {
  code: 'endpoint_busy',
  error: 'the endpoint answers more slowly than messages arrive',
} as const

const PAUSED = {
  code: 'endpoint_busy',
  error: 'the endpoint answered 429, and gets no request until its pause is over',
} as const

/** The outcome of a request that was not sent. `waitMs` says when to try again at the earliest. */
function unsent({ code, error }: Pick<Outcome, 'code' | 'error'>, waitMs: number): Outcome {
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
