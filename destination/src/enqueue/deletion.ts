import { hash, randomUUID } from 'node:crypto'
import { deletionBody } from './webhook-body.js'
import type { Enqueue, Enqueued } from './enqueue.js'
import type { Settings } from '../settings/settings.js'
import type { MaintainPort } from '../store/store.js'

/** What a deletion works with. */
export interface DeletionParts {
  enqueue: Enqueue
  store: Pick<MaintainPort, 'hasUser' | 'purgeUser'>
  /** The settings of the moment. */
  settings: () => Pick<Settings, 'sources' | 'destinations'>
  /** The time of day: ms since the epoch. */
  now: () => number
}

/** What a deletion has done. */
export interface Deleted {
  /** Messages that are on their way to destinations. */
  sent: number
  /** Messages and memberships of the user that were stored, and are no more. */
  purged: number
}

/**
 * Sends a delete for each source to each of its enabled destinations, and then purges what is stored of the user
 * (spec, "Outbound request", rule 4).
 *
 * Asked for again, nothing more is sent, unless something of the user has been stored since. If it breaks off in
 * between, the same again does the rest: then a delete may be sent once more, never none.
 *
 * @throws StoreError if the store can't write.
 */
export type DeleteUser = (userId: string) => Promise<Deleted>

/** See {@link DeleteUser}. */
export function createDeleteUser({ enqueue, store, settings, now }: DeletionParts): DeleteUser {
  return async (userId) => {
    const deletions = (round: string) => deletionsOf(settings(), userId, round, now())
    const isNew = await enqueue(deletions(''))
    let sent = isNew.filter(Boolean).length
    if (sent < isNew.length && (await store.hasUser(userId))) {
      const again = deletions(randomUUID()).filter((_, i) => isNew[i] === false)
      sent += (await enqueue(again)).length
    }
    return { sent, purged: await purge(store, userId) }
  }
}

async function purge(store: Pick<MaintainPort, 'purgeUser'>, userId: string): Promise<number> {
  let all = 0
  for (let from: number | undefined = 0; from !== undefined;) {
    const { purged, next }: Awaited<ReturnType<MaintainPort['purgeUser']>> = await store.purgeUser(
      userId,
      from,
    )
    all += purged
    from = next
  }
  return all
}

/** @param round - What tells a deletion from an earlier one of the same user. */
function deletionsOf(
  { sources, destinations }: Pick<Settings, 'sources' | 'destinations'>,
  userId: string,
  round: string,
  nowMs: number,
): Enqueued[] {
  const body = deletionBody(userId, new Date(nowMs).toISOString())
  const enabled = destinations.filter((destination) => destination.enabled)
  return sources.flatMap(({ name: source }) =>
    enabled
      .filter((destination) => destination.sources.includes(source))
      .map(({ name: destination }) => ({
        // One of its own for each source, by which receivers tell them apart.
        messageId: `delete-${hash('sha256', JSON.stringify([userId, source, round])).slice(0, 32)}`,
        source,
        destination,
        type: 'delete' as const,
        user: userId,
        body,
      })),
  )
}
