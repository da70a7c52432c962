import type { DeliveryId } from '../../model/delivery.js'
import type { PurgedPart } from '../store.js'
import { fromOf, purgePage, PURGE_LIMIT, type Bounds } from '../purge-pages.js'
import { toStored } from '../text.js'
import { keyOf } from './audience.js'
import { DURABLY, LOGGED, type Tables } from './tables.js'

/** Finds out which deliveries are not stored any more. Each is looked up by its key, whatever the planner knows of the table. */
export function prepareGone({ query, schema }: Tables) {
  const find = `
    SELECT id FROM unnest($1::bigint[]) AS given (id)
    WHERE (SELECT 1 FROM ${schema}.deliveries d WHERE d.id = given.id LIMIT 1) IS NULL`

  return async (ids: readonly DeliveryId[]): Promise<DeliveryId[]> =>
    (await query<{ id: DeliveryId }>(find, [ids])).map(({ id }) => id)
}

/** Deletes what is stored of a user, except `delete` messages: they still have to be sent. */
export function preparePurge({ query, transact, schema }: Tables) {
  const bounds = `SELECT min(id) >> 12 AS first, max(id) >> 12 AS last FROM ${schema}.deliveries`
  const ofCut = `
    SELECT id FROM ${schema}.deliveries
    WHERE id >> 12 = cut AND hashtextextended(user_id, 0) = hashtextextended($1, 0) AND user_id = $1
      AND type IS DISTINCT FROM (SELECT id FROM ${schema}.names WHERE name = $2)`
  const isStored = `
    SELECT EXISTS (
      SELECT FROM ${schema}.audiences JOIN ${schema}.members ON audience = id AND key = $3::uuid
    ) OR EXISTS (
      SELECT FROM ${schema}.told JOIN ${schema}.untold ON told = id AND key = $3::uuid
    ) OR EXISTS (
      SELECT FROM (${bounds}) ends CROSS JOIN generate_series(last, first, -1) AS cut
      WHERE EXISTS (${ofCut})
    ) AS stored`
  const removeMemberships = `
    WITH gone AS (
      DELETE FROM ${schema}.members USING ${schema}.audiences
      WHERE audience = audiences.id AND key = $1::uuid RETURNING 1
    ), forgotten AS (
      DELETE FROM ${schema}.untold USING ${schema}.told WHERE told = told.id AND key = $1::uuid
    )
    SELECT count(*)::int AS count FROM gone`
  // It passes over what others have locked, because waiting while one holds locks can lead to a deadlock. A delivery that is
  // moving from one table to the other is locked in the one, or cannot be seen yet in the other: it is passed over, too.
  const lock = `
    WITH chosen AS MATERIALIZED (
      SELECT of_cut.id FROM generate_series($3::bigint, $4::bigint) AS cut CROSS JOIN LATERAL (${ofCut}) of_cut
      LIMIT ${PURGE_LIMIT}
    ), own AS MATERIALIZED (
      SELECT id FROM ${schema}.deliveries WHERE id = ANY (ARRAY (SELECT id FROM chosen)) FOR UPDATE SKIP LOCKED
    ), waiting AS MATERIALIZED (
      SELECT id, leased FROM ${schema}.waiting WHERE id = ANY (ARRAY (SELECT id FROM own)) FOR UPDATE SKIP LOCKED
    ), done AS MATERIALIZED (
      SELECT id FROM ${schema}.done WHERE id = ANY (ARRAY (SELECT id FROM own)) FOR UPDATE SKIP LOCKED
    )
    SELECT id, id IN (SELECT id FROM own) AND (id IN (SELECT id FROM waiting UNION ALL SELECT id FROM done) OR NOT EXISTS (
      SELECT 1 FROM ${schema}.waiting w WHERE w.id = chosen.id
      UNION ALL SELECT 1 FROM ${schema}.done f WHERE f.id = chosen.id
    )) AS locked, id IN (SELECT id FROM waiting WHERE leased) AS leased
    FROM chosen`
  const awaited = ['waiting', 'done', 'deliveries'].map(
    (table) => `SELECT FROM ${schema}.${table} WHERE id = $1 FOR UPDATE`,
  )
  const remove = `
    WITH waiting AS (
      DELETE FROM ${schema}.waiting WHERE id = ANY ($1::bigint[])
    ), done AS (
      DELETE FROM ${schema}.done WHERE id = ANY ($1::bigint[])
    ), attempts AS (
      DELETE FROM ${schema}.attempts WHERE delivery = ANY ($1::bigint[])
    )
    DELETE FROM ${schema}.deliveries WHERE id = ANY ($1::bigint[])`

  /**
   * Removes up to {@link PURGE_LIMIT} of a user's deliveries. The locks come first, in a statement of their own: only a
   * later statement sees the attempts that were written before the locks were free.
   *
   * @returns how many it removed, which of them were leased, the first of those that others have locked, and whether all there are
   * were removed.
   */
  const removeSome = (values: unknown[]) =>
    transact(async (query) => {
      const chosen = await query<{ id: DeliveryId; locked: boolean; leased: boolean }>(lock, values)
      const own = chosen.filter(({ locked }) => locked)
      const ids = own.map(({ id }) => id)
      await query(remove, [ids])
      return {
        removed: ids.length,
        leased: own.filter(({ leased }) => leased).map(({ id }) => id),
        left: chosen.find(({ locked }) => !locked)?.id,
        isAll: chosen.length < PURGE_LIMIT && ids.length === chosen.length,
      }
    })

  /** Waits until nobody has locked a delivery. Each statement is a transaction of its own, which holds no other lock. */
  const untilFree = async (id: DeliveryId): Promise<void> => {
    for (const statement of awaited) await query(statement, [id])
  }

  const count = async (statement: string, values: unknown[]): Promise<number> => {
    const [row] = await query<{ count: number }>(statement, values)
    return row?.count ?? 0
  }

  return {
    has: async (user: string): Promise<boolean> => {
      const values = [toStored(user), 'delete', keyOf(user)]
      const [row] = await query<{ stored: boolean }>(isStored, values)
      return row?.stored ?? false
    },

    purge: async (user: string, from: number): Promise<PurgedPart> => {
      let purged = from === 0 ? await count(removeMemberships, [keyOf(user)]) : 0
      const [ends] = await query<Bounds>(bounds)
      const page = purgePage(from, ends ?? { first: null, last: null })
      if (!page) return { purged, next: undefined, leased: [] }
      const { start, end, next } = page
      const values = [toStored(user), 'delete', start, end]
      const { removed, leased, left, isAll } = await removeSome(values)
      purged += removed
      if (left !== undefined) await untilFree(left)
      return { purged, next: isAll ? next : fromOf(start), leased }
    },

    /** Waits until the purge is on the standby, also if it found nothing because an interrupted one had deleted all. */
    finish: async (): Promise<void> => {
      await query(`SELECT ${LOGGED} WHERE ${DURABLY}`)
    },
  }
}
