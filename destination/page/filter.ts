// The filter of a list of deliveries, as the address has it.
import { query } from './api.js'
import { clock, shortUrl } from './format.js'
import type { DeadGroup } from '../src/model/delivery.js'
import { outcome } from './words.js'

export const FIELDS = [
  ...(['state', 'range', 'since', 'until', 'destination', 'endpoint', 'status', 'code'] as const),
  ...(['cause', 'source', 'type', 'event', 'user', 'match'] as const),
] as const

export type Field = (typeof FIELDS)[number]
export type Filter = Partial<Record<Field, string>>

/** Of these, the start of the text is enough, in upper or lower case, if `match` says so. */
export const TEXTS: readonly Field[] = ['event', 'user']

/** Spans that end now. */
export const RANGES: Readonly<Record<string, { ms: number; words: string }>> = {
  '15m': { ms: 15 * 60_000, words: 'last 15 minutes' },
  '1h': { ms: 3_600_000, words: 'last hour' },
  '24h': { ms: 24 * 3_600_000, words: 'last 24 hours' },
  '7d': { ms: 7 * 24 * 3_600_000, words: 'last 7 days' },
}

export const STATES: readonly (readonly [string, string])[] = [
  ['', 'any state'],
  ['waiting', 'waiting'],
  ['dead', 'dead letters'],
  ['done', 'delivered'],
  ['skipped', 'skipped'],
]

export function filterOf(given: URLSearchParams): Filter {
  return Object.fromEntries(
    FIELDS.flatMap((field) => {
      const value = given.get(field)
      return value === null || value === '' ? [] : [[field, value]]
    }),
  )
}

/** The address of a filter: the same one for the same filter. */
export const hashOf = (filter: Filter): string =>
  `#/deliveries${query(Object.fromEntries(FIELDS.map((field) => [field, filter[field]])))}`

/** The filter as the admin API takes it: a span that ends now becomes the time at which it began. */
export function toApi(filter: Filter, now: number): Record<string, string> {
  const ms = filter.range === undefined ? undefined : RANGES[filter.range]?.ms
  const since = ms === undefined ? filter.since : String(Math.floor(now - ms))
  return Object.fromEntries(
    Object.entries({ ...filter, range: undefined, since }).filter(
      (field): field is [string, string] => field[1] !== undefined,
    ),
  )
}

/** The filter that a replay takes. Only dead letters are replayed by a filter, so it has no state. */
export function toReplay(filter: Filter, now: number): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(toApi(filter, now)).flatMap(([name, value]) => {
      if (name === 'state') return []
      return [[name, name === 'since' || name === 'until' ? Number(value) : value]]
    }),
  )
}

/** Whether anything but the state is filtered. */
export const isNarrow = (filter: Filter): boolean =>
  Object.keys(filter).some((field) => field !== 'state' && field !== 'match')

/** The filter that finds exactly the dead letters of a group. */
export function filterOfGroup({ destination, code, status, cause }: DeadGroup): Filter {
  return {
    state: 'dead',
    destination,
    ...(code !== null && { code }),
    ...(status !== null && { status: String(status) }),
    ...(cause !== '' && { cause }),
  }
}

/** Reads `since` and `until`: in ms since the epoch. `undefined` if it is no time, as in an address that somebody has typed. */
export function timeIn(value: string | undefined): number | undefined {
  const at = Number(value || NaN)
  return Number.isNaN(new Date(at).getTime()) ? undefined : at
}

/** The value of a field as a chip shows it. */
export function inWords(field: Field, value: string, now: number, match?: string): string {
  switch (field) {
    case 'state':
      return STATES.find(([one]) => one === value)?.[1] ?? value
    case 'range':
      return RANGES[value]?.words ?? value
    case 'since':
      return `from ${timeInWords(value, now)}`
    case 'until':
      return `until ${timeInWords(value, now)}`
    case 'code':
      return outcome(value)
    case 'endpoint':
      return shortUrl(value)
    case 'cause':
      return `“${value}”`
    default:
      return match === 'prefix' && TEXTS.includes(field)
        ? `${field} starts with ${value}`
        : `${field}: ${value}`
  }
}

function timeInWords(value: string, now: number): string {
  const at = timeIn(value)
  return at === undefined ? `“${value}”` : clock(at, now)
}
