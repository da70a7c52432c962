import type { DeliveryId, NewDelivery } from '../../model/delivery.js'
import { toStored } from '../text.js'
import type { Value } from './driver.js'
import type { Shared } from './shared.js'
import { LEASED, stateNumber } from '../states.js'

/** So many leased deliveries share one statement. More of them would hardly cost less. */
const CHUNK = 4

/** Adds deliveries. */
export interface Put {
  /** Adds one and returns its id; `undefined` if the store already has it. */
  readonly one: (delivery: NewDelivery, now: number) => DeliveryId | undefined
  /** Does the same for each of several. */
  readonly all: (deliveries: readonly NewDelivery[], now: number) => (DeliveryId | undefined)[]
}

export function preparePut({ database, names, counts, firstLeases, ids }: Shared): Put {
  const insert = database.prepare(
    `INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at,
       received_at, reason, attempts_before, trace_parent)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, 0, ?)
     ON CONFLICT (message_id, source, destination) DO NOTHING`,
  )
  const insertBody = database.prepare('INSERT INTO bodies (id, body) VALUES (?, ?)')
  // Most deliveries are stored already leased, and each value that is bound costs time. See `schema.ts` about `due_at`.
  const insertLeased = (rows: number) =>
    database.prepare(
      `INSERT INTO deliveries (id, message_id, source, destination, type, user, event, trace_parent, state, attempt, due_at,
         received_at, first_attempt_at, attempts_before)
       VALUES ${list(rows, `(?, ?, ?, ?, ?, ?, ?, ?, ${LEASED}, 1, 0, ?, ?, 0)`)}
       ON CONFLICT (message_id, source, destination) DO NOTHING`,
    )
  const insertOne = insertLeased(1)
  const insertChunk = insertLeased(CHUNK)
  const insertBodies = database.prepare(
    `INSERT INTO bodies (id, body) VALUES ${list(CHUNK, '(?, ?)')}`,
  )
  const has = database.prepare('SELECT 1 FROM deliveries WHERE id = ?')

  const add = (id: DeliveryId, delivery: NewDelivery, now: number) =>
    insert.run(
      id,
      toStored(delivery.messageId),
      names.number(delivery.source),
      names.number(delivery.destination),
      names.number(delivery.type),
      toStored(delivery.user),
      toStored(delivery.event ?? ''),
      stateNumber(delivery.state),
      now,
      now,
      delivery.reason === undefined ? null : toStored(delivery.reason),
      delivery.traceParent ?? null,
    )

  const pushLeased = (values: Value[], id: DeliveryId, delivery: NewDelivery, now: number) =>
    values.push(
      id,
      toStored(delivery.messageId),
      names.number(delivery.source),
      names.number(delivery.destination),
      names.number(delivery.type),
      toStored(delivery.user),
      toStored(delivery.event ?? ''),
      delivery.traceParent ?? null,
      now,
      now,
    )

  const addLeased = (id: DeliveryId, delivery: NewDelivery, now: number) => {
    const values: Value[] = []
    pushLeased(values, id, delivery, now)
    return insertOne.run(...values)
  }

  const noteAdded = (id: DeliveryId, delivery: NewDelivery, now: number) => {
    const destination = names.number(delivery.destination)
    counts.move(destination, undefined, stateNumber(delivery.state), id)
    if (delivery.state === 'leased') firstLeases.add(id, destination, now)
  }

  const one: Put['one'] = (delivery, now) => {
    const id = ids.next
    const added = (delivery.state === 'leased' ? addLeased : add)(id, delivery, now)
    if (added === 0) return undefined
    ids.next++
    if (delivery.body) insertBody.run(id, toStored(delivery.body))
    noteAdded(id, delivery, now)
    return id
  }

  /** Adds {@link CHUNK} leased deliveries from an index on. Those that the store already has leave gaps in the ids. */
  const addChunk = (deliveries: readonly NewDelivery[], from: number, now: number) => {
    const chunk = deliveries.slice(from, from + CHUNK)
    const firstId = ids.next
    ids.next += CHUNK
    const rows: Value[] = []
    const bodies: Value[] = []
    for (const [i, delivery] of chunk.entries()) {
      pushLeased(rows, firstId + i, delivery, now)
      bodies.push(firstId + i, toStored(delivery.body))
    }
    const areAllNew = insertChunk.run(...rows) === CHUNK
    if (areAllNew) insertBodies.run(...bodies)
    return chunk.map((delivery, i) => {
      const id = firstId + i
      if (!areAllNew) {
        if (!has.get(id)) return undefined
        insertBody.run(id, toStored(delivery.body))
      }
      noteAdded(id, delivery, now)
      return id
    })
  }

  const all: Put['all'] = (deliveries, now) => {
    const added: (DeliveryId | undefined)[] = []
    while (added.length < deliveries.length) {
      const from = added.length
      if (isChunk(deliveries, from)) added.push(...addChunk(deliveries, from, now))
      else added.push(one(deliveries[from] as NewDelivery, now))
    }
    return added
  }

  return { one, all }
}

function isChunk(deliveries: readonly NewDelivery[], from: number): boolean {
  for (let i = from; i < from + CHUNK; i++) {
    const delivery = deliveries[i]
    if (delivery?.state !== 'leased' || delivery.body === '') return false
  }
  return true
}

function list(length: number, item: string): string {
  return Array<string>(length).fill(item).join(', ')
}
