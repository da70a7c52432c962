import { RejectedError } from './errors.js'
import type { HooklineError } from './hookline-error.js'
import { log, type Logger } from './log.js'

/**
 * Tells of the first loss of each kind, for an application without an `onFailed` that would hear of it: a wrong
 * write key must not lose everything in silence.
 */
export class LossWarnings {
  readonly #logger: Logger | undefined
  readonly #told = new Set<string>()

  constructor(logger: Logger | undefined) {
    this.#logger = logger
  }

  lost(error: HooklineError): void {
    const kind = error instanceof RejectedError ? `${error.code} ${error.status}` : error.code
    if (this.#told.has(kind)) return
    this.#told.add(kind)
    // A rejection's message may repeat what the server said, and the server what it was sent.
    const why = error instanceof RejectedError ? error.summary : error.message
    const text = `hookline: ${why} (${kind}) This is told once for each kind of loss: give the client onFailed to hear of every one, or onFailed: () => {} to silence this.`
    warn(this.#logger, text, error.code)
  }
}

interface Process {
  emitWarning?: (text: string, options: { type: string; code: string }) => void
}

function warn(logger: Logger | undefined, text: string, code: string): void {
  try {
    const { process } = globalThis as { process?: Process }
    if (logger) logger.warn(text)
    else if (process?.emitWarning) process.emitWarning(text, { type: 'HooklineWarning', code })
    else console.warn(text)
  } catch (error) {
    log('the warning could not be given: %O', error)
  }
}
