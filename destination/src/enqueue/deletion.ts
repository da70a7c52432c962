import { hash, randomUUID } from 'node:crypto'
import { deletionBody } from './webhook-body.js'
import type { Enqueue, Enqueued } from './enqueue.js'
import type { Settings } from '../settings/settings.js'
import type { MaintainPort } from '../store/store.js'

/** What a deletion needs. */
export interface DeletionParts {
  enqueue: Enqueue
  store: Pick<MaintainPort, 'hasUser' | 'purgeUser'>
  /** The current settings. */
  settings: () => Pick<Settings, 'sources' | 'destinations'>
  /** The time of day: ms since the epoch. */
  now: () => number
}

/** The result of a deletion. */
export interface Deleted {
  /** The number of delete messages that were enqueued for destinations. */
  sent: number
  /** The number of stored messages and memberships of the user that were removed. */
  purged: number
}

/**
 * Sends a delete for each source to each of its enabled destinations, and then purges the stored data of the user
 * (spec, "Outbound request", rule 4).
 *
 * A repeated deletion sends nothing, unless data of the user has been stored since. If two are asked for at the same time, the second
 * one waits for the first; in different processes, both may send. A deletion that was interrupted can
 * be repeated. A delete may then be sent twice, but none is lost.
 *
 * @throws StoreError if the store cannot write.
 */
export type DeleteUser = (userId: string) => Promise<Deleted>

/** Creates {@link DeleteUser}. */
export function createDeleteUser({ enqueue, store, settings, now }: DeletionParts): DeleteUser {
  const run = async (userId: string): Promise<Deleted> => {
    // Both rounds have the same destinations in the same order. The settings may change while the store answers.
    const current = settings()
    const deletions = (round: string) => deletionsOf(current, userId, round, now())
    const isNew = await enqueue(deletions(''))
    let sent = isNew.filter(Boolean).length
    if (sent < isNew.length && (await store.hasUser(userId))) {
      const again = deletions(randomUUID()).filter((_, i) => isNew[i] === false)
      sent += (await enqueue(again)).length
    }
    return { sent, purged: await purge(store, userId) }
  }
  /** The last deletion of each user that is under way. Another one of the same user would find what this one has not purged yet. */
  const underWay = new Map<string, Promise<Deleted>>()
  return async (userId) => {
    const before = underWay.get(userId)
    const own = before ? before.catch(() => undefined).then(() => run(userId)) : run(userId)
    underWay.set(userId, own)
    try {
      return await own
    } finally {
      if (underWay.get(userId) === own) underWay.delete(userId)
    }
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

/** @param round - Differs for each deletion of the same user, so that the store does not drop it as a duplicate. */
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
        messageId: deletionId(userId, source, round),
        source,
        destination,
        type: 'delete' as const,
        user: userId,
        body,
      })),
  )
}

/**
 * Makes the message id of a delete. Each source has its own id: receivers would otherwise drop the second delete as a
 * duplicate.
 *
 * The id has 135 characters, and the collector refuses ids of more than 100. A client that knows a user id can therefore
 * not use the id of the delete first, so that the store or a receiver takes the delete for a duplicate.
 */
function deletionId(userId: string, source: string, round: string): string {
  return `delete-${hash('sha512', JSON.stringify([userId, source, round]))}`
}
