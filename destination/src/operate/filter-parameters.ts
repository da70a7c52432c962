import { Refusal } from '../http/refusal.js'
import { EVENT_TYPES } from '../model/call.js'
import type { Filter, SearchPlace, State } from '../model/delivery.js'
import type { Fields } from '../model/fields.js'
import { OUTCOME_CODES } from '../model/outcome.js'
import { checkNames, count, invalid, oneOf, texts, type Place } from './parameters.js'

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

/** Reads the filter in the body of a replay. @throws {@link Refusal} */
export function readReplayFilter(filter: Fields): Filter {
  checkNames(filter, ['match', ...REPLAY_FIELDS, ...OTHER_FIELDS])
  return { ...texts(filter, REPLAY_FIELDS), ...others(filter, 'body') }
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
