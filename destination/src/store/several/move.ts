import { setTimeout as pause } from 'node:timers/promises'
import { StoreError } from '../store-error.js'
import type { Directory, MoveProgress, OwnShare, Servers } from '../servers.js'
import type { Server } from './server.js'

/** In ms: the wait before messages that were being sent are looked for again. */
const HELD_MS = 500

/** The shares that are on the same way. */
interface Way {
  from: Server
  to: Server
  shares: OwnShare[]
}

/**
 * Moves shares. Whoever is interrupted at any step leaves a state that the next move carries on with:
 *
 * 1. The home notes where the shares are to go. If the new owner is away before the former one has lost them, this is given up.
 * 2. The new owner gets them, with the next epoch. Nobody uses that epoch yet, and nobody ever does if the move is given up.
 * 3. The former owner loses them, once the puts under way have ended. From now on nobody can store their messages.
 * 4. The home says that they belong to the new owner. From now on everybody stores their messages there. If this process does not
 *    come so far, a process that wants to store a message does it ({@link MovePort.handOver}).
 * 5. What waits at the former owner is parked there, copied, and deleted. Whatever was copied but not deleted is copied again, which
 *    has no effect, because it is a message that the new owner has.
 * 6. The home notes that nothing waits at the former owner any more. What is done or dead stays there.
 *
 * Until the former owner has no message any more of the time before, it is asked whether it has a message before that is stored.
 */
export async function moveShares(
  home: Server,
  servers: readonly Server[],
  plan: Parameters<Servers['move']>[0],
  report: (progress: MoveProgress) => void,
  signal?: AbortSignal,
): Promise<void> {
  const find = (directory: Directory, number: number): Server => {
    const server = servers.find((one) => one.number === number)
    if (server) return server
    throw unknown(directory.names[number] ?? String(number))
  }
  const read = () => home.ask((store) => store.asServer.directory())
  const errors: StoreError[] = []
  /** What fails on one way does not stop the others. */
  const onEach = async (all: readonly Way[], work: (way: Way) => Promise<void>) => {
    for (const way of all) {
      try {
        await work(way)
      } catch (error) {
        if (!(error instanceof StoreError)) throw error
        errors.push(error)
      }
    }
  }

  const carryOn = async (stillAlone: () => Promise<void>) => {
    const directory = await read()
    const begun = ways(directory, ({ server, next }) =>
      next === null ? [] : [{ from: find(directory, server), to: find(directory, next) }],
    )
    await onEach(begun, (way) => handOver(home, way, stillAlone))
    const present = await read()
    const handedOver = ways(present, ({ server, former }) =>
      former
        .filter(({ isMoving }) => isMoving)
        .map((one) => ({ from: find(present, one.server), to: find(present, server) })),
    )
    await onEach(handedOver, (way) => moveMessages(home, way, stillAlone, report))
  }

  await home.ask((store) =>
    store.asServer.moving.alone(async (isAlone) => {
      const stillAlone = async () => {
        signal?.throwIfAborted()
        await isAlone()
      }
      await carryOn(stillAlone)
      const directory = await read()
      const wanted = plan(directory)
      const planned = ways(directory, ({ server }, share) => {
        const name = wanted.get(share)
        if (name === undefined) return []
        const to = servers.find((one) => one.name === name)
        if (!to) throw unknown(name)
        return to.number === server ? [] : [{ from: find(directory, server), to }]
      })
      await onEach(planned, async ({ from, to, shares }) => {
        await Promise.all([from, to].map(ping))
        // After the home was restored, the new owner may have a later epoch than the directory.
        const owned = await to.ask((store) => store.asServer.moving.owned(numbersOf(shares)))
        const epochs = new Map(owned.map(({ share, epoch }) => [share, epoch]))
        const wanted = shares.map(({ share }) => ({ share, epoch: epochs.get(share) ?? 0 }))
        await home.ask((store) => store.asServer.moving.intend(wanted, to.number))
      })
      await carryOn(stillAlone)
    }),
  )
  const [failure] = errors
  if (failure) throw failure
}

const numbersOf = (shares: readonly OwnShare[]) => shares.map(({ share }) => share)

const ping = (server: Server): Promise<void> => server.ask((store) => store.ping())

/** Nothing is taken away from a server for the sake of another one that is away: then the share stays where it is. */
async function handOver(
  home: Server,
  { from, to, shares }: Way,
  stillAlone: () => Promise<void>,
): Promise<void> {
  await ping(from)
  try {
    await ping(to)
  } catch (error) {
    await stillAlone()
    const kept = await from.ask((store) => store.asServer.moving.owned(numbersOf(shares)))
    await home.ask((store) => store.asServer.moving.giveUp(kept))
    throw error
  }
  await stillAlone()
  const granted = shares.map(({ share, epoch }) => ({ share, epoch: epoch + 1 }))
  await to.ask((store) => store.asServer.moving.grant(granted))
  await from.ask((store) => store.asServer.moving.withdraw(shares))
  await home.ask((store) => store.asServer.moving.handOver(shares))
}

async function moveMessages(
  home: Server,
  { from, to, shares }: Way,
  stillAlone: () => Promise<void>,
  report: (progress: MoveProgress) => void,
): Promise<void> {
  const numbers = numbersOf(shares)
  let moved = 0
  for (;;) {
    let left = 0
    for (let after: number | undefined = 0; after !== undefined;) {
      const start: number = after
      await stillAlone()
      const step = await from.ask((store) =>
        store.asServer.moving.moveSome(numbers, start, (copies) =>
          to.ask((other) => other.copyIn(copies)),
        ),
      )
      moved += step.moved
      left += step.held
      after = step.next
      report({ from: from.name, to: to.name, shares: numbers, moved, left })
    }
    if (left === 0) break
    await pause(HELD_MS)
  }
  const lastId = await from.ask((store) => store.asServer.moving.lastId())
  await home.ask((store) => store.asServer.moving.finish(numbers, from.number, lastId))
}

/** The shares that go somewhere, together with others of the same way. */
function ways(
  { shares }: Directory,
  waysOf: (place: Directory['shares'][number], share: number) => Omit<Way, 'shares'>[],
): Way[] {
  const found: Way[] = []
  for (const [share, place] of shares.entries()) {
    for (const { from, to } of waysOf(place, share)) {
      const same = found.find((way) => way.from === from && way.to === to)
      const own = { share, epoch: place.epoch }
      if (same) same.shares.push(own)
      else found.push({ from, to, shares: [own] })
    }
  }
  return found
}

function unknown(name: string): StoreError {
  return new StoreError(
    'unsupported',
    `store: there is no server ${JSON.stringify(name)} in the settings: add it to "store".`,
    { server: name },
  )
}
