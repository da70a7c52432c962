import { StoreError } from '../store-error.js'
import { memberDelivery } from '../member-message.js'
import type { Left, MemberMessage, Sync } from '../store.js'
import { fromStored, toStored } from '../text.js'
import type { Shared } from './shared.js'
import type { preparePut } from './put.js'

interface Member {
  user: string
  sync: number
}

/** Keeps the members of audiences, and puts the messages about users who join and leave. */
export function prepareAudience({ database }: Shared, put: ReturnType<typeof preparePut>) {
  const begin = database.prepare(
    `INSERT INTO audiences (name, sync) VALUES (?, 1)
     ON CONFLICT (name) DO UPDATE SET sync = sync + 1 RETURNING sync AS number`,
  )
  const find = database.prepare('SELECT id FROM audiences WHERE name = ? AND sync = ?')
  const keep = database.prepare('UPDATE members SET sync = ? WHERE audience = ? AND user = ?')
  const add = database.prepare('INSERT INTO members (sync, audience, user) VALUES (?, ?, ?)')
  const after = database.prepare(
    'SELECT user, sync FROM members WHERE audience = ? AND user > ? ORDER BY user LIMIT ?',
  )
  const remove = database.prepare('DELETE FROM members WHERE audience = ? AND user = ?')

  const audienceOf = ({ audience, number }: Sync): number => {
    const row = find.get(toStored(audience), number) as { id: number } | undefined
    if (row) return row.id
    throw new StoreError(
      'superseded',
      `This list of the audience ${audience} is no longer applied: a newer list has started.`,
    )
  }

  const notify = (user: string, messages: readonly MemberMessage[], now: number): void => {
    for (const message of messages) put(memberDelivery(user, message, now), now)
  }

  return {
    begin: (audience: string): Sync => {
      const { number } = begin.get(toStored(audience)) as { number: number }
      return { audience, number }
    },

    join: (
      sync: Sync,
      members: readonly string[],
      messages: readonly MemberMessage[],
      now: number,
    ) => {
      const audience = audienceOf(sync)
      let joined = 0
      for (const user of members) {
        const stored = toStored(user)
        if (keep.run(sync.number, audience, stored) > 0) continue
        add.run(sync.number, audience, stored)
        notify(user, messages, now)
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
      const rows = after.all(audience, toStored(from), limit) as Member[]
      const gone = rows.filter((row) => row.sync !== sync.number)
      for (const { user } of gone) {
        remove.run(audience, user)
        notify(fromStored(user), messages, now)
      }
      const last = rows.length < limit ? undefined : rows.at(-1)
      return { left: gone.length, next: last && fromStored(last.user) }
    },
  }
}
