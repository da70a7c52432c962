import { createHash } from 'node:crypto'
import { memberDelivery } from '../member-message.js'
import { StoreError } from '../store-error.js'
import type { AudienceDestination, CaughtUp, Left, MemberMessage, Sync } from '../store.js'
import { fromStored, toStored } from '../text.js'
import { BULK } from '../states.js'
import { numbersOf, type NameList } from './names.js'
import { DURABLY, NOW, type Tables } from './tables.js'

/** The lowest UUID: the first page starts after it. */
const FIRST_KEY = '00000000-0000-0000-0000-000000000000'

interface Changed {
  /** 1 if the sync is the newest of its audience; else 0, and then nothing was changed. */
  audiences: number
  changed: number
}

/** A destination that does not know all members, or that the settings do not have any more: a row of `told`. */
interface Told {
  id: number
  /** Its name as it is stored; `null` if the settings do not have the destination any more. */
  destination: string | null
  upTo: string | null
  hasUntold: boolean
}

/** A change of a member, or of a user who was one, and the messages about it. */
interface Change {
  user: string
  messages: readonly MemberMessage[]
}

/**
 * Keeps the members of audiences, and puts the messages about users who join and leave. Workers are not notified of
 * these messages: they find them when they look for due retries, once a second.
 */
export function prepareAudience({ query, transact, schema, names, now }: Tables) {
  const begin = `
    INSERT INTO ${schema}.audiences AS a (name, sync) VALUES ($1, 1)
    ON CONFLICT (name) DO UPDATE SET sync = a.sync + 1 RETURNING id, sync AS number`
  const dismiss = `
    UPDATE ${schema}.told SET destination = NULL
    WHERE audience = $1 AND destination NOT IN (SELECT id FROM ${schema}.names WHERE name = ANY ($2::text[]))`
  const dismissAll = `
    UPDATE ${schema}.told SET destination = NULL
    WHERE destination IN (SELECT id FROM ${schema}.names WHERE name = ANY ($1::text[]))`
  // A destination that is new at the first list hears of everyone as they join.
  const introduce = `
    INSERT INTO ${schema}.told (audience, destination, up_to)
    SELECT $1, id, (SELECT '${FIRST_KEY}'::uuid WHERE EXISTS (SELECT FROM ${schema}.members WHERE audience = $1))
    FROM ${schema}.names WHERE name = ANY ($2::text[]) ON CONFLICT DO NOTHING`
  const page = `
    SELECT key, user_id AS user, sync FROM ${schema}.members
    WHERE audience = (SELECT id FROM ${schema}.audiences WHERE name = $1) AND key > $2::uuid ORDER BY key LIMIT $3`

  /**
   * The statement that changes members and puts the messages about them. Its lock on the audience makes the start of a
   * newer sync wait until it ends.
   *
   * @param change - Common table expressions: `changed` with the keys of the members that it changes, and `due` with the
   * `id` in the table `told`, the `destination` and the `key` of each message.
   */
  const tell = (change: string): string => `
    WITH ${numbersOf(schema, '$5')}, audience AS MATERIALIZED (
      SELECT id FROM ${schema}.audiences WHERE name = $2 AND sync = $3 FOR SHARE
    ), given AS MATERIALIZED (
      SELECT * FROM json_to_recordset($4::json) AS g (key uuid, user_id text, told json)
    ), recipients AS MATERIALIZED (
      SELECT ids[n] AS destination FROM unnest($6::int[]) AS given (n) CROSS JOIN numbers
    ), messages AS MATERIALIZED (
      SELECT key, user_id, message_id, ids[source_n] AS source, ids[destination_n] AS destination, ids[type_n] AS type,
        body
      FROM given CROSS JOIN LATERAL json_to_recordset(told)
        AS t (message_id text, source_n int, destination_n int, type_n int, body text) CROSS JOIN numbers
    ), ${change}, told AS MATERIALIZED (
      SELECT nextval('${schema}.ids') AS id, m.* FROM messages m JOIN due USING (key, destination)
    ), added AS (
      INSERT INTO ${schema}.deliveries (id, received_at, source, destination, type, message_id, user_id, event, body)
      SELECT id, ${NOW}, source, destination, type, message_id, user_id, '', body FROM told
    ), queued AS (
      INSERT INTO ${schema}.waiting (id, due_at, destination, attempt, state, leased, size)
      SELECT id, ${NOW}, destination, 0, ${BULK}, false, octet_length(body) FROM told
    )
    SELECT (SELECT count(*)::int FROM audience) AS audiences, (SELECT count(*)::int FROM changed) AS changed
    WHERE ${DURABLY}`

  /**
   * Decides who is told of `changed`. A destination that was not told of the opposite change before knows the result
   * already. One without a message, which is not among `recipients`, misses the change.
   */
  const listeners = `
    listening AS MATERIALIZED (
      SELECT t.id, destination, key, user_id FROM changed JOIN given USING (key)
      CROSS JOIN audience JOIN ${schema}.told t ON t.audience = audience.id
      WHERE destination IS NOT NULL AND (up_to IS NULL OR key <= up_to)
    ), known AS (
      DELETE FROM ${schema}.untold u USING listening l WHERE u.told = l.id AND u.key = l.key RETURNING l.*
    ), unknown AS MATERIALIZED (
      SELECT * FROM listening EXCEPT SELECT * FROM known
    ), missed AS (
      INSERT INTO ${schema}.untold (told, key, user_id)
      SELECT id, key, user_id FROM unknown WHERE destination NOT IN (SELECT destination FROM recipients)
    ), due AS (SELECT id, destination, key FROM unknown WHERE destination IN (SELECT destination FROM recipients))`

  // ON CONFLICT locks an existing row, which sets its xmax. So `xmax = 0` means that the row is new.
  const join = tell(`noted AS (
      INSERT INTO ${schema}.members (audience, key, user_id, sync)
      SELECT id, key, user_id, $3 FROM given CROSS JOIN audience ORDER BY key
      ON CONFLICT (audience, key) DO UPDATE SET sync = excluded.sync RETURNING key, xmax = 0 AS joined
    ), changed AS (SELECT key FROM noted WHERE joined), ${listeners}`)
  const leave = tell(`changed AS (
      DELETE FROM ${schema}.members m USING given, audience
      WHERE m.audience = audience.id AND m.key = given.key AND m.sync <> $3 RETURNING m.key
    ), ${listeners}`)

  const behind = `
    SELECT t.id, n.name AS destination, up_to AS "upTo",
      EXISTS (SELECT FROM ${schema}.untold WHERE told = t.id) AS "hasUntold"
    FROM ${schema}.told t LEFT JOIN ${schema}.names n ON n.id = t.destination
    WHERE audience = (SELECT id FROM ${schema}.audiences WHERE name = $1)
      AND (destination IS NULL OR up_to IS NOT NULL OR EXISTS (SELECT FROM ${schema}.untold WHERE told = t.id))
    ORDER BY t.id`
  const missedPage = `
    SELECT key, user_id AS user, EXISTS (
      SELECT FROM ${schema}.members m WHERE m.audience = t.audience AND m.key = u.key
    ) AS "isMember"
    FROM ${schema}.untold u JOIN ${schema}.told t ON t.id = told WHERE told = $1 ORDER BY key LIMIT $2`
  const tellMissed = tell(`changed AS (
      DELETE FROM ${schema}.untold u USING given, audience WHERE u.told = $7 AND u.key = given.key RETURNING u.key
    ), due AS (SELECT $7::int AS id, d.destination, key FROM changed CROSS JOIN recipients d)`)
  const tellMembers = tell(`changed AS (
      SELECT m.key FROM ${schema}.members m JOIN given USING (key) JOIN audience ON m.audience = audience.id
    ), moved AS (
      UPDATE ${schema}.told t SET up_to = $8::uuid FROM audience WHERE t.id = $7
    ), due AS (SELECT $7::int AS id, d.destination, key FROM changed CROSS JOIN recipients d)`)
  const forgetMissed = `
    DELETE FROM ${schema}.untold WHERE told = $1 AND key IN (
      SELECT key FROM ${schema}.untold WHERE told = $1 ORDER BY key LIMIT $2
    )`
  const forget = `DELETE FROM ${schema}.told WHERE id = $1 AND destination IS NULL`

  const change = async (
    statement: string,
    { audience, number }: Sync,
    changes: readonly Change[],
    destinations: readonly string[],
    more: unknown[] = [],
  ): Promise<number> => {
    // A name without a number would silently be no recipient.
    await names.ensure(destinations.map(toStored))
    const [row] = await names.write<Changed>(statement, (list) => {
      const given = changes.map(({ user, messages }) => ({
        key: keyOf(user),
        user_id: toStored(user),
        told: messages.map((message) => toTold(user, message, list)),
      }))
      const positions = destinations.map((destination) => list.position(destination))
      const values = [now(), toStored(audience), number, JSON.stringify(given)]
      return [...values, String(list), positions, ...more]
    })
    if (!row || row.audiences === 0) {
      throw new StoreError(
        'superseded',
        `This list of the audience ${audience} is no longer applied: a newer list has started.`,
      )
    }
    return row.changed
  }

  const changeAll = (
    statement: string,
    sync: Sync,
    users: Iterable<string>,
    messages: MemberMessage[],
  ): Promise<number> => {
    const changes = Array.from(users, (user) => ({ user, messages }))
    return change(statement, sync, changes, destinationsOf(messages))
  }

  /** Tells a destination of the next changes that it missed. */
  const catchUpMissed = async (
    sync: Sync,
    { id }: Told,
    limit: number,
    [arrival, departure]: readonly [MemberMessage, MemberMessage],
  ): Promise<number> => {
    const rows = await query<{ user: string; isMember: boolean }>(missedPage, [id, limit])
    const changes = rows.map(({ user, isMember }) => ({
      user: fromStored(user),
      messages: [isMember ? arrival : departure],
    }))
    return change(tellMissed, sync, changes, [arrival.destination], [id])
  }

  /** Tells a new destination of the next members. */
  const catchUpMembers = async (
    sync: Sync,
    { id, upTo }: Told,
    limit: number,
    arrival: MemberMessage,
  ): Promise<number> => {
    const rows = await query<{ key: string; user: string }>(page, [
      toStored(sync.audience),
      upTo,
      limit,
    ])
    const changes = rows.map(({ user }) => ({ user: fromStored(user), messages: [arrival] }))
    const next = rows.length < limit ? null : rows.at(-1)?.key
    return change(tellMembers, sync, changes, [arrival.destination], [id, next])
  }

  return {
    begin: async (
      audience: string,
      destinations: readonly AudienceDestination[],
    ): Promise<Sync> => {
      const stored = (all: readonly AudienceDestination[]) => all.map(({ name }) => toStored(name))
      await names.ensure(stored(destinations))
      return await transact(async (run) => {
        const [row] = await run<{ id: number; number: number }>(begin, [toStored(audience)])
        await run(dismiss, [row?.id, stored(destinations)])
        await run(introduce, [row?.id, stored(destinations.filter(({ enabled }) => enabled))])
        return { audience, number: row?.number ?? 0 }
      })
    },

    join: (sync: Sync, members: string[], messages: MemberMessage[]): Promise<number> =>
      changeAll(join, sync, new Set(members), messages),

    leave: async (
      sync: Sync,
      from: string,
      limit: number,
      messages: MemberMessage[],
    ): Promise<Left> => {
      const rows = await query<{ key: string; user: string; sync: number }>(page, [
        toStored(sync.audience),
        from || FIRST_KEY,
        limit,
      ])
      const gone = rows.filter((row) => row.sync !== sync.number)
      const users = gone.map(({ user }) => fromStored(user))
      const left = await changeAll(leave, sync, users, messages)
      return { left, next: rows.length < limit ? undefined : rows.at(-1)?.key }
    },

    catchUp: async (
      sync: Sync,
      limit: number,
      arrivals: MemberMessage[],
      departures: MemberMessage[],
    ): Promise<CaughtUp> => {
      for (const told of await query<Told>(behind, [toStored(sync.audience)])) {
        const { id, destination, hasUntold } = told
        if (destination === null) {
          await query(hasUntold ? forgetMissed : forget, hasUntold ? [id, limit] : [id])
          return { caughtUp: 0, isDone: false }
        }
        const at = arrivals.findIndex((message) => toStored(message.destination) === destination)
        const arrival = arrivals[at]
        const departure = departures[at]
        if (!arrival || !departure) continue
        const caughtUp = hasUntold
          ? await catchUpMissed(sync, told, limit, [arrival, departure])
          : await catchUpMembers(sync, told, limit, arrival)
        return { caughtUp, isDone: false }
      }
      return { caughtUp: 0, isDone: true }
    },

    forgetDestinations: async (destinations: readonly string[]): Promise<void> => {
      await query(dismissAll, [destinations.map(toStored)])
    },
  }
}

function toTold(user: string, message: MemberMessage, list: NameList) {
  const { messageId, source, destination, type, body } = memberDelivery(user, message, Date.now())
  return {
    message_id: messageId,
    source_n: list.position(source),
    destination_n: list.position(destination),
    type_n: list.position(type),
    body: toStored(body),
  }
}

function destinationsOf(messages: readonly MemberMessage[]): string[] {
  return messages.map(({ destination }) => destination)
}

/** The key of a user in indexes: the first half of the SHA-256 of the id, as a UUID. The id itself may be too long. */
export function keyOf(user: string): string {
  const hash = createHash('sha256').update(toStored(user)).digest('hex')
  return hash.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
