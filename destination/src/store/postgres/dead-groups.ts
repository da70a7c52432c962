import type { DeadGroups, DeadPlace } from '../../model/delivery.js'
import { groupsOf, type DeadRow } from '../dead-groups.js'
import { DEAD } from '../states.js'
import { toStored } from '../text.js'
import { NOW, type Tables } from './tables.js'

/** Groups dead letters of one destination by their latest outcome and cause, the latest dead letters first. */
export function prepareDeadGroups({ query, schema }: Tables) {
  const read = `
    SELECT w.id, due_at AS "diedAt", reason, codes.name AS "lastCode", status, error AS "lastError",
      response AS "lastResponse"
    FROM (
      SELECT id, due_at, reason FROM ${schema}.waiting
      WHERE destination = (SELECT id FROM ${schema}.names WHERE name = $1) AND state = ${DEAD}
        AND ($2::bigint IS NULL OR (due_at, id) < ($2, $3::bigint))
      ORDER BY due_at DESC, id DESC LIMIT $4
    ) w
      LEFT JOIN LATERAL (
        SELECT code, status, error, response FROM ${schema}.attempts
        WHERE delivery = w.id ORDER BY attempt DESC, post DESC LIMIT 1
      ) a ON true
      LEFT JOIN ${schema}.names codes ON codes.id = code
    ORDER BY due_at DESC, w.id DESC`

  return async (
    destination: string,
    before: DeadPlace | undefined,
    limit: number,
  ): Promise<DeadGroups> => {
    const values = [toStored(destination), before?.diedAt ?? null, before?.id ?? null, limit]
    return groupsOf(destination, await query<DeadRow>(read, values), limit)
  }
}

/** Counts the dead letters of each destination that died within a time. */
export function prepareDeadCounts({ query, schema, now }: Tables) {
  const read = `
    SELECT count FROM unnest($2::text[]) WITH ORDINALITY AS given (name, n)
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS count FROM (
          SELECT FROM ${schema}.waiting
          WHERE destination = (SELECT id FROM ${schema}.names WHERE name = given.name) AND state = ${DEAD}
            AND due_at > ${NOW} - $3::bigint
          LIMIT $4
        ) dead
      ) counted
    ORDER BY n`

  return async (
    destinations: readonly string[],
    withinMs: number,
    most: number,
  ): Promise<number[]> => {
    const values = [now(), destinations.map(toStored), withinMs, most]
    return (await query<{ count: number }>(read, values)).map(({ count }) => count)
  }
}
