import { performance, type EventLoopUtilization } from 'node:perf_hooks'
import { overloaded } from '../http/refusal.js'

/** For how long calls may be read in one turn of the event loop, in ms. Then deliveries have theirs. */
const SLICE_MS = 1

/** How often the share of the time that reading calls may take is decided, in ms. */
const WINDOW_MS = 100

/** From this utilization of the event loop on, calls and deliveries compete for the time of the process. */
const BUSY = 0.9

/**
 * So many messages may wait although their endpoint takes more. With more of them, deliveries get more of the time. It is
 * about the work of half a second.
 */
const MAX_BEHIND = 2_000

/**
 * A source that takes less of the time than this share does not wait for the others, who cause the work. It may take so many
 * ms at once.
 */
const LIGHT_SHARE = 1 / 40
const LIGHT_MS = 2.5

/** All such sources together do not wait until they have taken this share of a window. */
const MAX_LIGHT_SHARE = 1 / 2

/** Reading calls gets this share of the time at least. */
const MIN_SHARE = 0.05

/** A body that takes longer than this, in ms, does not make the next one wait longer. */
const MAX_DEBT_MS = 25

/** How the share changes with each window. It falls fast, because a backlog grows fast. */
const FALL = 0.7
const RISE = 1.5

/** For how long a request waits before it is refused, in ms. Clients wait for 10 s and longer. */
const MAX_WAIT_MS = 5_000

/** The same while the process ends. The rest of its time is for what has been read. */
const MAX_WAIT_CLOSING_MS = 2_000

interface Waiting {
  run: () => void
  refuse: (error: Error) => void
  since: number
}

/** What the admission needs. */
export interface AdmissionParts {
  /** How many messages wait that their endpoints would take: only this process holds them up. */
  behind: () => number
  /** A monotonic clock, in ms. */
  now: () => number
  /** The utilization of the event loop since another measurement, from 0 to 1. */
  utilization?: (since: EventLoopUtilization | undefined) => EventLoopUtilization
}

/**
 * Decides when the calls of a request are read and stored.
 *
 * - The sources take turns, so that one that floods the destination does not delay the others. One that sends little does not
 *   wait at all.
 * - In each turn of the event loop calls are read for a few ms at most, so that deliveries are not delayed.
 * - While the process has no time left and messages wait for it, reading calls gets a smaller share of the time. So
 *   answers slow down, instead of a backlog that grows for as long as clients send.
 */
export class Admission {
  /** The requests of each source that wait. The source whose turn it is comes first. */
  readonly #queues = new Map<string, Waiting[]>()
  readonly #parts: Required<AdmissionParts>
  #share = 1
  /** For how long calls were read in this turn of the event loop, in ms. */
  #turnMs = 0
  #isTurnNoted = false
  /** For how long calls may be read by {@link #share}, in ms; negative after a body that took longer. */
  #credit = SLICE_MS
  #creditAt: number
  #windowAt: number
  #loopAtWindow: EventLoopUtilization
  /** For how long calls were read in this window, in ms. */
  #readMs = 0
  /** What each source has taken of its share as a light source, in ms. */
  readonly #readOf = new Map<string, { ms: number; at: number }>()
  /** For how long light sources were read in this window, in ms. */
  #lightMs = 0
  #isClosing = false
  #isWaking = false

  constructor(parts: AdmissionParts) {
    this.#parts = { utilization: (since) => performance.eventLoopUtilization(since), ...parts }
    this.#creditAt = this.#windowAt = parts.now()
    this.#loopAtWindow = this.#parts.utilization(undefined)
  }

  /**
   * Runs `work` when it is the turn of its source, at once if nothing waits. Only what `work` does before it first waits
   * counts as its time.
   *
   * @throws Refusal with 503 if its turn does not come in 5 s. `work` has not run then.
   */
  run<T>(source: string, work: () => Promise<T>): Promise<T> {
    if (this.#mayRun() && this.#queues.size === 0) return this.#run(source, work)
    if (this.#isLight(source)) return this.#runLight(source, work)
    return new Promise<T>((resolve, reject) => {
      const run = () => {
        this.#run(source, work).then(resolve, reject)
      }
      const waiting = { run, refuse: reject, since: this.#parts.now() }
      const queue = this.#queues.get(source)
      if (queue) queue.push(waiting)
      else this.#queues.set(source, [waiting])
      this.#wake()
    })
  }

  /** The process ends: what waits is read as fast as possible, and refused after a shorter time. */
  close(): void {
    this.#isClosing = true
    this.#share = 1
    this.#goOn()
  }

  #run<T>(source: string, work: () => Promise<T>): Promise<T> {
    const from = this.#parts.now()
    const working = work()
    const now = this.#parts.now()
    const ms = now - from
    this.#noteTurn()
    this.#turnMs += ms
    this.#readMs += ms
    this.#credit = Math.max(-MAX_DEBT_MS, this.#credit - ms)
    this.#readOf.set(source, { ms: this.#takenBy(source, now) + ms, at: now })
    return working
  }

  /** Whether a source takes so little that its request need not wait. */
  #isLight(source: string): boolean {
    if (this.#queues.has(source) || this.#lightMs >= WINDOW_MS * MAX_LIGHT_SHARE) return false
    return this.#takenBy(source, this.#parts.now()) < LIGHT_MS
  }

  #runLight<T>(source: string, work: () => Promise<T>): Promise<T> {
    const readBefore = this.#readMs
    const working = this.#run(source, work)
    this.#lightMs += this.#readMs - readBefore
    return working
  }

  #takenBy(source: string, now: number): number {
    const { ms, at } = this.#readOf.get(source) ?? { ms: 0, at: now }
    return Math.max(0, ms - (now - at) * LIGHT_SHARE)
  }

  #noteTurn(): void {
    if (this.#isTurnNoted) return
    this.#isTurnNoted = true
    setImmediate(() => {
      this.#isTurnNoted = false
      this.#turnMs = 0
    })
  }

  /** Whether there is time left to read calls. */
  #mayRun(): boolean {
    const now = this.#parts.now()
    if (now - this.#windowAt >= WINDOW_MS) this.#decideShare(now)
    this.#credit = Math.min(SLICE_MS, this.#credit + (now - this.#creditAt) * this.#share)
    this.#creditAt = now
    return this.#turnMs < SLICE_MS && (this.#share === 1 || this.#credit > 0)
  }

  #decideShare(now: number): void {
    const { behind, utilization } = this.#parts
    const isBusy = utilization(this.#loopAtWindow).utilization >= BUSY
    const share = Math.min(this.#share, this.#readMs / (now - this.#windowAt))
    const isOver = isBusy && !this.#isClosing && behind() > MAX_BEHIND
    this.#share = isOver ? Math.max(MIN_SHARE, share * FALL) : Math.min(1, this.#share * RISE)
    this.#windowAt = now
    this.#loopAtWindow = utilization(undefined)
    this.#readMs = 0
    this.#lightMs = 0
    for (const source of this.#readOf.keys()) {
      if (this.#takenBy(source, now) === 0) this.#readOf.delete(source)
    }
  }

  /** Goes on with what waits in the next turn of the event loop, or when there is time for it. */
  #wake(): void {
    if (this.#isWaking) return
    this.#isWaking = true
    const goOn = () => {
      this.#isWaking = false
      this.#goOn()
    }
    if (this.#share === 1 || this.#credit > 0) setImmediate(goOn)
    else setTimeout(goOn, Math.min(WINDOW_MS, Math.ceil(-this.#credit / this.#share)))
  }

  #goOn(): void {
    this.#refuseOld()
    while (this.#queues.size > 0 && this.#mayRun()) this.#takeNext()?.run()
    if (this.#queues.size > 0) this.#wake()
  }

  /** The first request of the source whose turn it is. The source then goes behind the others. */
  #takeNext(): Waiting | undefined {
    for (const [source, queue] of this.#queues) {
      this.#queues.delete(source)
      const next = queue.shift()
      if (queue.length > 0) this.#queues.set(source, queue)
      return next
    }
    return undefined
  }

  #refuseOld(): void {
    const oldest = this.#parts.now() - (this.#isClosing ? MAX_WAIT_CLOSING_MS : MAX_WAIT_MS)
    for (const [source, queue] of this.#queues) {
      while (queue[0] && queue[0].since < oldest) queue.shift()?.refuse(overloaded())
      if (queue.length === 0) this.#queues.delete(source)
    }
  }
}
