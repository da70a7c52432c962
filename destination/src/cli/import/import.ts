import { setTimeout as wait } from 'node:timers/promises'
import { RejectedError, type Callback, type HooklineError } from 'hookline'
import { toCall, type ImportedCall } from './call.js'
import { changesOfCall } from '../../collect/warnings.js'
import { isTurnedOff } from '../../enqueue/route.js'
import { webhookBody } from '../../enqueue/webhook-body.js'
import type { Call, CallType } from '../../model/call.js'
import type { ChangedNumber } from '../../model/changed-numbers.js'
import { Ledger, type Entry, type RefusedLine } from './ledger.js'
import type { Place, Row } from './row.js'

/** The most bytes of JSON that wait in the client. Its queue holds four times as much, so it never drops a call. */
const MAX_PENDING_BYTES = 16 * 1024 * 1024

/** The statuses of answers that refuse a batch, but may be about one call in it. */
const STATUSES_OF_CALLS = [400, 413, 422]

/** How a page begins. A collector answers with JSON, so a page is from a server in front of it, or from another server. */
const PAGE = /^\s*<(?:!doctype|html|head|body)\b/i

/** Whether a 400 is the page of another server, as nginx answers HTTP at its port of HTTPS. */
export function isPage({ status, detail }: RejectedError): boolean {
  return status === 400 && PAGE.test(detail)
}

/** Whether a refusal is not about its call, but about the key, the address or the server: every call would get it. */
function isFatal(error: RejectedError): boolean {
  const { status } = error
  const isAccepted = status >= 200 && status < 300 // the answer names the calls that are refused
  return isPage(error) || !(isAccepted || STATUSES_OF_CALLS.includes(status))
}

/** What an import needs. */
export interface ImportParts {
  rows: AsyncIterable<Row>
  from: Place
  /** Makes a call with the client. It throws if the call is wrong, and the callback gets the outcome later. */
  make: (call: ImportedCall, callback: Callback) => void
  /** The bytes of JSON that wait in the client. */
  pendingBytes: () => number
  /** The type of calls that have no type. */
  type?: CallType | undefined
  /** The name of the import, from which ids are derived; `undefined` if an earlier version started it. */
  name: string | undefined
  /** The most calls per second; without it there is no limit. */
  rate?: number | undefined
  /** Is called for each line that was refused or lost, with the reason. */
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
  /** The number of calls that the client gave up, because the collector failed for them again and again. */
  lost = 0
  /** The number of numbers that were imported with another value. */
  changed = 0
  /** When a call last had an outcome, on the clock of `performance.now`. */
  endedAt = -Infinity
  #moved: (() => void) | undefined
  #isAtEnd = false
  /** Why the collector refuses everything, if it does. */
  fatal: RejectedError | undefined

  constructor(readonly parts: ImportParts) {
    this.#ledger = new Ledger(parts.from)
  }

  /** The place from which the next import continues. */
  get place(): Place {
    return this.#ledger.place
  }

  /** Takes the refused lines before the place. The next import does not read them again. */
  takeRefused(): RefusedLine[] {
    return this.#ledger.takeRefused()
  }

  /** Takes the refused lines and the lost lines that are left. The next import reads them again. */
  takeRest(): RefusedLine[] {
    return this.#ledger.takeRest()
  }

  /** Whether lines are not read yet, or calls have no outcome yet. */
  get isUnfinished(): boolean {
    return !this.#isAtEnd || this.isWaiting
  }

  /** Whether calls are under way. */
  get isWaiting(): boolean {
    return this.#ledger.open > this.lost
  }

  /**
   * Reads the lines and makes a call of each, until the end or until the collector refuses everything. Calls that are
   * still under way then end when the client is closed.
   */
  async run(): Promise<void> {
    const { rows, signal, rate, pendingBytes } = this.parts
    const startedAt = performance.now()
    let calls = 0
    for await (const row of rows) {
      if (this.#isStopped()) return
      this.#take(row)
      calls++
      if (rate) await until(startedAt + (calls / rate) * 1_000, signal)
      while (pendingBytes() > MAX_PENDING_BYTES && !this.#isStopped()) await this.#change()
    }
    this.#isAtEnd = true
  }

  /** Stops waiting for calls that are under way. */
  stop(): void {
    this.#moved?.()
  }

  #isStopped(): boolean {
    return this.fatal !== undefined || this.parts.signal.aborted
  }

  #take(row: Row): void {
    const { line, firstLine = line, end, problem } = row
    const entry = this.#ledger.add(firstLine, { line, offset: end })
    const call = problem ?? toCall(row, this.parts.type, this.parts.name)
    if (typeof call === 'string') {
      this.#refuse(entry, call)
      return
    }
    const isUndated = call.message['timestamp'] === undefined
    const ended = (error?: HooklineError) => {
      if (!error && isUndated) this.undated++
      this.#conclude(entry, error)
      this.endedAt = performance.now()
      this.#moved?.()
    }
    try {
      this.parts.make(call, ended)
    } catch (error) {
      this.#refuse(entry, (error as Error).message)
      return
    }
    // The destinations of the call, and their filters, are not known here.
    const { integrations } = call.message as Pick<Call, 'integrations'>
    const changed = isTurnedOff(integrations)
      ? []
      : changesOfCall(row.marked, call.type, webhookBody)
    this.changed += changed.length
    for (const number of changed) this.parts.changed(firstLine, number)
  }

  #conclude(entry: Entry, error: HooklineError | undefined): void {
    if (!error) {
      this.accepted++
      this.#ledger.end(entry)
    } else if (error instanceof RejectedError) {
      if (isFatal(error)) this.fatal = error
      else this.#refuse(entry, error.message)
    } else if (error.code !== 'close_timeout') {
      this.#lose(entry, error.message)
    } // After a stop the line only stays open in the ledger, so that the next import sends it again.
  }

  #refuse(entry: Entry, problem: string): void {
    this.bad++
    this.parts.bad(entry.line, problem)
    this.#ledger.end(entry, problem)
  }

  #lose(entry: Entry, why: string): void {
    this.lost++
    const problem = `not accepted: ${why}`
    this.parts.bad(entry.line, problem)
    this.#ledger.lose(entry, problem)
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#moved = resolve))
  }
}

async function until(atMs: number, signal: AbortSignal): Promise<void> {
  const ms = atMs - performance.now()
  // Timers are not precise enough for shorter waits.
  if (ms < 5) return
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
