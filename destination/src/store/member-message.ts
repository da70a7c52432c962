import { randomUUID } from 'node:crypto'
import type { NewDelivery } from '../model/delivery.js'
import type { Notice } from './store.js'

/**
 * What is put for a member. Its id is a UUID that starts with the time (version 7, RFC 9562, 5.7): those of many
 * members end up side by side in the index.
 *
 * @param now - Ms since the epoch.
 */
export function deliveryOf(user: string, notice: Notice, now: number): NewDelivery {
  const { source, destination, before, after } = notice
  const time = now.toString(16).padStart(12, '0')
  return {
    messageId: `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`,
    source,
    destination,
    type: 'identify',
    user,
    body: before + JSON.stringify(user) + after,
    state: 'backlog',
  }
}
