import { recogniseAcrossBuilds } from './across-builds.js'
import { HooklineError } from './hookline-error.js'

/** An option is wrong. The constructor, `flush` and `close` throw it. */
export class OptionError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'OptionError'
  override readonly code = 'invalid_option'
  /** The name of the option. */
  readonly option: string

  constructor(option: string, message: string) {
    super(message)
    this.option = option
  }
}

/**
 * A call was given an invalid message. The call throws it, or reports it with `onInvalid: 'report'`. Other messages are
 * not affected.
 */
export class ValidationError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'ValidationError'
  override readonly code = 'invalid_message'
  /** The path of the invalid field, such as `userId` or `properties.total`. */
  readonly field: string

  constructor(field: string, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.field = field
  }
}

/**
 * A message is larger than 32 KB (32,768 bytes of JSON). The call throws it, or reports it with `onInvalid: 'report'`.
 */
export class MessageTooLargeError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'MessageTooLargeError'
  override readonly code = 'message_too_large'
  /** The size of the message's JSON, in bytes. */
  readonly bytes: number

  constructor(message: string, bytes: number) {
    super(message)
    this.bytes = bytes
  }
}

/** A message was recorded after `close()`, and is not sent. */
export class ClosedError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'ClosedError'
  override readonly code = 'closed'
}

/**
 * Why the client gave up a message:
 * `queue_full` (`maxQueueBytes` is reached), `before_send` (the hook dropped the message, or failed), `disabled`
 * (the client is disabled), `close_timeout` (`close()` ran out of time), `process_exit` (the script ended and the
 * endpoint took no message in time), `body_consumed` (the option `fetch` read the answer, which may name the message as
 * refused) or `internal_error` (a defect of this package: please report it with the error's `cause`).
 */
export type DropReason =
  | 'queue_full'
  | 'before_send'
  | 'disabled'
  | 'close_timeout'
  | 'process_exit'
  | 'body_consumed'
  | 'internal_error'

/** The client gave up a message. `code` is the reason. */
export class DroppedError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'DroppedError'
  override readonly code: DropReason

  constructor(code: DropReason, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/** The server refused a message, which is not sent again. */
export class RejectedError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'RejectedError'
  override readonly code = 'rejected'
  /** The HTTP status of the answer. */
  readonly status: number
  /** The start of the answer's body, or the server's explanation for this message. */
  readonly detail: string
  /** The error's message without the server's own words, for logs that must not repeat these. */
  readonly summary: string

  constructor(message: string, status: number, detail: string, summary = message) {
    super(message)
    this.status = status
    this.detail = detail
    this.summary = summary
  }
}

/**
 * The client gave up a message after `maxRetries` retries, or after 10 attempts that failed while the endpoint took others. `cause` is
 * the last failure.
 */
export class RetriesExhaustedError extends HooklineError {
  /** The name of the class. */
  override readonly name = 'RetriesExhaustedError'
  override readonly code = 'retries_exhausted'
  /** The number of requests that were made. */
  readonly attempts: number

  constructor(message: string, attempts: number, cause: Error) {
    super(message, { cause })
    this.attempts = attempts
  }
}

/**
 * What happened to the spool:
 *
 * - `spooled`: the message is not delivered yet, and is on disk for the next start. Callbacks get this at `close()` and
 *   at the end of the script.
 * - `spool_failed`: messages can't be written to the disk or the directory, and wait in memory.
 * - `spool_corrupt`: messages on disk can no longer be read.
 * - `spool_taken`: this process was stopped for so long that another process took over its messages.
 */
export type SpoolCode = 'spooled' | 'spool_failed' | 'spool_corrupt' | 'spool_taken'

/** Something happened to the spool, or to messages in it. `code` says what. */
export class SpoolError extends HooklineError {
  /** The name of the class. */
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
