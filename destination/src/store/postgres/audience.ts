import { createHash } from 'node:crypto'
import { memberDelivery } from '../member-message.js'
import { StoreError } from '../store-error.js'
import type { Left, MemberMessage, Sync } from '../store.js'
import { fromStored, toStored } from '../text.js'
import { BULK } from '../states.js'
import { numbersOf, type NameList } from './names.js'
import { NOW, type Tables } from './tables.js'

/** The lowest UUID: the first page starts after it. */
const FIRST_KEY = '00000000-0000-0000-0000-000000000000'

interface Changed {
  /** 1 if the sync is the newest of its audience; else 0, and then nothing was changed. */
  audiences: number
  changed: number
}

/**
 * Keeps the members of audiences, and puts the messages about users who join and leave. Workers are not notified of
 * these messages: they find them when they look for due retries, once a second.
 */
export function prepareAudience({ query, schema, names, now }: Tables) {
  const begin = `
    INSERT INTO ${schema}.audiences AS a (name, sync) VALUES ($1, 1)
    ON CONFLICT (name) DO UPDATE SET sync = a.sync + 1 RETURNING sync AS number`
  const page = `
    SELECT key, user_id AS user, sync FROM ${schema}.members
    WHERE audience = (SELECT id FROM ${schema}.audiences WHERE name = $1) AND key > $2::uuid ORDER BY key LIMIT $3`

  /**
   * The statement that changes members and puts the messages about them. Its lock on the audience makes the start of a
   * newer sync wait until it ends.
   *
   * @param change - A common table expression `changed` with the keys of the members that it changes.
   */
  const tell = (change: string): string => `
    WITH ${numbersOf(schema, '$5')}, audience AS MATERIALIZED (
      SELECT id FROM ${schema}.audiences WHERE name = $2 AND sync = $3 FOR SHARE
    ), given AS MATERIALIZED (
      SELECT * FROM json_to_recordset($4::json) AS g (key uuid, user_id text, told json)
    ), ${change}, told AS MATERIALIZED (
      SELECT nextval('${schema}.ids') AS id, user_id, message_id, ids[source_n] AS source,
        ids[destination_n] AS destination, ids[type_n] AS type, body
      FROM changed JOIN given USING (key) CROSS JOIN LATERAL json_to_recordset(told)
        AS t (message_id text, source_n int, destination_n int, type_n int, body text) CROSS JOIN numbers
    ), added AS (
      INSERT INTO ${schema}.deliveries (id, received_at, source, destination, type, message_id, user_id, event, body)
      SELECT id, ${NOW}, source, destination, type, message_id, user_id, '', body FROM told
    ), queued AS (
      INSERT INTO ${schema}.waiting (id, due_at, destination, attempt, state, leased)
      SELECT id, ${NOW}, destination, 0, ${BULK}, false FROM told
    )
    SELECT (SELECT count(*)::int FROM audience) AS audiences, (SELECT count(*)::int FROM changed) AS changed`

  // ON CONFLICT locks an existing row, which sets its xmax. So `xmax = 0` means that the row is new.
  const join = tell(`noted AS (
      INSERT INTO ${schema}.members (audience, key, user_id, sync)
      SELECT id, key, user_id, $3 FROM given CROSS JOIN audience ORDER BY key
      ON CONFLICT (audience, key) DO UPDATE SET sync = excluded.sync RETURNING key, xmax = 0 AS joined
    ), changed AS (SELECT key FROM noted WHERE joined)`)
  const leave = tell(`changed AS (
      DELETE FROM ${schema}.members m USING given, audience
      WHERE m.audience = audience.id AND m.key = given.key AND m.sync <> $3 RETURNING m.key
    )`)

  const change = async (
    statement: string,
    { audience, number }: Sync,
    users: Iterable<string>,
    messages: MemberMessage[],
  ): Promise<number> => {
    const [row] = await names.write<Changed>(statement, (list) => {
      const given = Array.from(users, (user) => ({
        key: keyOf(user),
        user_id: toStored(user),
        told: messages.map((message) => toTold(user, message, list)),
      }))
      return [now(), toStored(audience), number, JSON.stringify(given), list.names]
    })
    if (!row || row.audiences === 0) {
      throw new StoreError(
        'superseded',
        `This list of the audience ${audience} is no longer applied: a newer list has started.`,
      )
    }
    return row.changed
  }

  return {
    begin: async (audience: string): Promise<Sync> => {
      const [row] = await query<{ number: number }>(begin, [toStored(audience)])
      return { audience, number: row?.number ?? 0 }
    },

    join: (sync: Sync, members: string[], messages: MemberMessage[]): Promise<number> =>
      change(join, sync, new Set(members), messages),

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
      const left = await change(leave, sync, users, messages)
      return { left, next: rows.length < limit ? undefined : rows.at(-1)?.key }
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

/** The key of a user in indexes: the first half of the SHA-256 of the id, as a UUID. The id itself may be too long. */
export function keyOf(user: string): string {
  const hash = createHash('sha256').update(toStored(user)).digest('hex')
  return hash.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
