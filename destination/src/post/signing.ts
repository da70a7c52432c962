import { createHmac } from 'node:crypto'
import type { Destination } from '../settings/settings.js'
import { encodeMessageId, messageHeaders, type HeaderList } from './headers.js'
import type { Outcome } from '../model/outcome.js'

/** How the requests of a destination are signed. */
export interface Signing {
  /** The headers of one message in one attempt, the same for all endpoints; attempts count from 1. */
  readonly headers: (body: string, messageId: string, attempt: number) => HeaderList
  /** What an outcome means while the secret is being rotated: see {@link createSigning}. */
  readonly judge: (outcome: Outcome, attempt: number) => Outcome
}

/** What receivers answer to a signature that does not match, 401 by the book. */
const MISMATCHES: readonly unknown[] = [400, 401, 403]

/** After so many attempts each of two secrets has signed one that was sent, even if the breaker held one back. */
const ROTATING_ATTEMPTS = 3

/**
 * While its secret is being rotated, a destination has two, which sign in turn: a message whose signature a receiver
 * refuses is tried once more, with the other. So a receiver that knows one secret at a time loses nothing, whenever it
 * changes to the new one.
 *
 * `webhook-id`, `webhook-timestamp` and `webhook-signature` are those of Standard Webhooks, with a signature for each
 * secret: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @param now - The time of day: ms since the epoch.
 */
export function createSigning(
  {
    sharedSecret,
    otherSecret,
    webhookSecrets = [],
  }: Pick<Destination, 'sharedSecret' | 'otherSecret' | 'webhookSecrets'>,
  now: () => number = Date.now,
): Signing {
  const keys = webhookSecrets.map(keyOf)
  const standardHeaders = (body: string, messageId: string): HeaderList => {
    // A full stop ends the id in what is signed.
    const id = encodeMessageId(messageId).replaceAll('.', '%2E')
    const timestamp = String(Math.floor(now() / 1_000))
    const signatures = keys.map(
      (key) =>
        `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`,
    )
    return [
      'webhook-id',
      id,
      'webhook-timestamp',
      timestamp,
      'webhook-signature',
      signatures.join(' '),
    ]
  }
  return {
    headers: (body, messageId, attempt) => {
      const secret = attempt % 2 === 0 && otherSecret !== undefined ? otherSecret : sharedSecret
      const headers = messageHeaders(secret, body, messageId, attempt)
      return keys.length === 0 ? headers : headers.concat(standardHeaders(body, messageId))
    },
    judge: (outcome, attempt) => {
      if (otherSecret === undefined || attempt >= ROTATING_ATTEMPTS) return outcome
      return MISMATCHES.includes(outcome.status) ? { ...outcome, verdict: 'retry' } : outcome
    },
  }
}

/** The key in a secret of Standard Webhooks: base64, after a prefix that the settings have checked. */
function keyOf(secret: string): Buffer {
  return Buffer.from(secret.slice('whsec_'.length), 'base64')
}
