import type { WebhookEvent } from './events.js'
import { parsing, runAsync, signatureOf } from './parse.js'
import { bodyTooLarge } from './read-body.js'
import { nameOf, secretsOf, type Check, type WebhookSecret } from './rule.js'
import { WebhookVerificationError, type WebhookErrorCode } from './verification-error.js'

/** The options of every adapter. `Args` are the arguments of the framework that the handler gets after the event. */
export interface ReceiverOptions<Args extends unknown[]> {
  /**
   * The destination's `sharedSecret`, or a list of secrets during a rotation. If the secret is only known once
   * a request arrives, pass a function: `(c) => c.env.SECRET`. A missing or empty secret throws a `TypeError`.
   * A value is checked at once. The result of a function is checked with each request.
   */
  secret:
    | WebhookSecret
    | undefined
    | ((...args: Args) => WebhookSecret | undefined | Promise<WebhookSecret | undefined>)
  /**
   * The largest body in bytes, before and after decompression. It must be above 0. A larger body is answered
   * 413. The destination's calls have at most 32 KB. A body that a parser has read has the limit of that parser.
   *
   * @defaultValue 1,048,576 (1 MiB)
   */
  maxBytes?: number | undefined
  /**
   * Is called for each refused request, before the answer is sent. Use it for a log or a counter. If it throws,
   * the framework gets the error.
   */
  onRefused?: ((error: WebhookVerificationError, ...args: Args) => void | Promise<void>) | undefined
}

/** The answer to a refused request: its HTTP status and its JSON body. */
export interface Refusal {
  status: number
  body: { error: WebhookErrorCode; message: string }
}

/** The result of a verification: an event, or the answer that refuses the request. */
export type Verdict = { event: WebhookEvent } | { refusal: Refusal }

/** The result of a handler whose framework sends what the handler returns. Without a response, the answer is 204. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a handler without a return statement returns void
export type Answer<Response> = Promise<Response | undefined | void> | Response | undefined | void

/**
 * The HTTP status of each refusal. The destination retries after a 5xx for 4 hours and gives up after a 4xx.
 * `body_consumed` is a bug in the receiver's own code, so it is a 500: no event is lost if it is fixed in time.
 */
export const STATUSES: Readonly<Record<WebhookErrorCode, number>> = {
  missing_signature: 401,
  malformed_signature: 401,
  signature_mismatch: 401,
  body_consumed: 500,
  invalid_json: 400,
  body_too_large: 413,
  unsupported_encoding: 415,
  body_incomplete: 400,
}

/** By default. */
const MAX_BYTES = 1_048_576

/** The fields of errors that frameworks read. */
type Failure = Error &
  Partial<
    Record<'status' | 'statusCode', number> &
      Record<'code' | 'expose' | 'getStatus' | 'getResponse', unknown>
  >

/**
 * Throws an error of the handler, of `onRefused` or of a `secret` function on to the framework, so that the answer is 5xx.
 *
 * Frameworks answer with the status of an error. HTTP clients give their errors the status of another server's
 * answer, and the destination does not repeat a message after a 4xx. So an error with such a status is wrapped,
 * unless it is made to be the answer: `http-errors` have `expose`, those of NestJS have `getStatus`, and those of
 * Hono have `getResponse`.
 *
 * @param response - gets the status 500, for an application that takes the error and sets no status
 * @param refuse - the code that refuses a message, for the advice in the error
 * @param absent - errors, and codes of errors, that the framework answers 404
 */
export function fail(
  error: unknown,
  response: { statusCode: number } | undefined,
  refuse: string,
  absent: readonly unknown[] = [],
): never {
  if (response && response.statusCode < 400) response.statusCode = 500
  // Frameworks take a rejection with nothing for none.
  if (!error) throw new Error('The handler of the webhook rejected without an error.')
  const failure = error as Failure
  const { status, statusCode, code, expose, getStatus, getResponse } = failure
  const absence = [error, code].some((one) => absent.includes(one)) && 404
  // Koa also answers 1xx to 3xx, and Fastify takes whatever JavaScript reads as a number.
  const final = [absence, status, statusCode].find((one) => Number(one) >= 100 && Number(one) < 500)
  const isAnswer =
    expose === true || [getStatus, getResponse].some((one) => typeof one === 'function')
  if (!final || isAnswer) throw failure
  throw new Error(
    `${String(failure)}: answered 500, not ${final}, to get the message again. To refuse it for good: ${refuse}.`,
    { cause: error },
  )
}

/**
 * Creates the function that verifies requests, for all frameworks and both kinds of crypto.
 *
 * @throws TypeError if an option or the handler is not what it should be
 */
export function receiver<Args extends unknown[]>(
  options: ReceiverOptions<Args>,
  handler: unknown,
  check: Check<boolean | Promise<boolean>>,
) {
  checkOptions(options, handler)
  const { secret, maxBytes = MAX_BYTES, onRefused } = options

  /** Verifies one request. `readBody` returns the body as bytes, as text or parsed. */
  return async function receive(
    signature: unknown,
    readBody: (maxBytes: number) => unknown,
    ...args: Args
  ): Promise<Verdict> {
    try {
      const hex = signatureOf(signature) // first, so that the body of an unsigned request is not read
      const secrets = secretsOf(typeof secret === 'function' ? await secret(...args) : secret)
      const body = await readBody(maxBytes)
      checkSize(body, maxBytes)
      return { event: await runAsync(parsing(secrets, body, hex), check) }
    } catch (error) {
      if (!(error instanceof WebhookVerificationError)) throw error
      await onRefused?.(error, ...args)
      const { code, message } = error
      return { refusal: { status: STATUSES[code], body: { error: code, message } } }
    }
  }
}

function checkOptions(options: unknown, handler: unknown): void {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`options: expected an object with a secret, got ${nameOf(options)}.`)
  }
  const { secret, maxBytes = MAX_BYTES, onRefused, ...others } = options as Record<string, unknown>
  const [other] = Object.keys(others)
  if (other !== undefined) {
    throw new TypeError(`${other}: there is no such option, only secret, maxBytes and onRefused.`)
  }
  if (typeof secret !== 'function') secretsOf(secret)
  if (typeof maxBytes !== 'number' || !(maxBytes > 0)) {
    throw new TypeError(`maxBytes: expected a number of bytes above 0, got ${String(maxBytes)}.`)
  }
  if (onRefused !== undefined && typeof onRefused !== 'function') {
    throw new TypeError(`onRefused: expected a function, got ${nameOf(onRefused)}.`)
  }
  if (typeof handler !== 'function') {
    const got = nameOf(handler)
    throw new TypeError(
      `handler: expected a function that takes each event, got ${got}. Pass it after the options.`,
    )
  }
}

/** Refuses a raw body that is too large or empty. A parsed body has passed the limits of its parser. */
function checkSize(body: unknown, maxBytes: number): void {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  if (!ArrayBuffer.isView(bytes)) return
  if (bytes.byteLength > maxBytes) throw bodyTooLarge(maxBytes)
  if (bytes.byteLength > 0) return
  const message =
    'Expected a signed JSON body, got an empty one. The destination never sends an empty body.'
  throw new WebhookVerificationError('signature_mismatch', message)
}
