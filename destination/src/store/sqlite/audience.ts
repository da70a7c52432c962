import { StoreError } from '../store-error.js'
import { memberDelivery } from '../member-message.js'
import type { AudienceDestination, CaughtUp, Left, MemberMessage, Sync } from '../store.js'
import { fromStored, toStored } from '../text.js'
import type { Shared } from './shared.js'
import type { Put } from './put.js'

interface Member {
  user: string
  sync: number
}

/** A destination that gets messages about an audience: a row of `told`. */
interface Told {
  id: number
  /** The number of its name; `null` if the settings do not have the destination any more. */
  destination: number | null
  upTo: string | null
  hasUntold: number
}

/** A destination that hears of changes, with its message if it is enabled. */
type Listener = Told & { message: MemberMessage | undefined }

/** Keeps the members of audiences, and puts the messages about users who join and leave. */
export function prepareAudience({ database, names }: Shared, put: Put['one']) {
  const begin = database.prepare(
    `INSERT INTO audiences (name, sync) VALUES (?, 1)
     ON CONFLICT (name) DO UPDATE SET sync = sync + 1 RETURNING id, sync AS number`,
  )
  const find = database.prepare('SELECT id FROM audiences WHERE name = ? AND sync = ?')
  const keep = database.prepare('UPDATE members SET sync = ? WHERE audience = ? AND user = ?')
  const add = database.prepare('INSERT INTO members (sync, audience, user) VALUES (?, ?, ?)')
  const after = database.prepare(
    'SELECT user, sync FROM members WHERE audience = ? AND user > ? ORDER BY user LIMIT ?',
  )
  const isMember = database.prepare('SELECT 1 FROM members WHERE audience = ? AND user = ?')
  const remove = database.prepare('DELETE FROM members WHERE audience = ? AND user = ?')

  const toldOf = database.prepare(
    `SELECT id, destination, up_to AS upTo, EXISTS (SELECT 1 FROM untold WHERE told = id) AS hasUntold
     FROM told WHERE audience = ?`,
  )
  // A destination that is new at the first list hears of everyone as they join.
  const introduce = database.prepare(
    `INSERT INTO told (audience, destination, up_to)
     VALUES (?, ?, iif(EXISTS (SELECT 1 FROM members WHERE audience = ?), '', NULL))
     ON CONFLICT DO NOTHING`,
  )
  const dismiss = database.prepare('UPDATE told SET destination = NULL WHERE id = ?')
  const dismissAll = database.prepare(
    'UPDATE told SET destination = NULL WHERE destination IN (SELECT value FROM json_each(?))',
  )
  const forget = database.prepare('DELETE FROM told WHERE id = ?')
  const tellUpTo = database.prepare('UPDATE told SET up_to = ? WHERE id = ?')
  const untoldOf = database.prepare('SELECT user FROM untold WHERE told = ? LIMIT ?')
  const miss = database.prepare('INSERT INTO untold (told, user) VALUES (?, ?)')
  const unmiss = database.prepare('DELETE FROM untold WHERE told = ? AND user = ?')

  const audienceOf = ({ audience, number }: Sync): number => {
    const row = find.get(toStored(audience), number) as { id: number } | undefined
    if (row) return row.id
    throw new StoreError(
      'superseded',
      `This list of the audience ${audience} is no longer applied: a newer list has started.`,
    )
  }

  const listenersOf = (audience: number, messages: readonly MemberMessage[]): Listener[] => {
    const byNumber = new Map(
      messages.map((message) => [names.number(message.destination), message]),
    )
    return (toldOf.all(audience) as unknown as Told[]).map((told) => ({
      ...told,
      message: byNumber.get(told.destination ?? 0),
    }))
  }

  /** Tells of one change. A destination that was not told of the opposite change before knows the result already. */
  const tell = (listeners: readonly Listener[], stored: string, now: number): void => {
    const user = fromStored(stored)
    for (const { id, destination, upTo, hasUntold, message } of listeners) {
      if (destination === null || (upTo !== null && compare(stored, upTo) > 0)) continue
      if (hasUntold && unmiss.run(id, stored) > 0) continue
      if (message) put(memberDelivery(user, message, now), now)
      else miss.run(id, stored)
    }
  }

  /** Tells a new destination of the next members. */
  const tellMembers = (
    audience: number,
    { id, upTo, message }: Listener & { message: MemberMessage },
    limit: number,
    now: number,
  ): number => {
    const rows = after.all(audience, upTo ?? '', limit) as unknown as Member[]
    for (const { user } of rows) put(memberDelivery(fromStored(user), message, now), now)
    tellUpTo.run(rows.length < limit ? null : (rows.at(-1)?.user ?? null), id)
    return rows.length
  }

  return {
    begin: (name: string, destinations: readonly AudienceDestination[]): Sync => {
      const { id, number } = begin.get(toStored(name)) as { id: number; number: number }
      const known = new Set(destinations.map((destination) => names.number(destination.name)))
      for (const told of toldOf.all(id) as unknown as Told[]) {
        if (told.destination !== null && !known.has(told.destination)) dismiss.run(told.id)
      }
      for (const destination of destinations) {
        if (destination.enabled) introduce.run(id, names.number(destination.name), id)
      }
      return { audience: name, number }
    },

    join: (
      sync: Sync,
      members: readonly string[],
      messages: readonly MemberMessage[],
      now: number,
    ) => {
      const audience = audienceOf(sync)
      const listeners = listenersOf(audience, messages)
      let joined = 0
      for (const user of members) {
        const stored = toStored(user)
        if (keep.run(sync.number, audience, stored) > 0) continue
        add.run(sync.number, audience, stored)
        tell(listeners, stored, now)
        joined++
      }
      return joined
    },

    leave: (
      sync: Sync,
      from: string,
      limit: number,
      messages: readonly MemberMessage[],
      now: number,
    ): Left => {
      const audience = audienceOf(sync)
      const listeners = listenersOf(audience, messages)
      const rows = after.all(audience, toStored(from), limit) as unknown as Member[]
      const gone = rows.filter((row) => row.sync !== sync.number)
      for (const { user } of gone) {
        remove.run(audience, user)
        tell(listeners, user, now)
      }
      const last = rows.length < limit ? undefined : rows.at(-1)
      return { left: gone.length, next: last && fromStored(last.user) }
    },

    catchUp: (
      sync: Sync,
      limit: number,
      arrivals: readonly MemberMessage[],
      departures: readonly MemberMessage[],
      now: number,
    ): CaughtUp => {
      const audience = audienceOf(sync)
      for (const listener of listenersOf(audience, arrivals)) {
        const { id, destination, upTo, hasUntold, message } = listener
        if (destination !== null && !message) continue
        if (hasUntold) {
          const users = untoldOf.all(id, limit) as { user: string }[]
          const departure = message && departures[arrivals.indexOf(message)]
          for (const { user } of users) {
            unmiss.run(id, user)
            const change = isMember.get(audience, user) ? message : departure
            if (change) put(memberDelivery(fromStored(user), change, now), now)
          }
          return { caughtUp: message ? users.length : 0, isDone: false }
        }
        if (!message) forget.run(id)
        else if (upTo !== null) {
          const caughtUp = tellMembers(audience, { ...listener, message }, limit, now)
          return { caughtUp, isDone: false }
        }
      }
      return { caughtUp: 0, isDone: true }
    },

    forgetDestinations: (destinations: readonly string[]): void => {
      const numbers = destinations.flatMap((name) => names.find(name) ?? [])
      dismissAll.run(JSON.stringify(numbers))
    },
  }
}

/** Compares two texts in the order of the tables, which is the order of their bytes in UTF-8. */
function compare(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
