import { webhookBody } from './webhook-body.js'
import type { Dispatcher } from '../deliver/dispatcher.js'
import type { Destination } from '../settings/settings.js'
import type { AudiencePort, MemberMessage } from '../store/store.js'

/** What a sync of an audience needs. */
export interface AudienceParts {
  store: AudiencePort
  dispatcher: Pick<Dispatcher, 'wake'>
  /** The destinations of the current settings. */
  destinations: () => readonly Destination[]
  /** The time of day: ms since the epoch. */
  now: () => number
}

/** The result of a sync. */
export interface Synced {
  /** The number of ids in the list. */
  listed: number
  /** The number of users who joined the audience. */
  joined: number
  /** The number of users who left the audience. */
  left: number
  /** The number of messages to destinations that were new or not enabled before. Left out if there is none. */
  caughtUp?: number
}

/**
 * Replaces the members of an audience by those of a list. For each user who joins or leaves, every enabled destination
 * that belongs to no tenant gets an identify. A membership and its messages are stored in one commit. A sync that is interrupted can therefore be
 * repeated with the same list: it sends only the messages that are missing.
 *
 * A destination that was not enabled during earlier syncs, or belonged to a tenant, is told at the end of what it missed, and a
 * new one of everyone.
 *
 * @param trait - The name of the audience in snake_case, which is the trait of its users.
 * @param members - The whole list, in pieces. Memory holds one piece at a time. No user leaves before the list has ended.
 * @throws StoreError `superseded` if a newer list of the audience has arrived, and other codes if the store cannot
 * write. Errors of `members` are passed on.
 */
export type SyncAudience = (trait: string, members: AsyncIterable<string[]>) => Promise<Synced>

/** The most members that one commit examines. A small commit does not keep other writers waiting. */
const SLICE = 1_000

/** Creates {@link SyncAudience}. */
export function createSyncAudience(parts: AudienceParts): SyncAudience {
  const { store, dispatcher, now } = parts
  return async (trait, members) => {
    const all = parts.destinations().map((one) => ({ name: one.name, enabled: getsLists(one) }))
    const told = new Set(all.filter(({ enabled }) => enabled).map(({ name }) => name))
    const timestamp = new Date(now()).toISOString()
    // A list may take long, and a destination may be given to a tenant meanwhile. So each step asks for the present settings.
    const messagesOf = (isMember: boolean) =>
      parts
        .destinations()
        .filter((one) => told.has(one.name) && getsLists(one))
        .map(({ name }) => messageFor(trait, isMember, timestamp, name))
    const wakeAll = (changes: number) => {
      if (changes > 0) for (const name of told) dispatcher.wake(name, 'bulk')
    }

    const sync = await store.beginSync(trait, all)
    const synced: Synced = { listed: 0, joined: 0, left: 0 }
    for await (const some of members) {
      const joined = await store.join(sync, some, messagesOf(true))
      wakeAll(joined)
      synced.listed += some.length
      synced.joined += joined
    }
    for (let from: string | undefined = ''; from !== undefined;) {
      const { left, next }: Awaited<ReturnType<AudiencePort['leave']>> = await store.leave(
        sync,
        from,
        SLICE,
        messagesOf(false),
      )
      wakeAll(left)
      synced.left += left
      from = next
    }
    let caughtUp = 0
    for (let isDone = false; !isDone;) {
      const page = await store.catchUp(sync, SLICE, messagesOf(true), messagesOf(false))
      wakeAll(page.caughtUp)
      caughtUp += page.caughtUp
      isDone = page.isDone
    }
    return { ...synced, ...(caughtUp > 0 && { caughtUp }) }
  }
}

/**
 * The lists are the operator's, so that tenants get none of their users. A destination without sources only gets what waits for it
 * already.
 */
function getsLists({ enabled, tenant, sources }: Destination): boolean {
  return enabled && tenant === undefined && sources.length > 0
}

/** A placeholder for the id of the user. The name of a trait cannot contain these characters. */
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
  // Names in the settings cannot contain a colon, so this name is never the name of a source in the settings.
  return { source: `audience:${trait}`, destination, before, after }
}
