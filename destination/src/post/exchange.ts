import { StringDecoder } from 'node:string_decoder'
import type { IncomingHttpHeaders } from 'node:http'
import type { Client, Dispatcher } from 'undici'
import { judgeError, judgeStatus, judgeTimeout, type Judgement } from './classify.js'
import type { Timed } from './deadline.js'
import type { Network } from './network.js'
import type { Outcome } from '../model/outcome.js'
import { retryAfterMs } from './retry-after.js'

/** An answer of this size is read to its end, so that its connection can be used again. */
const MAX_RESPONSE_BYTES = 64 * 1024

/** So much of an answer is kept for the log: room for any error message. */
const EXCERPT_BYTES = 2 * 1024

/** What the exchanges of one endpoint share. */
export interface ExchangeOwner {
  network: Network
  /** For messages. */
  host: string
  /**
   * Called once for each exchange, in a microtask: neither within the call that made it, nor within undici, which would
   * swallow what is thrown, and has to be through with a connection before the next request.
   */
  ended(exchange: Exchange, outcome: Outcome): void
}

/**
 * One request and its answer, as undici tells of them.
 *
 *     waiting ─► sent ─► answered ─► ended
 *        └─────────┴─────── expired or failed ─► ended
 *
 * The status line decides what the outcome is. It is told at the end of the body, or once enough was read, or when
 * the time is up: the connection, and the endpoint's room for requests, are taken until then.
 */
export class Exchange implements Dispatcher.DispatchHandler, Timed {
  readonly startedAt = performance.now()
  /** The client that carries this request; `undefined` while it waits for one. */
  client: Client | undefined
  /** Whether the answer came to its end, and its connection is at a place where another request can start. */
  isComplete = false
  #wasSent = false
  #hasEnded = false
  /** What there is to tell once the answer has ended; without its body until then. */
  #answer: Outcome | undefined
  #bytes = 0
  #excerpt: Buffer | undefined

  constructor(
    readonly owner: ExchangeOwner,
    readonly request: Dispatcher.DispatchOptions,
    readonly done: (outcome: Outcome) => void,
  ) {
    owner.network.deadline.add(this)
  }

  /** Time is up. */
  expire(): void {
    if (this.#answer !== undefined) this.#end(this.#answer)
    else this.#fail(judgeTimeout(this.owner.network.deadline.ms, this.#wasSent))
  }

  /** There is a connection. To throw takes the request back before a byte of it is written. */
  onRequestStart(): void {
    if (this.#hasEnded) throw new Error('the deadline has passed')
    this.#wasSent = true
  }

  onResponseStart(_: unknown, status: number, headers: IncomingHttpHeaders): void {
    // Hints on the way to the answer.
    if (status < 200) return
    const judgement = judgeStatus(status, firstOf(headers.location))
    const retryAfter = judgement.verdict === 'retry' ? firstOf(headers['retry-after']) : undefined
    const delayMs = retryAfterMs(retryAfter, this.owner.network.now())
    this.#answer = this.#outcome(judgement, status, delayMs)
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    if (this.#bytes < EXCERPT_BYTES)
      this.#excerpt = this.#excerpt === undefined ? chunk : Buffer.concat([this.#excerpt, chunk])
    this.#bytes += chunk.length
    if (this.#bytes > MAX_RESPONSE_BYTES && this.#answer !== undefined) this.#end(this.#answer)
  }

  onResponseEnd(): void {
    this.isComplete = !this.#hasEnded
    if (this.#answer !== undefined) this.#end(this.#answer)
  }

  /** A body that breaks off changes nothing: the status has been heard. */
  onResponseError(_: unknown, error: Error): void {
    if (this.#answer !== undefined) this.#end(this.#answer)
    else this.#fail(judgeError(error, this.owner.host))
  }

  #fail(judgement: Judgement): void {
    this.#end(this.#outcome(judgement, undefined, undefined))
  }

  /** Written out, since spreading costs more than all else here. */
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
    if (this.#excerpt !== undefined) outcome.response = excerptOf(this.#excerpt)
    queueMicrotask(() => {
      this.owner.ended(this, outcome)
    })
  }
}

/** A header that an endpoint repeats comes as a list, whatever its type says. */
function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header
}

/** As text: what is no UTF-8, and NUL, which databases refuse, are replaced; a character cut in two is left out. */
function excerptOf(body: Buffer): string {
  const text =
    body.length > EXCERPT_BYTES
      ? new StringDecoder().write(body.subarray(0, EXCERPT_BYTES))
      : body.toString()
  return text.replaceAll('\0', '\uFFFD')
}
