import type { IncomingHttpHeaders } from 'node:http'
import { util, type Dispatcher } from 'undici'
import { judgeError, judgeStatus, judgeTimeout, type Judgement } from './classify.js'
import { bodyText, EXCERPT_BYTES } from './body-text.js'
import type { Connection } from './connections.js'
import type { Timed } from './deadline.js'
import type { Network } from './network.js'
import type { Outcome } from '../model/outcome.js'
import { withoutPassword } from '../model/shown-url.js'
import { retryAfterMs } from './retry-after.js'

/** Runs what follows in a microtask. `queueMicrotask` takes three times as long, because it keeps the context of async hooks. */
const NOW = Promise.resolve()

/** An answer of up to this size is read completely, so that its connection can be used again. */
const MAX_RESPONSE_BYTES = 64 * 1024

/** What the exchanges of one endpoint share. */
export interface ExchangeOwner {
  network: Network
  /** The endpoint, for error messages. */
  url: URL
  /**
   * Called once for each exchange, in a microtask. It is not called while `post` still runs, so that `post` has
   * returned before. It is not called within undici, because undici would catch an error that is thrown here, and
   * because it has to finish its work on the connection before the next request starts.
   */
  ended(exchange: Exchange, outcome: Outcome): void
}

/**
 * One request and its answer. undici calls its methods. It has newer names for them, too, but with those it reads all headers of
 * each answer into objects.
 *
 *     waiting ─► sent ─► answered ─► ended
 *        └─────────┴─────── expired or failed ─► ended
 *
 * The status line decides the outcome. The exchange ends when the body ends, when enough of the body was read, or at
 * the deadline. Until then it occupies its connection and counts as one of the endpoint's concurrent requests.
 */
export class Exchange implements Dispatcher.DispatchHandler, Timed {
  readonly startedAt = performance.now()
  /** What carries this request; `undefined` while it waits for a connection. */
  connection: Connection | undefined
  /** Whether the answer was read completely, so that its connection can carry another request. */
  isComplete = false
  #wasSent = false
  #hasEnded = false
  /** The outcome by the status line, without the body. It is reported when the exchange ends. */
  #answer: Outcome | undefined
  #bytes = 0
  #excerpt: Buffer | undefined
  /** The raw headers of the answer, which say how its body is encoded. */
  #rawHeaders: Buffer[] = []

  constructor(
    readonly owner: ExchangeOwner,
    readonly request: Dispatcher.DispatchOptions,
    readonly done: (outcome: Outcome) => void,
  ) {
    owner.network.deadline.add(this)
  }

  /** The deadline has passed. */
  expire(): void {
    if (this.#answer !== undefined) this.#end(this.#answer)
    else this.#fail(judgeTimeout(this.owner.network.deadline.ms, this.#wasSent))
  }

  /** The request is about to be written. An error that is thrown here withdraws it before its first byte is written. */
  onConnect(): void {
    if (this.#hasEnded) throw new Error('the deadline has passed')
    this.#wasSent = true
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    // Informational answers (1xx) precede the real one.
    if (status < 200) return true
    const isDelivered = status < 300
    this.#rawHeaders = rawHeaders
    this.#answer = isDelivered
      ? this.#outcome(judgeStatus(status), status, undefined)
      : this.#failure(status, rawHeaders)
    return true
  }

  onData(chunk: Buffer): boolean {
    if (this.#bytes < EXCERPT_BYTES)
      this.#excerpt = this.#excerpt === undefined ? chunk : Buffer.concat([this.#excerpt, chunk])
    this.#bytes += chunk.length
    if (this.#bytes > MAX_RESPONSE_BYTES && this.#answer !== undefined) this.#end(this.#answer)
    return true
  }

  onComplete(): void {
    this.isComplete = !this.#hasEnded
    if (this.#answer !== undefined) this.#end(this.#answer)
  }

  onError(error: Error): void {
    this.fail(error)
  }

  /** Nothing more can be sent or read. If the status line was read before, the status still decides the outcome. */
  fail(error: Error): void {
    if (this.#answer !== undefined) this.#end(this.#answer)
    else this.#fail(judgeError(this.connection?.error ?? error, this.owner.url.host))
  }

  /** Only the headers of a failure are read, because reading them takes as long as everything else here. */
  #failure(status: number, rawHeaders: Buffer[]): Outcome {
    const headers = util.parseHeaders(rawHeaders)
    const judgement = judgeStatus(status, firstOf(headers['location']), this.owner.url)
    const retryAfter = judgement.verdict === 'retry' ? firstOf(headers['retry-after']) : undefined
    const delayMs = retryAfterMs(retryAfter, this.owner.network.now(), firstOf(headers['date']))
    const outcome = this.#outcome(judgement, status, delayMs)
    outcome.headers = headerLines(headers)
    return outcome
  }

  #fail(judgement: Judgement): void {
    this.#end(this.#outcome(judgement, undefined, undefined))
  }

  /** Lists the fields, because a spread is the most expensive operation on this hot path. */
  #outcome(
    { code, verdict, error }: Judgement,
    status: number | undefined,
    retryAfterMs: number | undefined,
  ): Outcome {
    const ms = Math.round(performance.now() - this.startedAt)
    return { code, verdict, status, ms, retryAfterMs, response: '', error }
  }

  #end(outcome: Outcome): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.owner.network.deadline.delete(this)
    if (this.#excerpt !== undefined) outcome.response = bodyText(this.#excerpt, this.#rawHeaders)
    void NOW.then(() => {
      this.owner.ended(this, outcome)
    })
  }
}

/** In characters: how much of the headers of an answer is kept. */
const HEADER_CHARS = 1_024

/** Headers whose values let somebody in. Only their names are kept. */
const SECRET_HEADERS = ['set-cookie', 'authorization']

/**
 * The headers of an answer, one `name: value` a line. Lines that do not fit are left out. A redirect often repeats the query of the
 * endpoint's URL, which is never shown.
 */
function headerLines(headers: IncomingHttpHeaders): string {
  let lines = ''
  for (const [name, value] of Object.entries(headers)) {
    let shown = SECRET_HEADERS.includes(name) ? '…' : String(value)
    if (name === 'location') shown = withoutPassword(shown).replace(/[?#].+/s, '…')
    const line = `${name}: ${shown}`.replaceAll('\0', '\uFFFD')
    if (lines.length + line.length < HEADER_CHARS) lines += lines === '' ? line : `\n${line}`
  }
  return lines
}

/**
 * The value of a header without the white space behind it, which is not part of the value (RFC 9110, 5.5) and which undici
 * keeps. undici gives a repeated header as a list, although Node's type declares a string for these headers.
 */
function firstOf(header: string | string[] | undefined): string | undefined {
  const value = Array.isArray(header) ? header[0] : header
  return value?.replace(/[ \t]+$/, '')
}
