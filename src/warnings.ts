import {
  DroppedError,
  RejectedError,
  RetriesExhaustedError,
  SpoolError,
  ValidationError,
} from './errors.js'
import type { HooklineError } from './hookline-error.js'
import { guard, log, type Guarded } from './log.js'
import { currentProcess } from './runtime.js'

/**
 * Tells of the first loss of each kind, for an application without an `onFailed` that would hear of it: a wrong
 * write key must not lose everything in silence.
 */
export class LossWarnings {
  readonly #logger: Guarded<'warn'> | undefined
  readonly #told = new Set<string>()

  constructor(logger: Guarded<'warn'> | undefined) {
    this.#logger = logger
  }

  lost(error: HooklineError): void {
    const kind = error instanceof RejectedError ? `${error.code} ${error.status}` : error.code
    if (!this.#isFirst(kind)) return
    const what = error instanceof SpoolError ? 'the spool has a problem' : 'a message was lost'
    const text = `${what} (${kind}). ${causeOf(error)} This is told once for each kind: give the client onFailed to hear of every one, or onFailed: () => {} to silence this.`
    this.#warn(text, error.code)
  }

  /** Tells of the first message of whose end nobody else is told. */
  unreported(text: string, code: string): void {
    if (this.#isFirst('unreported')) this.#warn(text, code)
  }

  #isFirst(kind: string): boolean {
    if (this.#told.has(kind)) return false
    this.#told.add(kind)
    return true
  }

  #warn(text: string, code: string): void {
    const warning = `hookline: ${text}`
    guard(log, 'the warning', () => {
      const process = currentProcess()
      if (this.#logger) return this.#logger.warn(warning)
      if (process?.emitWarning) process.emitWarning(warning, { type: 'HooklineWarning', code })
      else console.warn(warning)
      return undefined
    })
  }
}

/** The cause without what a message holds, or what a server said: that may repeat what it was sent. */
export function causeOf(error: HooklineError): string {
  if (error instanceof RejectedError) return error.summary
  if (error instanceof RetriesExhaustedError) {
    return `The endpoint failed ${error.attempts} times in a row.`
  }
  if (error instanceof ValidationError) {
    const [field = ''] = error.field.split('.')
    return `A call was given something invalid as its ${FIELDS.test(field) ? field : 'message'}.`
  }
  if (error instanceof DroppedError && error.code === 'before_send') return 'beforeSend failed.'
  return error.message
}

/** Other names come from the message itself. */
const FIELDS =
  /^(userId|anonymousId|previousId|groupId|messageId|event|name|category|timestamp|properties|traits|context|integrations|callback|type)$/
