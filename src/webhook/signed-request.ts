import { randomUUID } from 'node:crypto'
import type { WebhookEvent } from './events.js'
import { kindOf, nameOf } from './rule.js'
import { signWebhook } from './signature.js'

/** The fields of one type of event, as you pass them to {@link signedRequest}. */
export type EventFields<Type extends WebhookEvent['type']> = Omit<
  Extract<WebhookEvent, Record<'type', Type>>,
  'type' | 'version' | 'timestamp'
> & {
  /**
   * The time of the call: ISO 8601 with milliseconds.
   *
   * @defaultValue the current time
   */
  timestamp?: string
}

/** A request like those of the destination. Pass it to `fetch(url, request)`, or its parts to another client. */
export interface SignedRequest {
  /** The method of the request. */
  method: 'POST'
  /** The headers of the request, with the signature and the id of the message, a new one for each request. */
  headers: Record<
    'Content-Type' | 'User-Agent' | 'X-Signature' | 'X-Message-Id' | 'X-Attempt',
    string
  >
  /** The signed JSON. */
  body: string
}

/** Every type of event. */
const TYPES = 'page, screen, identify, track, alias, group, delete'

/** Every field of the seven bodies. In each body, the destination writes its fields in this order. */
const FIELDS =
  'version,type,userId,timestamp,groupId,Previous ID,User ID,name,event,properties,traits,context'

/**
 * Creates a correctly signed request to test a receiver with. To forge a request, change its body or signature. To send a message
 * twice, send the same request twice.
 *
 * @param type - The type of the event.
 * @param fields - The fields of the event, without `type` and `version`. `timestamp` may be omitted.
 * @param secret - The secret that the receiver has.
 * @throws TypeError if the type is unknown, the fields are no object, or the secret is missing or empty.
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
  if (!TYPES.split(', ').includes(type)) {
    throw new TypeError(`type: expected one of ${TYPES}, got ${JSON.stringify(type)}.`)
  }
  if (kindOf(fields) !== 'Object') {
    throw new TypeError(`fields: expected an object, got ${nameOf(fields)}.`)
  }
  const version = type === 'delete' ? undefined : 1
  const event = { timestamp: new Date().toISOString(), ...fields, type, version }
  const rank = (name: string) => FIELDS.split(',').indexOf(name) + 1 || Infinity // unknown fields come last
  const entries = Object.entries(event).sort(([a], [b]) => rank(a) - rank(b))
  const body = JSON.stringify(Object.fromEntries(entries))
  return {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'User-Agent': 'Service.io/1.0',
      'X-Signature': signWebhook(secret, body),
      'X-Message-Id': randomUUID(),
      'X-Attempt': '1',
    },
    body,
  }
}
