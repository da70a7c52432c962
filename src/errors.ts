import { recogniseAcrossBuilds } from './across-builds.js'
import { HooklineError } from './hookline-error.js'

/** An option of the client is wrong: thrown by the constructor. */
export class OptionError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'OptionError'
  override readonly code = 'invalid_option'
  /** The option's name. */
  readonly option: string

  constructor(option: string, message: string) {
    super(message)
    this.option = option
  }
}

/**
 * A call was given something that is no message: thrown by the call, or reported with
 * `onInvalid: 'report'`. Nothing else is affected.
 */
export class ValidationError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'ValidationError'
  override readonly code = 'invalid_message'
  /** Path of the field that is wrong, such as `userId` or `properties.total`. */
  readonly field: string

  constructor(field: string, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.field = field
  }
}

/** A message is larger than 32 KB: thrown by the call, or reported with `onInvalid: 'report'`. */
export class MessageTooLargeError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'MessageTooLargeError'
  override readonly code = 'message_too_large'
  /** Size of the message's JSON in bytes. */
  readonly bytes: number

  constructor(message: string, bytes: number) {
    super(message)
    this.bytes = bytes
  }
}

/** A call came after `close()`: its message was not sent. */
export class ClosedError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'ClosedError'
  override readonly code = 'closed'
}

/**
 * Why a message was given up without a server's word:
 * `queue_full` (`maxQueueBytes` reached), `before_send` (the hook dropped it, or failed), `disabled`
 * (the client is switched off), `close_timeout` (`close()` ran out of time) or `process_exit` (the
 * script ended and the endpoint did not answer in time).
 */
export type DropReason =
  'queue_full' | 'before_send' | 'disabled' | 'close_timeout' | 'process_exit'

/** A message was given up without a server's word; `code` says why. */
export class DroppedError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'DroppedError'
  override readonly code: DropReason

  constructor(code: DropReason, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/** The server refused a message for good. */
export class RejectedError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'RejectedError'
  override readonly code = 'rejected'
  /** The answer's HTTP status. */
  readonly status: number
  /** The start of the answer's body, or what the server said of this one message. */
  readonly detail: string

  constructor(message: string, status: number, detail: string) {
    super(message)
    this.status = status
    this.detail = detail
  }
}

/** A message was given up after `maxRetries` retries; `cause` is the last failure. */
export class RetriesExhaustedError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'RetriesExhaustedError'
  override readonly code = 'retries_exhausted'
  /** How many requests were made. */
  readonly attempts: number

  constructor(message: string, attempts: number, cause: Error) {
    super(message, { cause })
    this.attempts = attempts
  }
}

/**
 * What the spool has to say:
 * `spooled` (a callback is told this at `close()`, or at the end of the script: the message is not delivered
 * yet, and safe on disk for the next start), `spool_failed` (the disk or the directory does not take
 * messages: they wait in memory), `spool_corrupt` (what was on disk can't be read any more) or
 * `spool_taken` (this process stood still for so long that another one took over its messages).
 */
export type SpoolCode = 'spooled' | 'spool_failed' | 'spool_corrupt' | 'spool_taken'

/** The spool has something to say of messages, or of itself; `code` says what. */
export class SpoolError extends HooklineError {
  /** The class's name, for logs. */
  override readonly name = 'SpoolError'
  override readonly code: SpoolCode

  constructor(code: SpoolCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

recogniseAcrossBuilds({
  OptionError,
  ValidationError,
  MessageTooLargeError,
  ClosedError,
  DroppedError,
  RejectedError,
  RetriesExhaustedError,
  SpoolError,
})
