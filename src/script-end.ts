import type { Books } from './books.js'
import { DroppedError } from './errors.js'
import { drainAtExit, listenForExit, noDrainAtExit, type Hold } from './exit.js'
import type { Log } from './log.js'
import { nowMs, startDeadline } from './runtime.js'
import type { Sender } from './send.js'
import type { Teller } from './teller.js'

/** How long a script that ended without `close()` is kept while no message gets its outcome. */
const GRACE_MS = 5_000

/** How long a `Retry-After` can extend that, counted from the last outcome. */
const MAX_GRACE_MS = 30_000

/** A message that is recorded when the script ends lets it go on until it ends again: for ever, if one is recorded each time. */
const MAX_RECORDS = 10

/** What the end of a script needs from its client. */
interface Client {
  readonly endpoint: URL
  readonly log: Log
  readonly books: Pick<Books, 'stats' | 'pending' | 'lastOutcomeMs'>
  readonly teller: Pick<Teller, 'unreported'>
  readonly sender: Pick<Sender, 'hurry' | 'askedUntilMs' | 'lastFailure'>
  readonly hold: Pick<Hold, 'isHeld'>
  closeBatch(): void
  giveUp(error: DroppedError): void
}

/**
 * What a client does when the script ends while messages are pending: it sends them at once, and keeps the process for as long as messages
 * get their outcome.
 */
export class ScriptEnd {
  readonly #client: Client
  /** How often the script ended with messages pending, since one was delivered. */
  #ends = 0
  /** How many messages were delivered when the script ended last. */
  #deliveredBefore = 0
  /** How many messages the endpoint had answered when the client gave up waiting for it at exit. */
  #answeredBefore = -1
  /** How often in a row a listener of `beforeExit` has recorded a message. */
  #records = 0
  #stopGrace: (() => void) | undefined

  constructor(client: Client) {
    this.#client = client
    listenForExit()
  }

  /** Whether the script has ended, and is kept for what is pending. */
  get isWaiting(): boolean {
    return this.#stopGrace !== undefined
  }

  /** Messages are pending. */
  watch(): void {
    drainAtExit(this.#drain)
  }

  /** No message is pending any more. */
  stop(): void {
    noDrainAtExit(this.#drain)
    this.#stopGrace?.()
    this.#stopGrace = undefined
  }

  /** The script has ended, but for what is pending here: sends it at once. */
  readonly #drain = (isRecordedAtExit: boolean): void => {
    this.#client.log('the script ended: %d messages pending', this.#client.books.pending)
    this.#records = isRecordedAtExit ? this.#records + 1 : 0
    // Whoever waits, as a listener of beforeExit may, holds the process for as long as they want: it has not ended.
    const hasEnded = !this.#client.hold.isHeld
    if (hasEnded && this.#records > MAX_RECORDS) {
      this.#leave('a listener of beforeExit', " Use process.once('beforeExit', …).")
      return
    }
    if (hasEnded && !this.#stopGrace) {
      const { delivered } = this.#client.books.stats()
      if (delivered > this.#deliveredBefore) this.#ends = 0
      this.#deliveredBefore = delivered
      this.#ends++
      // A hook that records each loss as a message must not keep the script for ever.
      if (this.#ends > MAX_RECORDS) {
        this.#leave('a callback or onFailed', this.#client.sender.lastFailure)
        return
      }
    }
    this.#client.closeBatch()
    this.#client.sender.hurry()
    if (this.#stopGrace || !hasEnded) return
    if (this.#answered === this.#answeredBefore) {
      const { origin } = this.#client.endpoint
      this.#giveUp(
        `the client had already given up waiting for ${origin} when this message was recorded`,
      )
    } else this.#startGrace(nowMs())
  }

  /** Leaves what is pending as it is. The script ends, unless something else keeps it. */
  #leave(who: string, advice: string): void {
    const why = `The script ended ${MAX_RECORDS} times, because ${who} recorded a message each time.`
    const what =
      'a message is not waited for (process_exit), and nobody is told if the process ends before it is delivered'
    this.#client.teller.unreported(`${what}. ${why}${advice}`, 'process_exit')
    noDrainAtExit(this.#drain)
  }

  /** Keeps the script for as long as messages get their outcome, and a while without. */
  #startGrace(endedMs: number): void {
    const progressMs = Math.max(endedMs, this.#client.books.lastOutcomeMs)
    const asked = this.#client.sender.askedUntilMs
    const untilMs = Math.min(Math.max(progressMs, asked) + GRACE_MS, progressMs + MAX_GRACE_MS)
    const leftMs = untilMs - nowMs()
    if (leftMs > 0) {
      const again = () => {
        this.#startGrace(endedMs)
      }
      this.#stopGrace = startDeadline(leftMs, again, true)
      return
    }
    this.#stopGrace = undefined
    if (this.#client.hold.isHeld) return
    const seconds = Math.round((nowMs() - progressMs) / 1_000)
    const why = asked > progressMs ? ' (it asked for a wait with Retry-After)' : ''
    this.#giveUp(`${this.#client.endpoint.origin} took no message for ${seconds} s${why}`)
  }

  #giveUp(why: string): void {
    const message = `The script ended, and ${why}: await close() with a timeout of your choice to wait longer.`
    this.#answeredBefore = this.#answered
    this.#client.giveUp(new DroppedError('process_exit', message + this.#client.sender.lastFailure))
  }

  /** How many messages the endpoint has taken or refused. */
  get #answered(): number {
    const { delivered, rejected } = this.#client.books.stats()
    return delivered + rejected
  }
}
