import type { FastifyInstance } from 'fastify'
import { compileFilters, type Filter } from '../enqueue/filter.js'
import { callOf } from '../enqueue/webhook-body.js'
import { Refusal, RejectedCall } from '../http/refusal.js'
import type { FilterPreview, FilterPreviewResult } from '../model/answers.js'
import type { Call } from '../model/call.js'
import type { SearchPlace, Summary } from '../model/delivery.js'
import { checkFilters } from '../settings/check.js'
import type { CallFilter, Destination, Settings } from '../settings/settings.js'
import type { ReadPort } from '../store/store.js'
import { bodyOf, withBody } from './body.js'
import type { Fields } from '../model/fields.js'
import { requireDestination } from './destination-routes.js'
import { checkNames, count, invalid, texts } from './parameters.js'

/** What previews of filters need. */
export interface FilterPreviewParts {
  store: Pick<ReadPort, 'find' | 'get'>
  /** The current settings. */
  settings: () => Settings
  /** Reads a call as a source sends it; throws {@link RejectedCall}. */
  readCall: (given: unknown) => Call
}

/** A destination, or what is known of one that is about to be created. */
type Subject = Pick<Destination, 'sources' | 'filters'>

/** In bytes: room for a call, and for filters with some thousand patterns. */
const MAX_BODY_BYTES = 1_048_576

/** The time limit of the search for stored messages, in ms. Afterwards it answers with those that it has found. */
const SEARCH_MS = 1_000

/** The most deliveries that are read at once, so that the store's other callers do not wait. */
const SLICE = 100

/** Adds the route that says which calls would pass filters. It changes nothing, and sends nothing. */
export function addFilterPreviewRoute(routes: FastifyInstance, parts: FilterPreviewParts): void {
  routes.post('/filters/preview', withBody(MAX_BODY_BYTES), (request) => {
    const given = readPreview(bodyOf(request))
    const destination =
      'sources' in given
        ? { sources: given.sources }
        : requireDestination(parts.settings(), given.destination)
    const filter = compileFilters(filtersOf(given.filters, destination))
    return 'call' in given
      ? previewCall(parts, filter, destination, given.call)
      : previewLatest(parts, filter, destination, given.latest)
  })
}

/** Which filters to try, and on what. */
type PreviewParameters = PreviewSubject & { filters: unknown } & (
    { call: unknown } | { latest: number }
  )

/** What has the sources, and the filters if none are given: a destination, or one that is about to be created. */
type PreviewSubject = { destination: string } | { sources: string[] }

/** The most sources of one preview. A call that is given is tried as one of each. */
const MAX_SOURCES = 1_000

/** The most stored calls in one preview. Each is read by itself. */
const MAX_LATEST = 200

/** @throws {@link Refusal} */
function readPreview(body: Fields): PreviewParameters {
  checkNames(body, ['destination', 'sources', 'filters', 'call', 'latest'])
  const { filters, call } = body
  const latest = count(body, 'latest', 1, MAX_LATEST, 'body')
  if ((call === undefined) === (latest === undefined)) {
    throw new Refusal(400, 'invalid_parameter', 'Expected either call or latest, and not both.')
  }
  return { ...subjectOf(body), filters, ...(latest === undefined ? { call } : { latest }) }
}

function subjectOf(body: Fields): PreviewSubject {
  const { sources } = body
  const { destination } = texts(body, ['destination'])
  if ((destination === undefined) === (sources === undefined)) {
    const message = 'Expected either destination or sources, and not both.'
    throw new Refusal(400, 'invalid_parameter', message)
  }
  if (destination !== undefined) return { destination }
  const isNames = Array.isArray(sources) && sources.every((one) => typeof one === 'string')
  if (isNames && sources.length <= MAX_SOURCES) return { sources }
  throw invalid('sources', `a list of at most ${MAX_SOURCES.toLocaleString('en')} names`, sources)
}

/** The filters of the request, or else those of the destination. */
function filtersOf(given: unknown, { sources, filters = [] }: Subject): CallFilter[] {
  if (given === undefined) return filters
  const checked = checkFilters(given, sources)
  if ('filters' in checked) return checked.filters
  const { problems } = checked
  const [first] = problems
  const count = problems.length === 1 ? 'a mistake' : `${problems.length} mistakes`
  const message = `The filters have ${count}: ${first?.path}: ${first?.message}`
  throw new Refusal(400, 'invalid_filters', message, {}, { problems })
}

/** Filters may differ by the source, so the call is tried as one of each source. */
function previewCall(
  { readCall }: FilterPreviewParts,
  filter: Filter,
  { sources }: Subject,
  given: unknown,
): FilterPreview {
  try {
    const call = readCall(given)
    const results = sources.map((source) => resultOf(filter, source, call))
    return { ...countsOf(results), results, withoutBody: 0, isComplete: true }
  } catch (error) {
    if (!(error instanceof RejectedCall)) throw error
    throw new Refusal(400, 'invalid_parameter', `call: ${error.message}`)
  }
}

/**
 * Tries the latest stored calls of the sources, whichever destination got them. A call that no destination got has no body in
 * the store, and is only counted.
 */
async function previewLatest(
  { store }: FilterPreviewParts,
  filter: Filter,
  { sources }: Subject,
  limit: number,
): Promise<FilterPreview> {
  const endsAt = performance.now() + SEARCH_MS
  const [source, ...others] = sources
  if (source === undefined)
    return { ...countsOf([]), results: [], withoutBody: 0, isComplete: true }
  const search = others.length === 0 ? { source } : {}
  const results = new Map<string, FilterPreviewResult>()
  const withoutBody = new Set<string>()
  let before: SearchPlace | undefined
  do {
    const { deliveries, next } = await store.find(search, before, SLICE)
    for (const delivery of deliveries) {
      if (results.size === limit) break
      if (!sources.includes(delivery.source) || delivery.type === 'delete') continue
      const key = JSON.stringify([delivery.source, delivery.messageId])
      if (results.has(key)) continue
      const call = await storedCall(store, delivery)
      if (call) results.set(key, resultOf(filter, delivery.source, call))
      else withoutBody.add(key)
    }
    before = next
  } while (before !== undefined && results.size < limit && performance.now() < endsAt)
  const found = [...results.values()]
  return {
    ...countsOf(found),
    results: found,
    withoutBody: [...withoutBody].filter((key) => !results.has(key)).length,
    isComplete: before === undefined || found.length === limit,
  }
}

/** The call of a delivery; `undefined` if its body is not stored, or no longer. */
async function storedCall(
  store: Pick<ReadPort, 'get'>,
  { id, state, messageId }: Summary,
): Promise<Call | undefined> {
  const trace = state === 'skipped' ? undefined : await store.get(id)
  return trace && callOf(trace.body, messageId)
}

function resultOf(filter: Filter, source: string, call: Call): FilterPreviewResult {
  const stop = filter(source, call)
  return {
    messageId: call.messageId,
    source,
    type: call.type,
    event: call.event ?? call.name ?? '',
    user: call.userId ?? call.anonymousId ?? '',
    passes: stop === undefined,
    rule: stop?.rule ?? null,
    reason: stop?.reason ?? null,
  }
}

function countsOf(
  results: readonly FilterPreviewResult[],
): Pick<FilterPreview, 'passed' | 'stopped'> {
  const passed = results.filter(({ passes }) => passes).length
  return { passed, stopped: results.length - passed }
}
