import type { FastifyInstance } from 'fastify'
import type { Dispatcher } from '../deliver/dispatcher.js'
import type { Replayed } from '../model/answers.js'
import type { DeliveryId, State } from '../model/delivery.js'
import type { MaintainPort, ReadPort } from '../store/store.js'
import { readReplay, type ReplayParameters } from './parameters.js'

/** So many are replayed in one go. */
const SLICE = 500

/** What replays work with. */
export interface ReplayParts {
  store: Pick<ReadPort, 'find' | 'get'> & Pick<MaintainPort, 'replay'>
  dispatcher: Pick<Dispatcher, 'wake'>
}

/** One that matches. */
interface Match {
  id: DeliveryId
  destination: string
}

/** Adds the route that replays. */
export function addReplayRoute(routes: FastifyInstance, parts: ReplayParts): void {
  routes.post('/replay', (request, reply) =>
    replay(parts, readReplay(request.body), () => reply.raw.destroyed),
  )
}

/**
 * Sends dead letters again. Each is looked at once, the newest first, so that a message that dies again meanwhile is not
 * replayed twice. If a replay is interrupted, the same request again replays the rest.
 *
 * @param isOver - Whether the client is gone; the replay ends early then.
 */
async function replay(
  { store, dispatcher }: ReplayParts,
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
    if (!dryRun) for (const name of counts.keys()) dispatcher.wake(name, 'backlog')
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
  filter: Parameters<ReadPort['find']>[0],
  states: readonly State[],
): AsyncGenerator<Match[]> {
  let before: DeliveryId | undefined
  do {
    const { deliveries, next } = await store.find({ ...filter, states }, before, SLICE)
    yield deliveries
    before = next
  } while (before !== undefined)
}
