import type { DeliveryId } from '../../model/delivery.js'
import { BACKLOG } from '../states.js'
import { toStored } from '../text.js'
import type { Tables } from './tables.js'

/** Deletes messages that wait for a destination. */
export function prepareDiscard({ transact, schema }: Pick<Tables, 'transact' | 'schema'>) {
  const lock = `
    SELECT id FROM ${schema}.waiting
    WHERE destination = (SELECT id FROM ${schema}.names WHERE name = $1) AND state <= ${BACKLOG} AND NOT leased
    ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`
  const remove = `
    WITH waiting AS (
      DELETE FROM ${schema}.waiting WHERE id = ANY ($1::bigint[])
    ), attempts AS (
      DELETE FROM ${schema}.attempts WHERE delivery = ANY ($1::bigint[])
    )
    DELETE FROM ${schema}.deliveries WHERE id = ANY ($1::bigint[])`

  /** The locks come first, in a statement of their own: only a later one sees all attempts that were written before. */
  return (destination: string, limit: number): Promise<number> =>
    transact(async (query) => {
      const rows = await query<{ id: DeliveryId }>(lock, [toStored(destination), limit])
      if (rows.length > 0) await query(remove, [rows.map(({ id }) => id)])
      return rows.length
    })
}
