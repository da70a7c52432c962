import type { Settlement } from '../../model/delivery.js'
import { StoreError } from '../store-error.js'
import type { Server } from './server.js'

/** In ms: the wait before settlements that the server could not take are written again. */
const RETRY_MS = 250

/**
 * Writes the settlements of one server. It keeps those that the server could not take, and writes them again until it takes them. So
 * the settlements of the other servers do not wait for it.
 */
export class Settling {
  readonly #server: Server
  #waiting: Settlement[] = []
  #timer: NodeJS.Timeout | undefined
  #retrying: Promise<void> | undefined
  #isClosed = false
  /** How many were refused that were written late. */
  #lateRefused = 0

  constructor(server: Server) {
    this.#server = server
  }

  /** Whether the server could not take settlements. Nothing more should be claimed from it until it takes them. */
  get isFailing(): boolean {
    return this.#waiting.length > 0
  }

  /** How many settlements that were written late have been refused since the last call. */
  takeRefused(): number {
    const refused = this.#lateRefused
    this.#lateRefused = 0
    return refused
  }

  /** Notes that settlements were refused after their caller had its answer. */
  noteRefused(count: number): void {
    this.#lateRefused += count
  }

  /**
   * Writes settlements, now or as soon as the server takes them. Resolves after the first attempt.
   *
   * @returns how many were refused; 0 if the server could not take them.
   */
  async settle(settlements: Settlement[]): Promise<number> {
    try {
      const refused = await this.#server.ask((store) => store.settle(settlements))
      this.#server.noteSuccess('settle')
      return refused
    } catch (error) {
      if (error instanceof StoreError && !error.isUnreachable) {
        this.#server.noteFailure('settle', error)
      }
      this.#waiting.push(...settlements)
      this.#retryLater()
      return 0
    }
  }

  /** Tries once more to write what waits. What it can't write is sent again once its lease has run out. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#retrying
    await this.#retry()
  }

  #retryLater(): void {
    if (this.#isClosed || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#retrying = this.#retry()
    }, RETRY_MS)
    this.#timer.unref()
  }

  async #retry(): Promise<void> {
    const settlements = this.#waiting.splice(0)
    if (settlements.length > 0) this.noteRefused(await this.settle(settlements))
  }
}
