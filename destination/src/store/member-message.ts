import { randomUUID } from 'node:crypto'
import type { NewDelivery } from '../model/delivery.js'
import type { MemberMessage } from './store.js'

/**
 * Makes the delivery of a message about a member. Its message id is a UUID that starts with the time (version 7,
 * RFC 9562, 5.7), so that the messages of one list are neighbours in the index `by_message`.
 *
 * @param now - Ms since the epoch.
 */
export function memberDelivery(user: string, message: MemberMessage, now: number): NewDelivery {
  const { source, destination, before, after } = message
  const time = now.toString(16).padStart(12, '0')
  return {
    messageId: `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`,
    source,
    destination,
    type: 'identify',
    user,
    body: before + JSON.stringify(user) + after,
    state: 'bulk',
  }
}
