import { hash } from 'node:crypto'
import { webhookBody } from '../enqueue/webhook-body.js'
import type { Enqueued } from '../enqueue/enqueue.js'

/** What an alert is about. It is the name of the event that receivers get. */
export type AlertName =
  | 'Endpoint Failing'
  | 'Endpoint Recovered'
  | 'Destination Paused'
  | 'Dead Letters Above Limit'
  | 'Dead Letters Below Limit'

/** Tells the operator that something has changed. */
export interface Alert {
  name: AlertName
  /** The destination that it is about. */
  destination: string
  /** What the receiver gets, and what the log shows. */
  properties: Readonly<Record<string, string | number | null>>
  /** Two alerts about the same change have the same key, so that only one of them is delivered. */
  key: readonly (string | number)[]
}

/** The source of all alerts, as lists of deliveries show it. */
const SOURCE = 'hookline-alerts'
const USER = 'hookline'

/**
 * The message that delivers an alert: a `track` call, which receivers verify and read like any other. Its id follows from the
 * key, so that the store refuses a second message about the same change, whichever process puts it. It has 144 characters,
 * and the collector refuses ids of more than 100: no client can use it first.
 *
 * @param to - The destination that gets the alerts.
 * @param at - The time of the alert, in ms since the epoch.
 */
export function alertMessage(
  { name, destination, properties, key }: Alert,
  to: string,
  at: number,
) {
  const messageId = `${SOURCE}-${hash('sha512', JSON.stringify([name, destination, ...key]))}`
  const call = {
    type: 'track',
    messageId,
    timestamp: new Date(at).toISOString(),
    userId: USER,
    event: name,
    properties: { destination, ...properties },
  } as const
  const body = webhookBody(call)
  const { type, event } = call
  return {
    source: SOURCE,
    destination: to,
    messageId,
    type,
    event,
    user: USER,
    body,
  } satisfies Enqueued
}
