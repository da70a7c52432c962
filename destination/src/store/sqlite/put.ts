import type { DeliveryId, NewDelivery } from '../../model/delivery.js'
import { LEASE_MS } from '../store.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { LEASED, stateNumber } from '../states.js'

/** Adds a delivery and returns its id; `undefined` if the store already has it. */
export function preparePut({ database, names, counts, ids }: Shared) {
  const insert = database.prepare(
    `INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at,
       received_at, first_attempt_at, reason, attempts_before, trace_parent)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
     ON CONFLICT (message_id, source, destination) DO NOTHING`,
  )
  const insertBody = database.prepare('INSERT INTO bodies (id, body) VALUES (?, ?)')

  return (delivery: NewDelivery, now: number): DeliveryId | undefined => {
    const id = ids.next
    const destination = names.number(delivery.destination)
    const state = stateNumber(delivery.state)
    const leased = state === LEASED
    const added = insert.run(
      id,
      toStored(delivery.messageId),
      names.number(delivery.source),
      destination,
      names.number(delivery.type),
      toStored(delivery.user),
      toStored(delivery.event ?? ''),
      state,
      leased ? 1 : 0,
      leased ? now + LEASE_MS : now,
      now,
      leased ? now : null,
      delivery.reason === undefined ? null : toStored(delivery.reason),
      delivery.traceParent ?? null,
    )
    if (added === 0) return undefined
    ids.next++
    if (delivery.body) insertBody.run(id, toStored(delivery.body))
    counts.move(destination, undefined, state, id)
    return id
  }
}
