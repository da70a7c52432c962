import type { WebhookEvent } from './events.js'
import { signWebhook } from './signature.js'

/** The fields of one type of event, as {@link signedRequest} takes them. */
export type EventFields<Type extends WebhookEvent['type']> = Omit<
  Extract<WebhookEvent, Record<'type', Type>>,
  'type' | 'version' | 'timestamp'
> & {
  /**
   * When the call was made: ISO 8601 with milliseconds.
   *
   * @defaultValue now
   */
  timestamp?: string
}

/** A request as the destination sends it: `fetch(url, request)`, or its parts for any other client. */
export interface SignedRequest {
  /** The destination's only method. */
  method: 'POST'
  /** The destination's headers, the signature among them. */
  headers: Record<'Content-Type' | 'User-Agent' | 'X-Signature', string>
  /** The JSON that is signed. */
  body: string
}

/** Every field of the seven bodies, in an order that is the destination's own in each of them. */
const FIELDS =
  'version,type,userId,timestamp,groupId,Previous ID,User ID,name,event,properties,traits,context'

/**
 * A correctly signed request, for the test of a receiver; change its body or its signature to forge one.
 *
 * @param type - Which of the seven events.
 * @param fields - What the event carries; `type`, `version` and `timestamp` are filled in.
 * @param secret - The `sharedSecret` that the receiver has.
 * @throws TypeError if the secret is empty.
 * @example
 * ```ts
 * import { signedRequest } from 'hookline/testing'
 *
 * const request = signedRequest('track', { userId: 'u1', event: 'Signed Up', properties: {} }, 's3cret')
 * const response = await fetch('http://127.0.0.1:3000/webhook', request)
 * ```
 */
export function signedRequest<Type extends WebhookEvent['type']>(
  type: Type,
  fields: EventFields<Type>,
  secret: string,
): SignedRequest {
  const version = type === 'delete' ? undefined : 1
  const event = { timestamp: new Date().toISOString(), ...fields, type, version }
  const rank = (name: string) => FIELDS.split(',').indexOf(name) + 1 || Infinity // others come last
  const entries = Object.entries(event).sort(([a], [b]) => rank(a) - rank(b))
  const body = JSON.stringify(Object.fromEntries(entries))
  return {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'User-Agent': 'Service.io/1.0',
      'X-Signature': signWebhook(secret, body),
    },
    body,
  }
}
