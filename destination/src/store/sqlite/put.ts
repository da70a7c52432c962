import type { DeliveryId, NewDelivery } from '../../model/delivery.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { LEASED, stateNumber } from '../states.js'

/** Adds a delivery and returns its id; `undefined` if the store already has it. */
export function preparePut({ database, names, counts, firstLeases, ids }: Shared) {
  const insert = database.prepare(
    `INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at,
       received_at, reason, attempts_before, trace_parent)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, 0, ?)
     ON CONFLICT (message_id, source, destination) DO NOTHING`,
  )
  // Most deliveries are stored already leased, and each value that is bound costs time. See `schema.ts` about `due_at`.
  const insertLeased = database.prepare(
    `INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at,
       received_at, first_attempt_at, attempts_before, trace_parent)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ${LEASED}, 1, 0, ?8, ?8, 0, ?9)
     ON CONFLICT (message_id, source, destination) DO NOTHING`,
  )
  const insertBody = database.prepare('INSERT INTO bodies (id, body) VALUES (?, ?)')

  const add = (id: DeliveryId, delivery: NewDelivery, destination: number, now: number) =>
    insert.run(
      id,
      toStored(delivery.messageId),
      names.number(delivery.source),
      destination,
      names.number(delivery.type),
      toStored(delivery.user),
      toStored(delivery.event ?? ''),
      stateNumber(delivery.state),
      now,
      now,
      delivery.reason === undefined ? null : toStored(delivery.reason),
      delivery.traceParent ?? null,
    )

  const addLeased = (id: DeliveryId, delivery: NewDelivery, destination: number, now: number) =>
    insertLeased.run(
      id,
      toStored(delivery.messageId),
      names.number(delivery.source),
      destination,
      names.number(delivery.type),
      toStored(delivery.user),
      toStored(delivery.event ?? ''),
      now,
      delivery.traceParent ?? null,
    )

  return (delivery: NewDelivery, now: number): DeliveryId | undefined => {
    const id = ids.next
    const destination = names.number(delivery.destination)
    const state = stateNumber(delivery.state)
    const isLeased = state === LEASED
    const added = (isLeased ? addLeased : add)(id, delivery, destination, now)
    if (added === 0) return undefined
    ids.next++
    if (delivery.body) insertBody.run(id, toStored(delivery.body))
    counts.move(destination, undefined, state, id)
    if (isLeased) firstLeases.add(id, destination, now)
    return id
  }
}
