import type { DeliveryId, Lane, State } from '../model/delivery.js'
import type { Store } from '../store/store.js'
import type { ReplayParameters } from './parameters.js'

/** So many are replayed in one go. */
const SLICE = 500

/** What replays work with. */
export interface ReplayParts {
  store: Pick<Store, 'find' | 'get' | 'replay'>
  /** Something waits in a lane now. */
  heard: (destination: string, lane: Lane) => void
}

/** What came of a replay. */
export interface Replayed {
  /** Those that could be replayed. */
  matched: number
  /** Those that were; 0 in a dry run. */
  replayed: number
  /** In a dry run of those that match. */
  byDestination: { name: string; count: number }[]
  dryRun: boolean
}

/** One that matches. */
interface Match {
  id: DeliveryId
  destination: string
}

/**
 * Sends dead letters on their way again. Each is looked at once, the newest first: what dies again meanwhile is not taken
 * twice. One that is cut off has replayed what it had come to, and the same again replays the rest.
 *
 * @param isOver - Whether nobody waits for it any more: then it ends early.
 */
export async function replay(
  { store, heard }: ReplayParts,
  { which, force, dryRun }: ReplayParameters,
  isOver: () => boolean,
): Promise<Replayed> {
  const states: State[] = force ? ['dead', 'done'] : ['dead']
  const counts = new Map<string, number>()
  let matched = 0
  let replayed = 0
  const found =
    'ids' in which ? byId(store, which.ids, states) : search(store, which.filter, states)
  for await (const matches of found) {
    if (isOver()) break
    matched += matches.length
    const ids = dryRun ? [] : await store.replay(idsOf(matches), force)
    replayed += ids.length
    const done = new Set(dryRun ? idsOf(matches) : ids)
    for (const { id, destination } of matches) {
      if (done.has(id)) counts.set(destination, (counts.get(destination) ?? 0) + 1)
    }
    if (!dryRun) for (const name of counts.keys()) heard(name, 'backlog')
  }
  const byDestination = Array.from(counts, ([name, count]) => ({ name, count }))
  return { matched, replayed, byDestination, dryRun }
}

function idsOf(matches: readonly Match[]): DeliveryId[] {
  return matches.map(({ id }) => id)
}

async function* byId(
  store: ReplayParts['store'],
  ids: readonly DeliveryId[],
  states: readonly State[],
): AsyncGenerator<Match[]> {
  for (let from = 0; from < ids.length; from += SLICE) {
    const traces = await Promise.all(ids.slice(from, from + SLICE).map((id) => store.get(id)))
    yield traces.flatMap((trace) => (trace && states.includes(trace.state) ? [trace] : []))
  }
}

async function* search(
  store: ReplayParts['store'],
  filter: Parameters<Store['find']>[0],
  states: readonly State[],
): AsyncGenerator<Match[]> {
  let before: DeliveryId | undefined
  do {
    const { deliveries, next } = await store.find({ ...filter, states }, before, SLICE)
    yield deliveries
    before = next
  } while (before !== undefined)
}
