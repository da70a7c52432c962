import { FIRST_EPOCH } from '../shares.js'
import { StoreError } from '../store-error.js'
import type { Directory, ServerIdentity, ServerState } from '../servers.js'
import type { Store } from '../store.js'
import { Directories } from './directory.js'
import { PATIENCE_MS } from './patience.js'
import { isAway, Server, type ServerParts, type ServerStore } from './server.js'
import { SeveralStore } from './store.js'

/** A server of the settings. */
export interface ServerAddress {
  name: string
  /** Opens its database as one of several servers. */
  open: () => Promise<Store>
}

/** A server of the settings, and its store if it could be opened. */
interface Opened extends ServerAddress {
  store: ServerStore | StoreError
  identity: ServerIdentity | undefined
}

/**
 * Opens a store on several servers. The first time, all of them must be there, and the first one becomes the home. Later the home
 * must be there. The others are used as soon as they can be reached.
 *
 * @param patienceMs - How long the answers of some servers are kept waiting for those of the others.
 * @throws StoreError `unsupported` if a server is not the one that its name says, or if the settings lack a server that has shares;
 * what the servers throw; unreachable if one is away that must be there.
 */
export async function openSeveral(
  addresses: readonly ServerAddress[],
  patienceMs = PATIENCE_MS,
): Promise<Store> {
  const opened = await Promise.all(addresses.map(openOne))
  try {
    return await connect(opened, patienceMs)
  } catch (error) {
    await closeAll(opened)
    throw error
  }
}

async function openOne({ name, open }: ServerAddress): Promise<Opened> {
  let store: ServerStore | undefined
  try {
    store = toServerStore(await open())
    return { name, open, store, identity: await store.asServer.identity() }
  } catch (error) {
    await store?.close()
    if (!(error instanceof StoreError)) throw error
    return { name, open, store: error, identity: undefined }
  }
}

async function lookAgain(one: Opened): Promise<void> {
  if (one.store instanceof StoreError) return
  one.identity = await one.store.asServer.identity()
}

async function connect(opened: readonly Opened[], patienceMs: number): Promise<Store> {
  for (const { store } of opened) {
    // A wrong password, a database that does not exist, newer tables: waiting does not help.
    if (store instanceof StoreError && !isAway(store)) throw store
  }
  const home = await homeOf(opened)
  const names = opened.map(({ name }) => name)
  const found = await home.store.asServer.found([
    home.name,
    ...names.filter((name) => name !== home.name),
  ])
  checkShares(found, names)

  const listeners: ((state: ServerState) => void)[] = []
  const changed: ServerParts['changed'] = (state) => {
    for (const listener of listeners) listener(state)
  }
  const enrolled = await Promise.all(
    opened.map(async ({ name, open, store }) => {
      const identity = { store: found.store, number: found.names.indexOf(name), name }
      const wasEnrolled = found.enrolled.includes(identity.number)
      const enroll = async (own: ServerStore) => {
        try {
          await own.asServer.enroll(identity, wasEnrolled)
          if (!wasEnrolled) await home.store.asServer.noteEnrolled(identity)
          return own
        } catch (error) {
          await own.close()
          throw error
        }
      }
      const parts: ServerParts = {
        name,
        number: identity.number,
        changed,
        open: async () => enroll(toServerStore(await open())),
      }
      if (store instanceof StoreError) return { parts, store }
      try {
        return { parts, store: await enroll(store) }
      } catch (error) {
        if (!(error instanceof StoreError && wasEnrolled && isAway(error))) throw error
        return { parts, store: error }
      }
    }),
  )
  // They are made once nothing of the above can fail any more, because one that is away is tried again until it is closed.
  const servers = enrolled.map(({ parts, store }) => new Server(parts, store))
  servers.sort((a, b) => a.number - b.number)
  let directory = found
  if (found.shares.length === 0) {
    try {
      directory = await divide(home.store, servers)
    } catch (error) {
      await Promise.all(servers.map((server) => server.close()))
      throw error
    }
  }
  // The home has the number 0.
  const [first] = servers as [Server]
  const directories = new Directories(first, servers, directory, changed)
  const onChange = (listener: (state: ServerState) => void) => {
    listeners.push(listener)
  }
  // If the home has gone away meanwhile, another store is opened for it.
  const ofHome = () => (first.store ?? home.store).clock
  const clock = { now: () => ofHome().now(), wall: () => ofHome().wall() }
  return new SeveralStore(first, servers, directories, onChange, patienceMs, clock)
}

/** @throws StoreError if it can't be said which server is the home, or if the home is away. */
async function homeOf(opened: readonly Opened[]): Promise<Opened & { store: ServerStore }> {
  const isNew = opened.every(({ identity }) => identity === undefined)
  const findHome = () => opened.find(({ identity }) => identity?.number === 0)
  let home = isNew ? opened[0] : findHome()
  if (!home) {
    // Another process that starts too may have made the home after this one looked there, and then another server a part of the store.
    await Promise.all(opened.map(lookAgain))
    home = findHome()
  }
  const away = opened.find(({ store }) => store instanceof StoreError)
  // A server that is away may be the home, or a part of another store.
  const missing = isNew || !home ? away : undefined
  if (missing) throw missing.store as StoreError
  if (home && !(home.store instanceof StoreError)) return { ...home, store: home.store }
  throw new StoreError(
    'unsupported',
    'store: the home of the servers is missing, which is the one that was the first of the list at the beginning: add it to "store".',
  )
}

/** @throws StoreError if the settings do not name a server that has shares, or from or to which shares are being moved. */
function checkShares({ names, shares }: Directory, given: readonly string[]): void {
  for (const [number, name] of names.entries()) {
    if (given.includes(name)) continue
    const count = shares.filter(
      ({ server, next, former }) =>
        [server, next].includes(number) ||
        former.some((one) => one.server === number && one.isMoving),
    ).length
    if (count === 0) continue
    throw new StoreError(
      'unsupported',
      `store: the server ${name} has ${count} of ${shares.length} shares: add it to "store".`,
    )
  }
}

/**
 * Gives the servers of a new store their shares. If this is interrupted, nobody uses them, and it is done again.
 *
 * @throws StoreError unreachable if one of them is away.
 */
async function divide(home: ServerStore, servers: readonly Server[]): Promise<Directory> {
  const owners = await home.asServer.firstOwners(servers.map(({ number }) => number))
  for (const server of servers) {
    const own = owners.flatMap((owner, share) =>
      owner === server.number ? [{ share, epoch: FIRST_EPOCH }] : [],
    )
    await server.ask((store) => store.asServer.moving.grant(own))
  }
  return home.asServer.divide(owners)
}

function toServerStore(store: Store): ServerStore {
  const { asServer } = store
  if (!asServer) throw new TypeError('Only a store in PostgreSQL can be one of several.')
  return store as ServerStore
}

async function closeAll(opened: readonly Opened[]): Promise<void> {
  await Promise.all(
    opened.map(async ({ store }) => {
      if (!(store instanceof StoreError)) await store.close()
    }),
  )
}
