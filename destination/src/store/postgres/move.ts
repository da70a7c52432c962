import type { Copy, DeliveryId } from '../../model/delivery.js'
import { BACKLOG, stateOf } from '../states.js'
import { StoreError } from '../store-error.js'
import type { Moved, MovePort, OwnShare } from '../servers.js'
import type { Connection, RunQuery } from './connection.js'
import { DUE_AT, PARKED_MS } from './states.js'
import { NOW, type Tables } from './tables.js'
import { copyStatement, readCopies } from './trace.js'

/** The class of the advisory lock of whoever moves shares: "move" in ASCII. */
const LOCK = 0x6d6f7665

/** How many of all waiting messages one call looks at. */
const LOOKED_AT = 2_000

/**
 * How many messages one call parks and copies. Each can have a log of 64 KB and more, and what is parked is not sent: if the process is
 * killed, it waits for the next move.
 */
const SLICE = 200

/** In ms: after this time without a word of whoever moves shares, the server ends its transaction, so that another process can continue. */
const ALONE_MS = 30_000

/** The steps of a move of shares, as each server carries them out. */
export function prepareMove(
  { query, transact, schema, now }: Tables,
  { transactAlone }: Pick<Connection, 'transactAlone'>,
): MovePort {
  /** What another server relies on is on disk, even where commits do not wait for that. */
  const durably: RunQuery = (text, values) => transact((inside) => inside(text, values))
  const epochs = (shares: readonly OwnShare[]) => [
    shares.map(({ share }) => share),
    shares.map(({ epoch }) => epoch),
  ]

  // An attempt whose lease ran out does not count. Its number must not settle the message any more, so it gets the next one, which
  // is taken back in the copy.
  const park = `
    WITH looked AS MATERIALIZED (
      SELECT id, state FROM ${schema}.waiting WHERE id > $2 ORDER BY id LIMIT ${LOOKED_AT}
    ), own AS MATERIALIZED (
      SELECT id FROM looked WHERE state <= ${BACKLOG} AND (
        SELECT source FROM ${schema}.deliveries d WHERE d.id = looked.id LIMIT 1
      ) = ANY (ARRAY (
        SELECT id FROM ${schema}.names WHERE get_byte(sha256(convert_to(name, 'UTF8')), 0) = ANY ($3::int[])
      ))
    ), chosen AS MATERIALIZED (
      SELECT id, due_at FROM ${schema}.waiting
      WHERE id = ANY (ARRAY (SELECT id FROM own)) AND state <= ${BACKLOG}
        AND (NOT leased OR ${DUE_AT} <= ${NOW} OR due_at >= ${PARKED_MS})
      ORDER BY id LIMIT ${SLICE} FOR UPDATE SKIP LOCKED
    ), parked AS (
      UPDATE ${schema}.waiting SET leased = true, attempt = attempt + 1, lease_until = NULL,
        state = CASE WHEN lease_until IS NULL THEN state ELSE ${BACKLOG} END,
        due_at = ${DUE_AT} + ${PARKED_MS},
        attempts_before = CASE WHEN leased THEN coalesce(attempts_before, 0) + 1 ELSE attempts_before END
      WHERE id = ANY (ARRAY (SELECT id FROM chosen WHERE due_at < ${PARKED_MS}))
    )
    SELECT (SELECT count(*)::int FROM looked) AS looked, (SELECT max(id) FROM looked) AS last,
      ARRAY (SELECT id FROM own)::text[] AS own, ARRAY (SELECT id FROM chosen ORDER BY id)::text[] AS ids`
  const lock = `
    SELECT id, state, due_at - ${PARKED_MS} AS "dueAt" FROM ${schema}.waiting
    WHERE id = ANY ($1::bigint[]) AND due_at >= ${PARKED_MS} ORDER BY id FOR UPDATE`
  const read = copyStatement(schema, 'WHERE d.id = ANY ($1::bigint[]) ORDER BY d.id')
  const remove = `
    WITH waiting AS (
      DELETE FROM ${schema}.waiting WHERE id = ANY ($1::bigint[])
    ), attempts AS (
      DELETE FROM ${schema}.attempts WHERE delivery = ANY ($1::bigint[])
    )
    DELETE FROM ${schema}.deliveries WHERE id = ANY ($1::bigint[])`

  /** The locks hold until the copies are stored and deleted here, so that a deletion of their user waits for that. */
  const moveSlice = async (
    inside: RunQuery,
    ids: readonly DeliveryId[],
    copyIn: (copies: Copy[]) => Promise<unknown>,
  ): Promise<number> => {
    const rows = await inside<{ id: DeliveryId; state: number; dueAt: number }>(lock, [ids])
    if (rows.length === 0) return 0
    const locked = rows.map(({ id }) => id)
    const copies = await readCopies(inside, read, [locked])
    const byId = new Map(rows.map((row) => [row.id, row]))
    await copyIn(
      copies.map((copy) => {
        const { state = BACKLOG, dueAt = copy.dueAt } = byId.get(copy.id) ?? {}
        return { ...copy, state: stateOf(state), dueAt, attempt: copy.attempt - 1 }
      }),
    )
    await inside(remove, [copies.map(({ id }) => id)])
    return rows.length
  }

  return {
    alone: async <T>(work: (stillAlone: () => Promise<void>) => Promise<T>) => {
      const outcome = await transactAlone(async (inside) => {
        await inside(`SET LOCAL idle_in_transaction_session_timeout = ${ALONE_MS}`)
        const text = 'SELECT pg_try_advisory_xact_lock($1, hashtext($2)) AS alone'
        const [row] = await inside<{ alone: boolean }>(text, [LOCK, schema])
        if (!row?.alone) throw new StoreError('locked', 'store: another process moves shares now.')
        let asked: Promise<unknown> | undefined
        const stillAlone = async () => {
          asked ??= inside('SELECT').finally(() => (asked = undefined))
          await asked
        }
        const staying = setInterval(() => {
          stillAlone().catch(() => undefined) // the work hears of it when it asks itself
        }, ALONE_MS / 6)
        // What fails in the work has nothing to do with this connection.
        return Promise.allSettled([work(stillAlone)]).finally(() => {
          clearInterval(staying)
        })
      })
      if (outcome[0].status === 'rejected') throw outcome[0].reason
      return outcome[0].value
    },

    intend: async (shares, to) => {
      // The share gets the next epoch at its new owner, which must not be before the one that the new owner has.
      await durably(
        `UPDATE ${schema}.shares s SET next = $3, epoch = greatest(s.epoch, given.epoch - 1)
         FROM unnest($1::int[], $2::bigint[]) AS given (share, epoch)
         WHERE s.share = given.share AND server <> $3 AND next IS NULL`,
        [...epochs(shares), to],
      )
    },

    grant: async (shares) => {
      await durably(
        `INSERT INTO ${schema}.own_shares AS o SELECT * FROM unnest($1::int[], $2::bigint[])
         ON CONFLICT (share) DO UPDATE SET epoch = excluded.epoch WHERE o.epoch < excluded.epoch`,
        epochs(shares),
      )
    },

    owned: (shares) =>
      query<OwnShare>(
        `SELECT share, epoch FROM ${schema}.own_shares WHERE share = ANY ($1::int[])`,
        [shares],
      ),

    giveUp: async (shares) => {
      const text = `
        UPDATE ${schema}.shares SET next = NULL WHERE (share, epoch) IN (SELECT * FROM unnest($1::int[], $2::bigint[]))`
      await durably(text, epochs(shares))
    },

    withdraw: (shares) =>
      transact(async (inside) => {
        await inside(`LOCK TABLE ${schema}.own_shares IN ACCESS EXCLUSIVE MODE`)
        await inside(
          `DELETE FROM ${schema}.own_shares o USING unnest($1::int[], $2::bigint[]) AS given (share, epoch)
           WHERE o.share = given.share AND o.epoch <= given.epoch`,
          epochs(shares),
        )
      }),

    handOver: async (shares) => {
      await durably(
        `WITH handed AS (
           UPDATE ${schema}.shares s SET server = next, next = NULL, epoch = s.epoch + 1
           FROM (SELECT share, server FROM ${schema}.shares) old
           WHERE old.share = s.share AND next IS NOT NULL AND (s.share, s.epoch) IN (SELECT * FROM unnest($1::int[], $2::bigint[]))
           RETURNING s.share, s.server, old.server AS former
         ), again AS (
           DELETE FROM ${schema}.former_shares f USING handed h WHERE f.share = h.share AND f.server = h.server
         )
         INSERT INTO ${schema}.former_shares (share, server) SELECT share, former FROM handed
         ON CONFLICT (share, server) DO UPDATE SET up_to = NULL`,
        epochs(shares),
      )
    },

    moveSome: async (shares, after, copyIn): Promise<Moved> => {
      const [parked] = await query<{
        looked: number
        last: DeliveryId | null
        own: string[]
        ids: string[]
      }>(park, [now(), after, shares])
      if (!parked) return { moved: 0, held: 0, next: undefined }
      const ids = parked.ids.map(Number)
      const moved = await transact((inside) => moveSlice(inside, ids, copyIn))
      const end = parked.looked === LOOKED_AT ? (parked.last ?? undefined) : undefined
      // Behind a full slice there may be more of what was looked at.
      const next = ids.length === SLICE ? ids.at(-1) : end
      const passed = parked.own.filter((id) => Number(id) <= (next ?? Infinity))
      return { moved, held: passed.length - moved, next }
    },

    finish: async (shares, from, lastId) => {
      const text = `UPDATE ${schema}.former_shares SET up_to = $3 WHERE share = ANY ($1::int[]) AND server = $2 AND up_to IS NULL`
      await durably(text, [shares, from, lastId])
    },

    lastId: async () => {
      const [row] = await query<{ id: DeliveryId }>(`SELECT last_value AS id FROM ${schema}.ids`)
      return row?.id ?? 0
    },

    firstId: async () => {
      const [row] = await query<{ id: DeliveryId | null }>(
        `SELECT min(id) AS id FROM ${schema}.deliveries`,
      )
      return row?.id ?? undefined
    },

    forget: async (from, firstId) => {
      const text = `DELETE FROM ${schema}.former_shares WHERE server = $1 AND up_to < coalesce($2::bigint, up_to + 1)`
      await query(text, [from, firstId ?? null])
    },
  }
}
