import type { DeliveryId, NewDelivery } from '../../model/delivery.js'
import type { OwnShare } from '../servers.js'
import { LEASE_MS } from '../store.js'
import { toStored } from '../text.js'
import { SKIPPED } from '../states.js'
import { storedState } from './states.js'
import { numbersOf, type NameList } from './names.js'
import { hasAllShares, hasNoShares, notAlone, othersOf } from './shares.js'
import { DURABLY, LOGGED, NOW, type Tables } from './tables.js'

interface Row {
  id: DeliveryId
  added: boolean
}

/** A delivery for a share that must be this server's own. */
export interface OwnDelivery extends OwnShare {
  delivery: NewDelivery
}

/**
 * Adds deliveries and returns their ids; `undefined` for a delivery that the store already has. It adds nothing once other servers have
 * a part of the store, because this process does not know them. The statement itself finds that out.
 *
 * The deliveries are sent as one JSON text, which costs the driver and the server a third of the time that arrays cost.
 * All processes insert in the order of message ids: otherwise two that put the same messages could deadlock.
 */
export function preparePut({ query, schema, names, now }: Tables) {
  // A statement can't name tables that may not exist. So the first one stores nothing once the tables of the shares exist.
  let put = statement(schema, { condition: hasNoShares(schema) })
  const ofHome = statement(schema, { condition: hasAllShares(schema) })

  const tryPut = (deliveries: NewDelivery[]): Promise<Row[]> =>
    names.write<Row>(put, (list) => {
      const given = deliveries.map((delivery) => toGiven(delivery, list))
      return [now(), JSON.stringify(given), String(list)]
    })

  return async (deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]> => {
    for (;;) {
      const rows = await tryPut(deliveries)
      if (rows.length > 0)
        return deliveries.map((_, i) => (rows[i]?.added ? rows[i].id : undefined))
      const others = await othersOf({ query }, schema)
      if (others) throw notAlone(others)
      put = ofHome
    }
  }
}

/**
 * As {@link preparePut}, but adds only deliveries of shares that are this server's own. For the others it returns `null`.
 */
export function preparePutOwn({ schema, names, now }: Tables) {
  const put = statement(schema, {
    own: {
      columns: ', share smallint, epoch bigint',
      isOwn: `(share, epoch) IN (SELECT share, epoch FROM ${schema}.own_shares)`,
    },
  })

  return async (given: OwnDelivery[]): Promise<(DeliveryId | undefined | null)[]> => {
    const rows = await names.write<Row & { own: boolean }>(put, (list) => {
      const rows = given.map(({ delivery, share, epoch }) => ({
        ...toGiven(delivery, list),
        share,
        epoch,
      }))
      return [now(), JSON.stringify(rows), String(list)]
    })
    return given.map((_, i) => (rows[i]?.added ? rows[i].id : rows[i]?.own ? undefined : null))
  }
}

interface StatementOptions {
  /** Whether anything may be stored. If it is false, the statement stores and returns nothing. It is evaluated once. */
  condition?: string
  /** Which deliveries are added, and what is given to find that out. Without it, all are added. */
  own?: { columns: string; isOwn: string }
}

/**
 * A round of only deliveries that the store already has waits for the standby, too; see {@link LOGGED}.
 */
function statement(schema: string, { condition, own }: StatementOptions): string {
  return `
    WITH ${numbersOf(schema, '$3')}, given AS MATERIALIZED (
      SELECT nextval('${schema}.ids') AS id, g.*, ids[source_n] AS source, ids[destination_n] AS destination,
        ids[type_n] AS type${own ? `, ${own.isOwn} AS own` : ''}
      FROM json_to_recordset($2::json) AS g (message_id text, source_n int, destination_n int, type_n int, user_id text,
        event text, trace_parent text, body text, state smallint, leased boolean, reason text${own?.columns ?? ''}) CROSS JOIN numbers
      ${condition === undefined ? '' : `WHERE (SELECT ${condition})`}
    ), added AS (
      INSERT INTO ${schema}.deliveries (id, received_at, source, destination, type, message_id, user_id, event,
        trace_parent, body)
      SELECT id, ${NOW}, source, destination, type, message_id, user_id, event, trace_parent, body FROM given
      ${own ? 'WHERE own' : ''}
      ORDER BY message_id COLLATE "C", source, destination, id
      ON CONFLICT (message_id, source, destination) DO NOTHING RETURNING id, received_at
    ), queued AS (
      INSERT INTO ${schema}.waiting (id, due_at, first_attempt_at, attempt_at, destination, attempt, state, leased,
        size)
      SELECT id, CASE WHEN leased THEN received_at + ${LEASE_MS} ELSE received_at END,
        CASE WHEN leased THEN received_at END, CASE WHEN leased THEN received_at END,
        destination, leased::int, state, leased, octet_length(body)
      FROM added JOIN given USING (id) WHERE state <> ${SKIPPED}
    ), skipped AS (
      INSERT INTO ${schema}.done (id, attempt, state, reason)
      SELECT id, 0, state, reason FROM added JOIN given USING (id) WHERE state = ${SKIPPED}
    ), known AS (
      SELECT ${LOGGED} AS position WHERE NOT EXISTS (SELECT FROM added)
    )
    SELECT given.id, added.id IS NOT NULL AS added${own ? ', own' : ''}
    FROM given LEFT JOIN added USING (id) LEFT JOIN known ON position IS NULL
    WHERE ${DURABLY} ORDER BY given.id`
}

function toGiven(delivery: NewDelivery, list: NameList) {
  const { messageId, source, destination, type, user, event, traceParent, body, state, reason } =
    delivery
  return {
    message_id: toStored(messageId),
    source_n: list.position(source),
    destination_n: list.position(destination),
    type_n: list.position(type),
    user_id: toStored(user),
    event: toStored(event ?? ''),
    trace_parent: traceParent,
    body: toStored(body),
    state: storedState(state),
    leased: state === 'leased',
    reason: reason === undefined ? undefined : toStored(reason),
  }
}
