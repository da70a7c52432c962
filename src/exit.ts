import { MAX_TIMER_MS } from './limits.js'
import { clearInterval, currentProcess, setInterval } from './runtime.js'

/** @param isRecordedAtExit - whether a listener of `beforeExit` has recorded all that is pending */
type Drain = (isRecordedAtExit: boolean) => void

/** What to do when the event loop runs dry: clients with messages pending send them, and each spool notes what it has watched. */
const drains = new Set<Drain>()
let isListening = false

/**
 * Makes the end of the script known to all clients. It comes before the first message, which may be recorded when the script ends.
 * One listener serves all clients. No listener is ever put on signals, exceptions or `exit`.
 */
export function listenForExit(): void {
  if (isListening) return
  isListening = true
  const process = currentProcess()
  process?.prependListener?.('beforeExit', () => {
    const before = new Set(drains)
    for (const each of before) each(false)
    // The listeners that come after this one may record, too, and the event does not come again for that.
    process.nextTick?.(() => {
      for (const each of drains) if (!before.has(each)) each(true)
    })
  })
}

/** Runs `drain` if the script ends while it is registered. */
export function drainAtExit(drain: Drain): void {
  drains.add(drain)
}

export function noDrainAtExit(drain: Drain): void {
  drains.delete(drain)
}

/** Keeps the process alive while somebody waits. */
export class Hold {
  #waiting = 0
  #timer: ReturnType<typeof setInterval> | undefined

  /** Whether somebody waits. */
  get isHeld(): boolean {
    return this.#waiting > 0
  }

  /** Somebody waits for this promise. */
  until(promise: Promise<unknown>): void {
    if (this.#waiting++ === 0) this.#timer = setInterval(() => undefined, MAX_TIMER_MS)
    const end = () => {
      if (--this.#waiting === 0) clearInterval(this.#timer)
    }
    promise.then(end, end)
  }
}
