import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Dispatcher } from '../deliver/dispatcher.js'
import { Refusal, show } from '../http/refusal.js'
import { endWithClient } from '../http/server.js'
import type { Replayed } from '../model/answers.js'
import { groupIds } from '../store/rows.js'
import type { DeliveryId, Filter, Match, State, Trace } from '../model/delivery.js'
import type { Settings } from '../settings/settings.js'
import { shownTime } from '../model/clock.js'
import type { ClockPort, MaintainPort, ReadPort, ReplayLane } from '../store/store.js'
import { bodyOf, withBody } from './body.js'
import { checkAgain } from './guard.js'
import { isFields, type Fields } from '../model/fields.js'
import { readReplayFilter } from './filter-parameters.js'
import { checkNames, count, flag, invalid, texts } from './parameters.js'

/** Deliveries that are replayed at once. */
const SLICE = 500

/** Deliveries that are searched at once. */
const SEARCHED = 20_000

/** A list of the most ids has 170 KB. A list that is too long is refused with its length, so it may be larger. */
export const WITH_REPLAY = withBody(1_048_576)

/** What replays need. */
export interface ReplayParts {
  store: Pick<ReadPort, 'match' | 'get'> & Pick<MaintainPort, 'replay'> & ClockPort
  dispatcher: Pick<Dispatcher, 'wake'>
  /** The current settings. */
  settings: () => Settings
}

/**
 * Adds the route that replays. It reads any content type as JSON. This opens it to no other site: every replay needs the
 * admin token in a header, which a browser sends to another site only after a preflight, and no preflight is allowed here.
 */
export function addReplayRoute(routes: FastifyInstance, parts: ReplayParts): void {
  routes.post('/replay', WITH_REPLAY, (request, reply) => replayAsked(parts, request, reply))
}

/** Replays what a request {@link WITH_REPLAY} asks for. */
export async function replayAsked(
  parts: ReplayParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Replayed> {
  const asker = { isOver: endWithClient(reply.raw), check: () => checkAgain(request) }
  return replay(parts, readReplay(bodyOf(request)), asker)
}

/** What to replay. */
interface ReplayParameters {
  which: { ids: DeliveryId[] } | { filter: Filter }
  /** Whether to replay delivered messages, too. */
  force: boolean
  dryRun: boolean
  /** How many deliveries the client expects. If there are more or fewer, none is replayed. */
  confirm: number | undefined
  /** Replays only what could be replayed at this time of the store's clock; see {@link Filter.asOf}. */
  asOf: number | undefined
}

/** The maximum number of ids in one request. */
const MAX_IDS = 10_000

/** @throws {@link Refusal} */
function readReplay(body: Fields): ReplayParameters {
  const selections = ['ids', 'messageId', 'filter', 'all'] as const
  checkNames(body, [...selections, 'force', 'dryRun', 'confirm', 'asOf'])
  const given = selections.filter((name) => body[name] !== undefined)
  if (given.length !== 1) {
    const got = given.length === 0 ? 'none of them' : given.join(' and ')
    throw new Refusal(
      400,
      'invalid_parameter',
      `The body must have exactly one of ids, messageId, filter and all; it has ${got}.`,
    )
  }
  const force = flag(body, 'force')
  if (force && (body['filter'] !== undefined || body['all'] !== undefined)) {
    const message =
      'force works only with ids or messageId, because delivered messages are not sent again in bulk.'
    throw new Refusal(400, 'invalid_parameter', message)
  }
  const confirm = count(body, 'confirm', 0, Number.MAX_SAFE_INTEGER, 'body')
  const asOf = count(body, 'asOf', 0, Number.MAX_SAFE_INTEGER, 'body')
  return { which: whichOf(body), force, dryRun: flag(body, 'dryRun'), confirm, asOf }
}

function whichOf(body: Fields): ReplayParameters['which'] {
  const { ids, messageId, filter, all } = body
  if (ids !== undefined) {
    return { ids: [...new Set(idsOf(ids))] }
  }
  if (messageId !== undefined) return { filter: texts(body, ['messageId']) }
  if (all !== undefined) {
    if (all !== true) throw invalid('all', 'true', all)
    return { filter: {} }
  }
  // "match" alone says how to compare, and not what: it would match everything.
  if (!isFields(filter) || !Object.keys(filter).some((name) => name !== 'match')) {
    throw invalid(
      'filter',
      'an object with at least one field besides "match" ("all": true replays everything)',
      filter,
    )
  }
  return { filter: readReplayFilter(filter) }
}

function idsOf(value: unknown): DeliveryId[] {
  const isList = Array.isArray(value)
  if (!isList || value.length === 0 || value.length > MAX_IDS) {
    const list = isList && (value.length === 0 ? 'an empty list' : `a list of ${value.length}`)
    const message = `ids must be a list of 1 to ${MAX_IDS} ids of deliveries, got ${list || show(value)}.`
    throw new Refusal(400, 'invalid_parameter', message)
  }
  const wrong = value.findIndex((id) => !Number.isSafeInteger(id) || id < 1)
  if (wrong === -1) return value as DeliveryId[]
  throw invalid(`ids[${wrong}]`, 'a whole number of at least 1', value[wrong])
}

/** Who asks for a replay. */
interface Asker {
  /** Whether the client has disconnected. The replay then ends early. */
  isOver: () => boolean
  /** Throws a Refusal if the client may not replay any more. */
  check: () => Promise<void>
}

/**
 * Sends dead letters again. It visits each delivery once, the newest first, so that a message that becomes a dead letter
 * again during the replay is not replayed twice. After an interruption, the same request replays the rest; with `asOf`, it replays
 * nothing that has become a dead letter again.
 *
 * @throws Refusal if the number of deliveries is not the one that the client has confirmed, or if it may not replay any more.
 */
async function replay(
  { store, dispatcher, settings }: ReplayParts,
  { which, force, dryRun, confirm, asOf: given }: ReplayParameters,
  { isOver, check }: Asker,
): Promise<Replayed> {
  const states: State[] = force ? ['dead', 'done'] : ['dead']
  const counts = new Map<string, number>()
  const lane = laneOf(which)
  const now = Math.ceil(store.clock.now())
  requirePast(given, now)
  const asOf = given ?? (dryRun ? now : undefined)
  let matched = 0
  let replayed = 0
  const kept = new Map<string, number>()
  const away = new Set<string>()
  const search = sendable(
    'ids' in which
      ? byId(store, which.ids, states, asOf)
      : find(store, { ...which.filter, states, asOf }, away),
    settings(),
    kept,
  )
  const found = confirm === undefined ? search : await confirmed(search, confirm)
  for await (const matches of found) {
    if (isOver()) break
    for (const { destination, ids } of matches) {
      matched += ids.length
      if (dryRun) addTo(counts, destination, ids.length)
      for (const slice of dryRun ? [] : slicesOf(ids)) {
        if (isOver()) break
        await check()
        const done = await store.replay(slice, force, lane, asOf)
        replayed += done.length
        addTo(counts, destination, done.length)
        dispatcher.wake(destination, lane)
      }
    }
  }
  return {
    matched,
    replayed,
    byDestination: listOf(counts),
    kept: listOf(kept),
    ...(away.size > 0 && { away: [...away] }),
    dryRun,
    ...(asOf !== undefined && { asOf }),
  }
}

/** In ms. The process that has counted may know the clock of the store a little better. */
const AHEAD_MS = 1_000

/** @throws Refusal if a time is not over yet: what becomes a dead letter until then would be sent again and again. */
function requirePast(asOf: number | undefined, now: number): void {
  if (asOf === undefined || asOf <= now + AHEAD_MS) return
  const message =
    `asOf must not be in the future: the clock of the store shows ${now}, got ${asOf}. ` +
    'Count with "dryRun": true, and give the asOf of the answer.'
  throw new Refusal(400, 'invalid_parameter', message)
}

/**
 * Leaves out deliveries to destinations that the settings do not have, or that are disabled: nobody would send them, and
 * they would no longer be dead letters.
 *
 * @param kept - Counts what is left out, by destination.
 */
async function* sendable(
  search: AsyncIterable<Match[]>,
  { destinations }: Pick<Settings, 'destinations'>,
  kept: Map<string, number>,
): AsyncGenerator<Match[]> {
  const enabled = new Set(destinations.flatMap((one) => (one.enabled ? [one.name] : [])))
  for await (const matches of search) {
    for (const { destination, ids } of matches) {
      if (!enabled.has(destination)) addTo(kept, destination, ids.length)
    }
    yield matches.filter(({ destination }) => enabled.has(destination))
  }
}

function* slicesOf(ids: readonly DeliveryId[]): Generator<readonly DeliveryId[]> {
  for (let from = 0; from < ids.length; from += SLICE) yield ids.slice(from, from + SLICE)
}

function addTo(counts: Map<string, number>, name: string, added: number): void {
  if (added > 0) counts.set(name, (counts.get(name) ?? 0) + added)
}

function listOf(counts: ReadonlyMap<string, number>): { name: string; count: number }[] {
  return Array.from(counts, ([name, count]) => ({ name, count }))
}

/** A replay of a single message is not bulk work: somebody waits for it. */
function laneOf(which: ReplayParameters['which']): ReplayLane {
  const isOne = 'ids' in which ? which.ids.length === 1 : which.filter.messageId !== undefined
  return isOne ? 'backlog' : 'bulk'
}

/**
 * Finds everything before anything is replayed. What becomes a dead letter after it was counted is not replayed: nobody has
 * confirmed it.
 */
async function confirmed(search: AsyncIterable<Match[]>, confirm: number): Promise<Match[][]> {
  const found: Match[][] = []
  let count = 0
  for await (const matches of search) {
    found.push(matches)
    for (const { ids } of matches) count += ids.length
  }
  if (count === confirm) return found
  const next = count > 0 ? ` Confirm ${count} to send them.` : ''
  const message = `The count is ${count}, not ${confirm}. Nothing was sent by this request.${next}`
  throw new Refusal(409, 'count_changed', message)
}

async function* byId(
  store: ReplayParts['store'],
  ids: readonly DeliveryId[],
  states: readonly State[],
  asOf = Infinity,
): AsyncGenerator<Match[]> {
  for (const slice of slicesOf(ids)) {
    const traces = await Promise.all(slice.map((id) => store.get(id)))
    // What was sent again since has a first attempt after its replay. Whether it may be replayed is decided by the store.
    const latest = shownTime(store.clock, asOf)
    const isMatch = ({ state, firstAttemptAt }: Trace) =>
      states.includes(state) && (firstAttemptAt ?? 0) <= latest
    yield groupIds(traces.flatMap((trace) => (trace && isMatch(trace) ? [trace] : [])))
  }
}

async function* find(
  store: ReplayParts['store'],
  filter: Filter,
  away: Set<string>,
): AsyncGenerator<Match[]> {
  let before: DeliveryId | undefined
  do {
    const found = await store.match(filter, before, SEARCHED)
    for (const name of found.away ?? []) away.add(name)
    const { matches, next } = found
    yield matches
    before = next
  } while (before !== undefined)
}
