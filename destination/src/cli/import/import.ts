import { setTimeout as wait } from 'node:timers/promises'
import { RejectedError, type Callback, type HooklineError } from 'hookline'
import { toCall, type ImportedCall } from './call.js'
import type { CallType } from '../../model/call.js'
import { Ledger } from './ledger.js'
import type { Place, Row } from './row.js'

/** So many bytes of lines are on their way at most: well within what the client queues. */
const MAX_BYTES = 16 * 1024 * 1024

/** Answers that say the same of every call: that of a wrong key or of a wrong address. */
const FATAL_STATUSES = [401, 403, 404, 405]

/** What an import works with. */
export interface ImportParts {
  rows: AsyncIterable<Row>
  from: Place
  /** Makes a call through the client, which throws what is wrong with it, and tells later what became of it. */
  make: (call: ImportedCall, callback: Callback) => void
  /** The type of lines that have none. */
  type?: CallType | undefined
  /** Calls a second at most. */
  rate?: number | undefined
  /** Told of each line that was not taken, and why. */
  bad: (line: number, problem: string) => void
  /** Stops reading. */
  signal: AbortSignal
}

/** An import that runs. */
export class Import {
  readonly #ledger: Ledger
  /** Calls that were accepted. */
  accepted = 0
  /** Of these, those that had no time: they count as of now. */
  undated = 0
  /** Lines that were not taken. */
  bad = 0
  /** When the collector last answered. */
  answeredAt = -Infinity
  #moved: (() => void) | undefined
  /** Why the collector refuses everything, if it does. */
  fatal: HooklineError | undefined

  constructor(readonly parts: ImportParts) {
    this.#ledger = new Ledger(parts.from)
  }

  /** Where a next one would go on. */
  get place(): Place {
    return this.#ledger.place
  }

  /**
   * Reads to the end, unless the collector refuses everything, and makes a call of each line. Those that are on their way
   * then end by the client's `close`.
   */
  async run(): Promise<void> {
    const { rows, signal } = this.parts
    const startedAt = performance.now()
    let calls = 0
    for await (const row of rows) {
      this.#take(row)
      calls++
      if (this.parts.rate) await until(startedAt + (calls / this.parts.rate) * 1_000, signal)
      while (this.#ledger.bytes > MAX_BYTES && !this.fatal && !signal.aborted) await this.#change()
      if (this.fatal || signal.aborted) return
    }
  }

  /** Whether calls are on their way. */
  get isWaiting(): boolean {
    return this.#ledger.bytes > 0
  }

  /** Stops waiting for calls that are on their way. */
  stop(): void {
    this.#moved?.()
  }

  #take(row: Row): void {
    const { line, end, text, problem } = row
    const entry = this.#ledger.add(line, end, text.length)
    const refuse = (why: string) => {
      this.bad++
      this.parts.bad(line, why)
      this.#ledger.end(entry)
    }
    const call = problem ?? toCall(row, this.parts.type)
    if (typeof call === 'string') {
      refuse(call)
      return
    }
    const isUndated = call.message['timestamp'] === undefined
    const ended = (error?: HooklineError) => {
      if (!error) {
        this.accepted++
        if (isUndated) this.undated++
        this.#ledger.end(entry)
      } else if (error instanceof RejectedError) {
        if (FATAL_STATUSES.includes(error.status)) this.fatal = error
        else refuse(error.message)
      } // anything else was given up on the way: the next import sends it
      this.answeredAt = performance.now()
      this.#moved?.()
    }
    try {
      this.parts.make(call, ended)
    } catch (error) {
      refuse((error as Error).message)
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#moved = resolve))
  }
}

async function until(atMs: number, signal: AbortSignal): Promise<void> {
  const ms = atMs - performance.now()
  // Timers are no finer than this.
  if (ms < 5) return
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
