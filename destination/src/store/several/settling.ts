import { setTimeout } from 'node:timers/promises'
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
  /** Those that are being written again stay here until the server has taken them. */
  readonly #waiting: Settlement[] = []
  /** Ends once nothing waits any more. */
  #retrying: Promise<void> | undefined
  /** The first attempts that are under way. */
  readonly #settling = new Set<Promise<number>>()
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
  settle(settlements: Settlement[]): Promise<number> {
    const settling = this.#settle(settlements).finally(() => this.#settling.delete(settling))
    this.#settling.add(settling)
    return settling
  }

  /** Resolves once the server has all settlements. Nothing may be settled after the call. */
  async drain(): Promise<void> {
    await Promise.all(this.#settling)
    await this.#retrying
  }

  async #settle(settlements: Settlement[]): Promise<number> {
    const refused = await this.#write(settlements)
    if (refused === undefined) {
      this.#waiting.push(...settlements)
      this.#retrying ??= this.#retryUntilTaken()
      return 0
    }
    this.#noteSuccess()
    return refused
  }

  async #retryUntilTaken(): Promise<void> {
    while (this.isFailing) {
      await setTimeout(RETRY_MS)
      await this.#retry()
    }
    this.#retrying = undefined
  }

  async #retry(): Promise<void> {
    const settlements = [...this.#waiting]
    const refused = await this.#write(settlements)
    if (refused === undefined) return
    this.#waiting.splice(0, settlements.length)
    this.noteRefused(refused)
    this.#noteSuccess()
  }

  /** Returns how many were refused; `undefined` if the server could not take them. */
  async #write(settlements: Settlement[]): Promise<number | undefined> {
    try {
      return await this.#server.ask((store) => store.settle(settlements))
    } catch (error) {
      if (error instanceof StoreError && !error.isUnreachable) {
        this.#server.noteFailure('settle', error)
      }
      return undefined
    }
  }

  #noteSuccess(): void {
    if (!this.isFailing) this.#server.noteSuccess('settle')
  }
}
