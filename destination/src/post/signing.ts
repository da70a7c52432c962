import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Destination } from '../settings/settings.js'
import { encodeMessageId, messageHeaders, type HeaderList } from './headers.js'
import type { Outcome } from '../model/outcome.js'

/** How the requests of a destination are signed. */
export interface Signing {
  /**
   * The headers of one message in one attempt. They are the same for all endpoints. Attempts count from 1.
   *
   * @param secret - One of {@link Signing.secretsFor}.
   */
  readonly headers: (
    body: string | Buffer,
    messageId: string,
    attempt: number,
    secret: string | undefined,
  ) => HeaderList

  /**
   * The secrets to sign with, one after the other, as long as the endpoint {@link refusesSignature}. Without a rotation
   * there is only one. During a rotation the first one comes again at the end, because the receiver may change its
   * secret between the first two requests.
   */
  readonly secretsFor: (url: string) => readonly (string | undefined)[]

  /** An endpoint accepted this secret: during a rotation, its next requests are signed with it first. */
  readonly accepted: (url: string, secret: string | undefined) => void
}

/** The statuses with which receivers refuse a signature. The correct one is 401, but 400 and 403 are common too. */
const MISMATCHES: readonly unknown[] = [400, 401, 403]

/** Whether an endpoint may have refused the signature of a request, and not its content. */
export function refusesSignature({ status }: Pick<Outcome, 'status'>): boolean {
  return MISMATCHES.includes(status)
}

/**
 * Makes the signatures of a destination.
 *
 * During a rotation a destination has two secrets. If a receiver refuses the signature of a request, the message is
 * sent again at once with the other secret. So a receiver that knows only one secret at a time loses no message,
 * whenever it changes to the new one.
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
  const standardHeaders = (body: string | Buffer, messageId: string): HeaderList => {
    // The signed text is `id.timestamp.body`, so the id must not contain a full stop.
    const id = encodeMessageId(messageId).replaceAll('.', '%2E')
    const timestamp = String(Math.floor(now() / 1_000))
    const signatures = keys.map(
      (key) =>
        `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
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
  const secrets = otherSecret === undefined ? [sharedSecret] : [sharedSecret, otherSecret]
  const acceptedBy = new Map<string, string | undefined>()
  const signers = new Map<string, KeyObject>()
  /** Makes each key when it is used first, because there may be thousands of destinations. */
  const signerOf = (secret: string | undefined): KeyObject | undefined => {
    if (secret === undefined) return undefined
    let signer = signers.get(secret)
    if (!signer) signers.set(secret, (signer = createSecretKey(secret, 'utf8')))
    return signer
  }
  return {
    headers: (body, messageId, attempt, secret) => {
      const headers = messageHeaders(signerOf(secret), body, messageId, attempt)
      return keys.length === 0 ? headers : headers.concat(standardHeaders(body, messageId))
    },
    secretsFor: (url) => {
      if (secrets.length === 1) return secrets
      const isFirstAccepted = (acceptedBy.get(url) ?? secrets[0]) === secrets[0]
      const [first, other] = isFirstAccepted ? secrets : secrets.toReversed()
      return [first, other, first]
    },
    accepted: (url, secret) => {
      if (secrets.length > 1) acceptedBy.set(url, secret)
    },
  }
}

/** The key of a Standard Webhooks secret: base64 after a prefix, which the settings have checked. */
function keyOf(secret: string): Buffer {
  return Buffer.from(secret.slice('whsec_'.length), 'base64')
}
