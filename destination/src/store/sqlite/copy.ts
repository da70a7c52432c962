import { toNullable, toRefusedBy } from '../rows.js'
import type { Copy, DeliveryId } from '../../model/delivery.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { stateNumber } from '../states.js'
import { prepareCopies } from './trace.js'

/** Copies deliveries to and from another store. */
export function prepareCopy(shared: Shared) {
  const { database, names, counts, ids } = shared
  const count = database.prepare('SELECT count(*) AS count FROM deliveries')
  const after = prepareCopies(shared, 'WHERE d.id > ? ORDER BY d.id LIMIT ?')
  const same = prepareCopies(shared, 'WHERE message_id = ? AND source = ? AND destination = ?')
  const insert = database.prepare(
    `INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at,
       received_at, first_attempt_at, refused_by, reason, attempts_before, replayed_at, trace_parent)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (message_id, source, destination) DO NOTHING`,
  )
  const insertBody = database.prepare('INSERT INTO bodies (id, body) VALUES (?, ?)')
  const insertAttempt = database.prepare(
    `INSERT INTO attempts (delivery, attempt, post, at, url, code, status, ms, error, response, headers)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )

  const copyAttempts = (id: DeliveryId, attempts: Copy['attempts']): void => {
    let post = 0
    for (const [i, one] of attempts.entries()) {
      post = one.attempt === attempts[i - 1]?.attempt ? post + 1 : 0
      insertAttempt.run(
        id,
        one.attempt,
        post,
        one.at,
        names.number(one.url),
        names.number(one.code),
        one.status,
        one.ms,
        toNullable(one.error),
        toStored(one.response),
        toNullable(one.headers ?? null),
      )
    }
  }

  return {
    count: (): number => (count.get() as { count: number }).count,
    copyOut: (id: DeliveryId, limit: number): Copy[] => after(id, limit),
    copyIn: (copy: Copy, now: number): boolean => {
      const id = ids.next
      const destination = names.number(copy.destination)
      const state = stateNumber(copy.state)
      const added = insert.run(
        id,
        toStored(copy.messageId),
        names.number(copy.source),
        destination,
        names.number(copy.type),
        toStored(copy.user),
        toStored(copy.event),
        state,
        copy.attempt,
        copy.dueAt ?? copy.receivedAt,
        // The clock of the other store may be ahead.
        Math.min(copy.receivedAt, now),
        copy.firstAttemptAt,
        toRefusedBy(copy.refusedBy),
        toNullable(copy.reason),
        copy.attemptsBefore,
        copy.replayedAt,
        copy.traceParent,
      )
      if (added === 0) return false
      ids.next++
      if (copy.body) insertBody.run(id, toStored(copy.body))
      copyAttempts(id, copy.attempts)
      counts.move(destination, undefined, state, id)
      return true
    },
    copyOf: ({ messageId, source, destination }: Copy): Copy | undefined => {
      const [from, to] = [names.find(source), names.find(destination)]
      if (from === undefined || to === undefined) return undefined
      return same(toStored(messageId), from, to)[0]
    },
  }
}
