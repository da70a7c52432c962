import type { WebhookEvent } from './events.js'
import { parsing, runAsync, signatureOf } from './parse.js'
import { bodyTooLarge } from './read-body.js'
import { secretsOf, type Check, type WebhookSecret } from './rule.js'
import { WebhookVerificationError, type WebhookErrorCode } from './verification-error.js'

/** What every adapter takes, besides the handler. `Args` is what the framework gives the handler. */
export interface ReceiverOptions<Args extends unknown[]> {
  /**
   * The destination's `sharedSecret`, several while one is being rotated, or a function that gives them for
   * a request, where they are known only then (`(c) => c.env.SECRET`). One that is missing or empty
   * throws a `TypeError`: at once if it is given here, with the request if it comes from a function.
   */
  secret:
    | WebhookSecret
    | undefined
    | ((...args: Args) => WebhookSecret | undefined | Promise<WebhookSecret | undefined>)
  /**
   * The largest body, in bytes and after decompression, above 0; one that is larger is answered 413. The
   * calls that the destination forwards have at most 32 KB.
   *
   * @defaultValue 1,048,576 (1 MiB)
   */
  maxBytes?: number | undefined
  /**
   * Told of each request that is refused, before it is answered: for a log or a counter. An error that
   * it throws goes to the framework.
   */
  onRefused?: ((error: WebhookVerificationError, ...args: Args) => void | Promise<void>) | undefined
}

/** How a refused request is answered: the status, and the JSON of the body. */
export interface Refusal {
  status: number
  body: { error: WebhookErrorCode; message: string }
}

/** A request that is verified, or refused. */
export type Verdict = { event: WebhookEvent } | { refusal: Refusal }

/** What a handler returns where the framework sends what it returns; nothing is answered 204. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a handler without a return is one
export type Answer<Response> = Promise<Response | undefined | void> | Response | undefined | void

/**
 * The status of each refusal. The destination sends a 5xx again for 4 hours, and gives up at a 4xx: what
 * the receiver's own code did to the body is a 500, so that nothing is lost until it is mended.
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

/** What all adapters do with a request, whatever the framework and the kind of crypto. */
export function receiver<Args extends unknown[]>(
  { secret, maxBytes = 1_048_576, onRefused }: ReceiverOptions<Args>,
  check: Check<boolean | Promise<boolean>>,
) {
  if (typeof secret !== 'function') secretsOf(secret)
  if (!(maxBytes > 0)) {
    throw new TypeError(`maxBytes: expected a number of bytes above 0, got ${String(maxBytes)}.`)
  }

  /** Decides on one request; `readBody` gives the body in whatever form is left of it. */
  return async function receive(
    signature: unknown,
    readBody: (maxBytes: number) => unknown,
    ...args: Args
  ): Promise<Verdict> {
    try {
      const hex = signatureOf(signature) // before the body: without one it is not worth reading
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

/** Refuses a raw body that is too large or empty; a parsed one has passed its parser. */
function checkSize(body: unknown, maxBytes: number): void {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  if (!ArrayBuffer.isView(bytes)) return
  if (bytes.byteLength > maxBytes) throw bodyTooLarge(maxBytes)
  if (bytes.byteLength > 0) return
  const message =
    'Expected a signed JSON body, got an empty one. The destination sends none like it.'
  throw new WebhookVerificationError('signature_mismatch', message)
}
