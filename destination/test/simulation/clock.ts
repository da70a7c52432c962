// Virtual time: the timers of the process belong to the simulation while a round runs.

/** Whose timers they are. All that a process does comes from its timers, so this is enough to kill or to suspend it. */
export interface Owner {
  isDead: boolean
  /** Its timers wait until this time. */
  suspendedUntil: number
}

interface Timer {
  at: number
  /** Timers of one time run in the order in which they were set. */
  order: number
  everyMs: number | undefined
  owner: Owner | undefined
  run: () => void
  isCleared: boolean
}

const real = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
  clearImmediate: globalThis.clearImmediate,
  random: Math.random,
}

/** So many timers run before the real event loop gets its turn. */
const BATCH = 64

/** More timers than this at one time are an endless loop. */
const MOST_AT_ONCE = 300_000

/**
 * A clock that stands still until {@link VirtualClock.run}. Between two timers, all promises that can go on do so: each
 * timer runs in a real immediate of its own, after which Node.js empties its queue of microtasks.
 */
export class VirtualClock {
  /** In ms since the start of the round. */
  now = 0
  /** Who runs at the moment. Timers that are set belong to it. */
  owner: Owner | undefined
  /** How many timers have run. */
  count = 0
  readonly #heap: Timer[] = []
  #order = 0
  #error: Error | undefined
  /** How many timers have run since the time moved. */
  #atOnce = 0

  /** Runs `work` after `ms`, on behalf of nobody or of an owner. */
  after(ms: number, work: () => void, owner?: Owner): Timer {
    return this.#add(ms, undefined, owner, work)
  }

  /** Resolves after `ms`, on behalf of an owner: never, if that dies. */
  wait(ms: number, owner: Owner | undefined): Promise<void> {
    return new Promise((resolve) => this.#add(ms, undefined, owner, resolve))
  }

  /**
   * Takes over the timers of the process, and its chance.
   *
   * @returns gives them back.
   */
  install(random: () => number): () => void {
    const set = (ms: number | undefined, everyMs: number | undefined, run: () => void) =>
      this.#add(ms ?? 0, everyMs, this.owner, run)
    const clear = (timer: Timer | undefined) => {
      if (timer) timer.isCleared = true
    }
    type Callback = (...values: unknown[]) => void
    Object.assign(globalThis, {
      setTimeout: (run: Callback, ms?: number, ...values: unknown[]) =>
        set(ms, undefined, () => {
          run(...values)
        }),
      setInterval: (run: Callback, ms?: number) => set(ms, ms, run),
      setImmediate: (run: Callback, ...values: unknown[]) =>
        set(0, undefined, () => {
          run(...values)
        }),
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    })
    Math.random = random
    return () => {
      const { random: before, ...timers } = real
      Object.assign(globalThis, timers)
      Math.random = before
    }
  }

  /**
   * Lets the time pass until `until`.
   *
   * @param isOver - Ends it earlier.
   */
  async run(until: number, isOver: () => boolean = () => false): Promise<void> {
    for (;;) {
      await new Promise<void>((resolve) => {
        for (let n = 0; n < BATCH; n++)
          real.setImmediate(() => {
            this.#step(until)
          })
        real.setImmediate(resolve)
      })
      if (this.#error !== undefined) throw this.#error
      if (isOver()) return
      const next = this.#heap[0]
      if (!next || next.at > until) break
    }
    this.now = until
  }

  #step(until: number): void {
    const timer = this.#heap[0]
    if (!timer || timer.at > until || this.#error !== undefined) return
    this.#pop()
    const { owner, everyMs } = timer
    if (timer.isCleared || owner?.isDead) return
    if (owner && owner.suspendedUntil > timer.at) {
      timer.at = owner.suspendedUntil
      timer.order = this.#order++
      this.#push(timer)
      return
    }
    this.#moveTo(timer.at)
    this.owner = owner
    this.count++
    try {
      timer.run()
    } catch (error) {
      this.#error = error instanceof Error ? error : new Error(String(error))
    }
    if (everyMs === undefined) return
    timer.at = this.now + everyMs
    timer.order = this.#order++
    this.#push(timer)
  }

  #moveTo(time: number): void {
    this.#atOnce = time > this.now ? 0 : this.#atOnce + 1
    if (this.#atOnce > MOST_AT_ONCE) {
      this.#error = new Error(
        `time stands still at ${this.now} ms: something is done again and again at once`,
      )
    }
    this.now = Math.max(this.now, time)
  }

  #add(ms: number, everyMs: number | undefined, owner: Owner | undefined, run: () => void): Timer {
    const at = this.now + Math.max(0, ms)
    const timer: Timer = { at, order: this.#order++, everyMs, owner, run, isCleared: false }
    this.#push(timer)
    return timer
  }

  #push(timer: Timer): void {
    const heap = this.#heap
    let at = heap.push(timer) - 1
    while (at > 0) {
      const up = (at - 1) >> 1
      const other = heap[up]
      if (!other || !isBefore(timer, other)) break
      heap[at] = other
      at = up
    }
    heap[at] = timer
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (!last || heap.length === 0) return
    let at = 0
    for (;;) {
      let down = 2 * at + 1
      let other = heap[down]
      const right = heap[down + 1]
      if (other && right && isBefore(right, other)) {
        other = right
        down++
      }
      if (!other || !isBefore(other, last)) break
      heap[at] = other
      at = down
    }
    heap[at] = last
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
