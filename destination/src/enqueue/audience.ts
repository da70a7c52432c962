import { webhookBody } from './webhook-body.js'
import type { Dispatcher } from '../deliver/dispatcher.js'
import type { Destination } from '../settings/settings.js'
import type { AudiencePort, MemberMessage, Sync } from '../store/store.js'

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
    // The lists are the operator's, so that tenants get none of their users. A destination without sources only gets what waits
    // for it already. Both may change, and then the destination is told of what it missed.
    const all = parts.destinations().map(({ name, enabled, tenant, sources }) => ({
      name,
      enabled: enabled && tenant === undefined && sources.length > 0,
    }))
    const destinations = all.filter(({ enabled }) => enabled)
    const timestamp = new Date(now()).toISOString()
    const messagesOf = (isMember: boolean) =>
      destinations.map(({ name }) => messageFor(trait, isMember, timestamp, name))
    const wakeAll = (changes: number) => {
      if (changes > 0) for (const { name } of destinations) dispatcher.wake(name, 'bulk')
    }

    const sync = await store.beginSync(trait, all)
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
    const told = await catchUp(store, sync, [arrivals, departures], wakeAll)
    return { ...synced, ...(told > 0 && { caughtUp: told }) }
  }
}

/** Tells the destinations that were new or not enabled before. It returns the number of messages. */
async function catchUp(
  store: AudiencePort,
  sync: Sync,
  [arrivals, departures]: [MemberMessage[], MemberMessage[]],
  wakeAll: (changes: number) => void,
): Promise<number> {
  let all = 0
  for (let isDone = false; !isDone;) {
    const page = await store.catchUp(sync, SLICE, arrivals, departures)
    wakeAll(page.caughtUp)
    all += page.caughtUp
    isDone = page.isDone
  }
  return all
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
