import { Refusal, show } from '../http/refusal.js'
import { decodeActor, isActorName, MAX_ACTOR } from '../model/actor.js'
import { EVENT_TYPES, type EventType } from '../model/call.js'
import type { DeliveryId, Filter, SearchPlace, State } from '../model/delivery.js'
import { isFields, type Fields } from '../model/fields.js'
import { HEALTHS, type Health } from '../model/health.js'
import { HISTORY_SPANS, type HistorySpan } from '../model/history.js'
import { OUTCOME_CODES } from '../model/outcome.js'
import { KINDS, WAITING_CHOICES, type Kind, type WaitingChoice } from '../model/setting.js'

/** Where parameters come from. The numbers of a query are texts, and those of a body are not. */
type Place = 'query' | 'body'

/** The names of states in requests. `waiting` stands for all states that are not settled. */
const STATES: Readonly<Record<string, readonly State[]>> = {
  fresh: ['fresh'],
  backlog: ['backlog'],
  bulk: ['bulk'],
  leased: ['leased'],
  waiting: ['fresh', 'backlog', 'bulk', 'leased'],
  done: ['done'],
  dead: ['dead'],
  skipped: ['skipped'],
}

/** One page of a list of deliveries. */
export interface ListParameters {
  filter: Filter
  before: SearchPlace | undefined
  limit: number
}

const REPLAY_FIELDS = ['destination', 'source', 'event', 'user', 'cause'] as const
const LIST_FIELDS = [...REPLAY_FIELDS, 'messageId'] as const
/** The parameters of a filter that have a form of their own. */
const OTHER_FIELDS = ['type', 'code', 'status', 'endpoint', 'since', 'until'] as const

/** @throws {@link Refusal} */
export function readList(query: Fields): ListParameters {
  checkNames(query, ['state', 'match', 'before', 'limit', ...LIST_FIELDS, ...OTHER_FIELDS])
  const { state } = query
  const states =
    typeof state === 'string' && Object.hasOwn(STATES, state) ? STATES[state] : undefined
  if (state !== undefined && !states) {
    throw invalid('state', `one of ${Object.keys(STATES).join(', ')}`, state)
  }
  return {
    filter: {
      states,
      ...texts(query, LIST_FIELDS),
      ...others(query, 'query'),
    },
    before: placeOf(query),
    limit: count(query, 'limit', 1, 200) ?? 50,
  }
}

/** An id, or the text that a store of several servers makes of the ids of its places. */
function placeOf({ before }: Fields): SearchPlace | undefined {
  if (before === undefined) return undefined
  if (typeof before === 'string' && /^(?!0+$)\d{1,16}$/.test(before)) return Number(before)
  if (typeof before === 'string' && /^(?:[1-9]\d{0,15}\.){1,128}$/.test(before)) return before
  throw invalid('before', 'the "next" of a former answer', before)
}

/** What the overview shows. */
export interface OverviewParameters {
  span: HistorySpan
  /** The text of the search; empty for all. */
  q: string
  health: Health | undefined
  sort: (typeof SORTS)[number]
  isDescending: boolean
  offset: number
  limit: number
}

const SORTS = ['health', 'name', 'requests', 'success', 'p99', 'waiting', 'dead'] as const

/** @throws {@link Refusal} */
export function readOverview(query: Fields): OverviewParameters {
  checkNames(query, ['span', 'q', 'health', 'sort', 'order', 'offset', 'limit'])
  return {
    span: oneOf(query, 'span', HISTORY_SPANS) ?? '1h',
    q: texts(query, ['q']).q ?? '',
    health: oneOf(query, 'health', HEALTHS),
    sort: oneOf(query, 'sort', SORTS) ?? 'health',
    isDescending: oneOf(query, 'order', ['asc', 'desc']) === 'desc',
    offset: count(query, 'offset', 0, Number.MAX_SAFE_INTEGER) ?? 0,
    limit: count(query, 'limit', 0, 100) ?? 25,
  }
}

/** @throws {@link Refusal} */
export function readDestination(query: Fields): { name: string; span: HistorySpan } {
  checkNames(query, ['name', 'span'])
  const { name } = texts(query, ['name'])
  if (name === undefined) throw invalid('name', 'a single string', name)
  return { name, span: oneOf(query, 'span', HISTORY_SPANS) ?? '1h' }
}

/** @throws {@link Refusal} */
export function readDead(query: Fields): string | undefined {
  checkNames(query, ['destination'])
  return texts(query, ['destination']).destination
}

/** @throws {@link Refusal} */
export function readId(params: Fields): DeliveryId {
  return count(params, 'id', 1, Number.MAX_SAFE_INTEGER) as DeliveryId
}

/** @throws {@link Refusal} */
export function readMessageId(query: Fields): string {
  checkNames(query, ['messageId'])
  const { messageId } = texts(query, ['messageId'])
  if (messageId === undefined) throw invalid('messageId', 'a single string', messageId)
  return messageId
}

/** A page of a list of sources or destinations. */
export interface SettingsListParameters {
  /** The text of the search; empty for all. */
  q: string
  /** The last name of the page before. */
  after: string | undefined
  limit: number
  /** Only destinations that take the calls of this source. */
  source: string | undefined
  /** Only sources or destinations of this tenant. */
  tenant: string | undefined
}

/** @throws {@link Refusal} */
export function readSettingsList(query: Fields, kind: string): SettingsListParameters {
  const relations = [
    ...(kind === 'destination' ? ['source'] : []),
    ...(kind === 'tenant' ? [] : ['tenant']),
  ]
  checkNames(query, ['q', 'after', 'limit', ...relations])
  const { q = '', after, source, tenant } = texts(query, ['q', 'after', 'source', 'tenant'])
  return { q, after, source, tenant, limit: count(query, 'limit', 1, 1_000) ?? 100 }
}

/** @throws {@link Refusal} */
export function readSettingsDeletion(query: Fields): WaitingChoice | undefined {
  checkNames(query, ['waiting'])
  return oneOf(query, 'waiting', WAITING_CHOICES)
}

/** What the store is to have, and how to get there. */
export interface ApplyParameters {
  /** Not checked yet. */
  settings: Fields
  dryRun: boolean
  prune: boolean
  waiting: WaitingChoice | undefined
}

/** @throws {@link Refusal} */
export function readApply(body: Fields): ApplyParameters {
  checkNames(body, ['settings', 'dryRun', 'prune', 'waiting'])
  const { settings } = body
  if (!isFields(settings)) {
    throw invalid(
      'settings',
      'an object with the lists "tenants", "sources" and "destinations"',
      settings,
    )
  }
  const waiting = oneOf(body, 'waiting', WAITING_CHOICES)
  return { settings, dryRun: flag(body, 'dryRun'), prune: flag(body, 'prune'), waiting }
}

/**
 * Reads `If-Match` (RFC 9110, 13.1.1) with the revision of all settings. `*` stands for any, because there always is one.
 *
 * @throws {@link Refusal}
 */
export function readRevision(headers: Fields): string | undefined {
  const { 'if-match': match } = texts(headers, ['if-match'])
  if (match === undefined || match.trim() === '*') return undefined
  const [, revision] = /^ *"([0-9a-f]{32})" *$/.exec(match) ?? []
  if (revision !== undefined) return revision
  throw invalid('If-Match', 'the ETag of the settings, or *', match)
}

/** Which of two secrets stays valid. */
const KEPT = ['new', 'old'] as const

/**
 * @param secrets - The names of the secrets that there are. The first is the default.
 * @throws {@link Refusal}
 */
export function readRotation<Secret extends string>(
  query: Fields,
  secrets: readonly [Secret, ...Secret[]],
): { secret: Secret; keep: (typeof KEPT)[number] } {
  checkNames(query, ['secret', 'keep'])
  return {
    secret: oneOf(query, 'secret', secrets) ?? secrets[0],
    keep: oneOf(query, 'keep', KEPT) ?? 'new',
  }
}

/** Which entries of the audit log to read. */
export interface AuditParameters {
  about: { kind: Kind; name: string } | undefined
  /** The id of an entry to continue behind. */
  before: number | undefined
  limit: number
}

/** @throws {@link Refusal} */
export function readAuditPage(query: Fields): AuditParameters {
  checkNames(query, ['kind', 'name', 'before', 'limit'])
  const kind = oneOf(query, 'kind', KINDS)
  const { name } = texts(query, ['name'])
  if ((kind === undefined) !== (name === undefined)) {
    throw new Refusal(400, 'invalid_parameter', 'kind and name must be given together.')
  }
  return {
    about: kind !== undefined && name !== undefined ? { kind, name } : undefined,
    before: count(query, 'before', 1, Number.MAX_SAFE_INTEGER),
    limit: count(query, 'limit', 1, 1_000) ?? 100,
  }
}

/** Of which version a change may be made. */
export interface ConditionHeaders {
  match: number[] | 'any' | undefined
  isNew: boolean
}

/**
 * Reads `If-Match` and `If-None-Match` (RFC 9110, 13.1). A version is a strong entity tag: a weak one never matches.
 *
 * @throws {@link Refusal}
 */
export function readCondition(headers: Fields): ConditionHeaders {
  const { 'if-match': match, 'if-none-match': noneMatch } = texts(headers, [
    'if-match',
    'if-none-match',
  ])
  if (noneMatch !== undefined && noneMatch.trim() !== '*') {
    throw invalid('If-None-Match', '*', noneMatch)
  }
  return {
    match: match === undefined ? undefined : readTags(match),
    isNew: noneMatch !== undefined,
  }
}

function readTags(text: string): number[] | 'any' {
  if (text.trim() === '*') return 'any'
  const tags = text.split(',').map((tag) => tag.trim())
  if (!tags.every((tag) => /^(?:W\/)?"[^"]*"$/.test(tag))) {
    throw invalid('If-Match', '* or an ETag such as "12"', text)
  }
  return tags.flatMap((tag) => (/^"\d{1,15}"$/.test(tag) ? [Number(tag.slice(1, -1))] : []))
}

/** Reads `X-Actor`: who the client says that it is. @throws {@link Refusal} */
export function readActor(headers: Fields): string | null {
  const { 'x-actor': actor } = texts(headers, ['x-actor'])
  if (actor === undefined || actor === '') return null
  const name = decodeActor(actor)
  if (name !== undefined) return name
  const expected = `a name of 1 to ${MAX_ACTOR} characters, in ASCII or as UTF-8''Zo%C3%AB`
  throw invalid('X-Actor', expected, actor)
}

/** Reads `X-Write-Key`: the key of the source that a message came from. @throws {@link Refusal} */
export function readWriteKey(headers: Fields): string | undefined {
  const { 'x-write-key': encoded } = texts(headers, ['x-write-key'])
  if (encoded === undefined) return undefined
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw invalid('X-Write-Key', 'a percent-encoded write key', encoded)
  }
}

/** For how long a portal link is valid, and for whom it is. */
export interface LinkParameters {
  minutes: number
  by: string | null
}

/** In minutes: a day. Whoever has a link can use it until it ends. */
const MAX_LINK_MINUTES = 1_440

/** @throws {@link Refusal} */
export function readLink(body: Fields): LinkParameters {
  checkNames(body, ['minutes', 'by'])
  const { by } = texts(body, ['by'])
  if (by !== undefined && !isActorName(by)) {
    throw invalid(
      'by',
      `1 to ${MAX_ACTOR} characters, not only spaces, without control characters`,
      by,
    )
  }
  const minutes = count(body, 'minutes', 1, MAX_LINK_MINUTES, 'body') ?? 15
  return { minutes, by: by ?? null }
}

/** @returns the URLs of all endpoints of a destination, in their order. @throws {@link Refusal} */
export function readUrls(body: Fields): string[] {
  checkNames(body, ['webhooks'])
  const { webhooks } = body
  if (!Array.isArray(webhooks)) throw invalid('webhooks', 'a list of objects with a url', webhooks)
  return webhooks.map((webhook: unknown, i) => {
    const path = `webhooks[${i}]`
    if (!isFields(webhook)) throw invalid(path, 'an object with a url', webhook)
    checkNames(webhook, ['url'])
    const { url } = texts(webhook, ['url'])
    if (url === undefined) throw invalid(`${path}.url`, 'a URL', url)
    return url
  })
}

/** What to replay. */
export interface ReplayParameters {
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
export function readReplay(body: Fields): ReplayParameters {
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

/** Which filters to try, and on what. */
export type PreviewParameters = PreviewSubject & { filters: unknown } & (
    { call: unknown } | { latest: number }
  )

/** What has the sources, and the filters if none are given: a destination, or one that is about to be created. */
type PreviewSubject = { destination: string } | { sources: string[] }

/** The most sources of one preview. A call that is given is tried as one of each. */
const MAX_SOURCES = 1_000

/** The most stored calls in one preview. Each is read by itself. */
const MAX_LATEST = 200

/** @throws {@link Refusal} */
export function readPreview(body: Fields): PreviewParameters {
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
  checkNames(filter, ['match', ...REPLAY_FIELDS, ...OTHER_FIELDS])
  return { filter: { ...texts(filter, REPLAY_FIELDS), ...others(filter, 'body') } }
}

/** The parts of a filter that have a form of their own. */
function others(
  given: Fields,
  place: Place,
): Pick<Filter, 'isPrefix' | (typeof OTHER_FIELDS)[number]> {
  return {
    isPrefix: isPrefixIn(given),
    type: oneOf(given, 'type', EVENT_TYPES),
    code: oneOf(given, 'code', OUTCOME_CODES),
    status: statusRange(given['status']),
    endpoint: endpointOf(given),
    ...rangeOf(given, place),
  }
}

/** Whether texts are given by their start. Each text starts with an empty one, so an empty field would match everything. */
function isPrefixIn(given: Fields): boolean {
  if (oneOf(given, 'match', ['exact', 'prefix']) !== 'prefix') return false
  const empty = ['event', 'user', 'messageId'].find((name) => given[name] === '')
  if (empty === undefined) return true
  throw invalid(
    empty,
    'at least one character with "match": "prefix" (leave it out to match any)',
    '',
  )
}

/** A range without any time in it is a mistake: nothing would match it. */
function rangeOf(given: Fields, place: Place): Pick<Filter, 'since' | 'until'> {
  const since = count(given, 'since', 0, Number.MAX_SAFE_INTEGER, place)
  const until = count(given, 'until', 0, Number.MAX_SAFE_INTEGER, place)
  if (since === undefined || until === undefined || since < until) return { since, until }
  const message = `since must be earlier than until, got since ${since} and until ${until}.`
  throw new Refusal(400, 'invalid_parameter', message)
}

/** The URL of an endpoint as it is shown, also if it is given as the settings have it, with its query. */
function endpointOf(given: Fields): string | undefined {
  const { endpoint } = texts(given, ['endpoint'])
  return endpoint?.split(/[?#]/, 1)[0]
}

/** `503` is one status, and `5xx` is a class of them. */
function statusRange(value: unknown): Filter['status'] {
  if (value === undefined) return undefined
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text === 'string' && /^[1-9]\d\d$/.test(text)) {
    return { from: Number(text), to: Number(text) }
  }
  if (typeof text === 'string' && /^[1-9]xx$/.test(text)) {
    return { from: Number(text[0]) * 100, to: Number(text[0]) * 100 + 99 }
  }
  throw invalid('status', 'a status such as 503 or a class such as 5xx', value)
}

function oneOf<Value extends string>(
  given: Fields,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const value = given[name]
  if (value === undefined || values.includes(value as Value)) return value as Value | undefined
  throw invalid(name, `one of ${values.join(', ')}`, value)
}

/** Refuses unknown names. A misspelled filter that is ignored would match everything. */
export function checkNames(given: object, names: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !names.includes(name))
  if (unknown === undefined) return
  const known = names.join(', ') || 'none'
  const message = `Unknown parameter ${show(unknown)}. Known parameters: ${known}.`
  throw new Refusal(400, 'invalid_parameter', message)
}

function texts<Name extends string>(
  given: Fields,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {}
  for (const name of names) {
    const value = given[name]
    if (value === undefined) continue
    if (typeof value !== 'string') throw invalid(name, 'a single string', value)
    found[name] = value
  }
  return found
}

function count(
  given: Fields,
  name: string,
  min: number,
  max: number,
  place: Place = 'query',
): number | undefined {
  const value = given[name]
  if (value === undefined) return undefined
  const isText = place === 'query' && typeof value === 'string' && /^\d{1,16}$/.test(value)
  const number = isText ? Number(value) : value
  if (Number.isInteger(number) && (number as number) >= min && (number as number) <= max) {
    return number as number
  }
  const isAnyLarge = max === Number.MAX_SAFE_INTEGER && !(Number(value) > max)
  const range = isAnyLarge ? `of at least ${min}` : `from ${min} to ${max}`
  throw invalid(name, `a whole number ${range}`, value)
}

function flag(given: Fields, name: string): boolean {
  const { [name]: value = false } = given
  if (typeof value !== 'boolean') throw invalid(name, 'true or false', value)
  return value
}

/**
 * Reads which samples a test sends.
 *
 * @throws {@link Refusal}
 */
export function readTest(body: Fields): { types: readonly EventType[] } {
  checkNames(body, ['types'])
  const { types } = body
  if (types === undefined) return { types: EVENT_TYPES }
  const expected = `a list of one or more of ${EVENT_TYPES.join(', ')}`
  if (!Array.isArray(types) || types.length === 0) throw invalid('types', expected, types)
  const wrong = types.findIndex((one) => !EVENT_TYPES.includes(one as EventType))
  if (wrong !== -1)
    throw invalid(`types[${wrong}]`, `one of ${EVENT_TYPES.join(', ')}`, types[wrong])
  return { types: EVENT_TYPES.filter((type) => types.includes(type)) }
}

/** In characters. A reason is shown in one line or a few. */
const MAX_REASON = 500

/**
 * Reads why a destination is paused.
 *
 * @throws {@link Refusal}
 */
export function readPause(body: Fields): { reason: string } {
  checkNames(body, ['reason'])
  const { reason } = body
  const isText = typeof reason === 'string' && /\S/.test(reason)
  if (isText && reason.length <= MAX_REASON) return { reason }
  throw invalid('reason', `a text of 1 to ${MAX_REASON} characters`, reason)
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

/** The answer if the settings do not have a destination. */
export function unknownDestination(name: string): Refusal {
  const message = `The settings have no destination ${JSON.stringify(name)}.`
  return new Refusal(404, 'unknown_destination', message)
}

function invalid(name: string, expected: string, got: unknown): Refusal {
  return new Refusal(400, 'invalid_parameter', `${name} must be ${expected}, got ${show(got)}.`)
}
