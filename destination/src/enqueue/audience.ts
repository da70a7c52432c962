import { webhookBody } from './webhook-body.js'
import type { Dispatcher } from '../deliver/dispatcher.js'
import type { Destination } from '../settings/settings.js'
import type { AudiencePort, MemberMessage } from '../store/store.js'

/** What a sync of an audience works with. */
export interface AudienceParts {
  store: AudiencePort
  dispatcher: Pick<Dispatcher, 'wake'>
  /** Of the present settings. */
  destinations: () => readonly Destination[]
  /** The time of day: ms since the epoch. */
  now: () => number
}

/** What a sync has changed. */
export interface Synced {
  /** Ids in the list. */
  listed: number
  joined: number
  left: number
}

/**
 * Makes an audience what a list says: an identify goes to every enabled destination for each user who joined or left.
 * Membership and message are one commit, so that whenever it breaks off, what has been done is done, and the same list
 * again does the rest and no more.
 *
 * @param trait - The audience's name in snake_case: what the users get as a trait.
 * @param members - The whole list, in pieces: no more than one of them is held. Nobody leaves before it has ended.
 * @throws StoreError `superseded` if another list of the audience came meanwhile; others if the store can't write; and
 * what `members` throws.
 */
export type SyncAudience = (trait: string, members: AsyncIterable<string[]>) => Promise<Synced>

/** So many members are looked at in one commit. */
const SLICE = 1_000

/** See {@link SyncAudience}. */
export function createSyncAudience(parts: AudienceParts): SyncAudience {
  const { store, dispatcher, now } = parts
  return async (trait, members) => {
    const destinations = parts.destinations().filter(({ enabled }) => enabled)
    const timestamp = new Date(now()).toISOString()
    const messagesOf = (isMember: boolean) =>
      destinations.map(({ name }) => messageFor(trait, isMember, timestamp, name))
    const wakeAll = (changes: number) => {
      if (changes > 0) for (const { name } of destinations) dispatcher.wake(name, 'backlog')
    }

    const sync = await store.beginSync(trait)
    const synced: Synced = { listed: 0, joined: 0, left: 0 }
    const arrivals = messagesOf(true)
    for await (const some of members) {
      const joined = await store.join(sync, some, arrivals)
      wakeAll(joined)
      synced.listed += some.length
      synced.joined += joined
    }
    const departures = messagesOf(false)
    for (let from: string | undefined = ''; from !== undefined;) {
      const { left, next }: Awaited<ReturnType<AudiencePort['leave']>> = await store.leave(
        sync,
        from,
        SLICE,
        departures,
      )
      wakeAll(left)
      synced.left += left
      from = next
    }
    return synced
  }
}

/** Stands for the user's id: no trait has such characters. */
const USER = '<user>'

function messageFor(
  trait: string,
  isMember: boolean,
  timestamp: string,
  destination: string,
): MemberMessage {
  const call = { type: 'identify', messageId: '', timestamp, userId: USER } as const
  const body = webhookBody({ ...call, traits: { [trait]: isMember } })
  const [before = '', after = ''] = body.split(JSON.stringify(USER))
  // No name of the settings has a colon: what the log calls the source can't be one of theirs.
  return { source: `audience:${trait}`, destination, before, after }
}
