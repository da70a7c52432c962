import { setTimeout as wait } from 'node:timers/promises'
import type { Settlement } from '../../model/delivery.js'

/** In ms: the time between two attempts to write late settlements. */
const RETRY_MS = 250

/**
 * Settlements of rows that another session has locked, such as a person at a console. They wait here until the rows are
 * free, so that they do not hold up the others. If the process ends before, these deliveries are sent again. A claim that
 * comes first refuses them, as it refuses every settlement of a former lease.
 */
export class LateSettlements {
  readonly #write: (settlements: Settlement[]) => Promise<Settlement[]>
  #waiting: Settlement[] = []
  #trying: Promise<void> = Promise.resolve()
  #isRunning = false
  #isFinished = false

  /** @param write - Writes those whose rows are free, and returns the others. */
  constructor(write: (settlements: Settlement[]) => Promise<Settlement[]>) {
    this.#write = write
  }

  add(settlements: Settlement[]): void {
    this.#waiting.push(...settlements)
    if (!this.#isRunning) void this.#run()
  }

  /** Tries once more, then gives up. */
  async finish(): Promise<void> {
    this.#isFinished = true
    await this.#trying
    await this.#tryAll()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0 && !this.#isFinished) {
      await wait(RETRY_MS, undefined, { ref: false })
      this.#trying = this.#tryAll()
      await this.#trying
    }
    this.#isRunning = false
  }

  async #tryAll(): Promise<void> {
    const tried = this.#waiting.splice(0)
    if (tried.length === 0) return
    // What an error leaves unwritten is tried again.
    const left = await this.#write(tried).catch(() => tried)
    this.#waiting.push(...left)
  }
}
