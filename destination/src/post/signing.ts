import { createHmac } from 'node:crypto'
import type { Destination } from '../settings/settings.js'
import { encodeMessageId, messageHeaders, type HeaderList } from './headers.js'
import type { Outcome } from '../model/outcome.js'

/** How the requests of a destination are signed. */
export interface Signing {
  /** The headers of one message in one attempt. They are the same for all endpoints. Attempts count from 1. */
  readonly headers: (body: string, messageId: string, attempt: number) => HeaderList
  /** What an outcome means while the secret is being rotated: see {@link createSigning}. */
  readonly judge: (outcome: Outcome, attempt: number) => Outcome
}

/** The statuses with which receivers refuse a signature. The correct one is 401, but 400 and 403 are common too. */
const MISMATCHES: readonly unknown[] = [400, 401, 403]

/**
 * After this many attempts, each secret has signed a request that was sent, even if the breaker prevented one of them.
 */
const ROTATING_ATTEMPTS = 3

/**
 * Makes the signatures of a destination.
 *
 * During a rotation a destination has two secrets, which sign the attempts of a message in turn. If a receiver refuses
 * the signature of one attempt, the message is retried with the other secret. So a receiver that knows only one secret
 * at a time loses no message, whenever it changes to the new one.
 *
 * The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` follow Standard Webhooks, with one signature
 * for each secret: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @param now - The time of day in ms since the epoch.
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
    // The signed text is `id.timestamp.body`, so the id must not contain a full stop.
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

/** The key of a Standard Webhooks secret: base64 after a prefix, which the settings have checked. */
function keyOf(secret: string): Buffer {
  return Buffer.from(secret.slice('whsec_'.length), 'base64')
}
