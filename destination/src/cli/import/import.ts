import { setTimeout as wait } from 'node:timers/promises'
import { RejectedError, type Callback, type HooklineError } from 'hookline'
import { toCall, type ImportedCall } from './call.js'
import { changesOfCall } from '../../collect/warnings.js'
import { isTurnedOff } from '../../enqueue/route.js'
import { webhookBody } from '../../enqueue/webhook-body.js'
import type { Call, CallType } from '../../model/call.js'
import type { ChangedNumber } from '../../model/changed-numbers.js'
import { Ledger, type RefusedLine } from './ledger.js'
import type { Place, Row } from './row.js'

/** The most bytes of lines that are under way. The client can queue more than this, so it never drops a call. */
const MAX_BYTES = 16 * 1024 * 1024

/** Answers to a wrong key or a wrong address. Every further call would get the same answer. */
const FATAL_STATUSES = [401, 403, 404, 405]

/** What an import needs. */
export interface ImportParts {
  rows: AsyncIterable<Row>
  from: Place
  /** Makes a call with the client. It throws if the call is wrong, and the callback gets the outcome later. */
  make: (call: ImportedCall, callback: Callback) => void
  /** The type of calls that have no type. */
  type?: CallType | undefined
  /** The most calls per second; without it there is no limit. */
  rate?: number | undefined
  /** Is called for each line that was refused, with the reason. */
  bad: (line: number, problem: string) => void
  /** Is called for each number that is imported with another value. */
  changed: (line: number, number: ChangedNumber) => void
  /** Stops reading when it aborts. */
  signal: AbortSignal
}

/** Reads lines and makes a call of each, no faster than the collector accepts them. */
export class Import {
  readonly #ledger: Ledger
  /** The number of calls that were accepted. */
  accepted = 0
  /** The number of accepted calls without a timestamp. They got the current time. */
  undated = 0
  /** The number of lines that were refused. */
  bad = 0
  /** The number of numbers that were imported with another value. */
  changed = 0
  /** When the collector last answered, on the clock of `performance.now`. */
  answeredAt = -Infinity
  #moved: (() => void) | undefined
  /** Why the collector refuses everything, if it does. */
  fatal: HooklineError | undefined

  constructor(readonly parts: ImportParts) {
    this.#ledger = new Ledger(parts.from)
  }

  /** The place from which the next import continues. */
  get place(): Place {
    return this.#ledger.place
  }

  /** The refused lines before the place. The next import does not read them again. */
  get refusedBefore(): { bad: number; refused: readonly RefusedLine[] } {
    const { bad, refused } = this.#ledger
    return { bad, refused }
  }

  /**
   * Reads the lines and makes a call of each, until the end or until the collector refuses everything. Calls that are
   * still under way then end when the client is closed.
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

  /** Whether calls are under way. */
  get isWaiting(): boolean {
    return this.#ledger.bytes > 0
  }

  /** Stops waiting for calls that are under way. */
  stop(): void {
    this.#moved?.()
  }

  #take(row: Row): void {
    const { line, end, text, problem } = row
    const entry = this.#ledger.add(line, end, text.length)
    const refuse = (why: string) => {
      this.bad++
      this.parts.bad(line, why)
      this.#ledger.end(entry, why)
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
      } // for any other error the line stays open in the ledger, so that the next import sends it again
      this.answeredAt = performance.now()
      this.#moved?.()
    }
    try {
      this.parts.make(call, ended)
    } catch (error) {
      refuse((error as Error).message)
      return
    }
    const changed = changesOfCall(row.marked, call.type, bodyOf)
    this.changed += changed.length
    for (const number of changed) this.parts.changed(line, number)
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#moved = resolve))
  }
}

/** The body that a destination gets of a call. Its destinations are not known here. */
function bodyOf(call: Call): string | undefined {
  return isTurnedOff(call.integrations) ? undefined : webhookBody(call)
}

async function until(atMs: number, signal: AbortSignal): Promise<void> {
  const ms = atMs - performance.now()
  // Timers are not precise enough for shorter waits.
  if (ms < 5) return
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
