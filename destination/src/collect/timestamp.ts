/** Times of four-digit years, in ms: others have no ISO 8601 form that all receivers read. */
const MIN_MS = Date.parse('0000-01-01T00:00:00.000Z')
const MAX_MS = Date.parse('9999-12-31T23:59:59.999Z')

/** A number below it (a day in 1973, as milliseconds) is taken for seconds, which are refused. */
const MIN_EPOCH_MS = 1e11

/**
 * Up to here a difference between `sentAt` and the clock here is the way that the request took (clients wait
 * 10 s, and some send one body again), and the time of the call stays as it was given. Above, it is a clock
 * that is wrong.
 */
const MAX_TRAVEL_MS = 60_000

const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)? ?(?:(Z)|([+-]\d\d):?(\d\d)?)?)?$/i

/**
 * Reads a time: ISO 8601 (a date alone, or with a time; `Z`, an offset, or no zone, which is UTC), or a number
 * of milliseconds since the epoch.
 *
 * @returns milliseconds since the epoch; `undefined` if it is no time.
 */
export function parseTime(given: unknown): number | undefined {
  if (typeof given === 'number' && given >= MIN_EPOCH_MS) return inRange(Math.trunc(given))
  if (isForwardable(given)) return Date.parse(given)
  const parts = typeof given === 'string' ? ISO_8601.exec(given) : null
  if (!parts) return undefined
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = ''] = parts
  const [zoneHour = '+00', zoneMinute = '00'] = parts.slice(9)
  // `Date` itself takes 30 February for 2 March.
  const lastDay = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > lastDay) return undefined
  const time = `${hour}:${minute}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}`
  return inRange(Date.parse(`${year}-${month}-${day}T${time}${zoneHour}:${zoneMinute}`))
}

function inRange(ms: number): number | undefined {
  return ms >= MIN_MS && ms <= MAX_MS ? ms : undefined
}

/** Nearly every time that comes in, told without a `Date`; the last days of a month need the calendar. */
const USUAL =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/

/** Whether a time has the form in which it is forwarded already: milliseconds, UTC. */
export function isForwardable(given: unknown): given is string {
  if (typeof given !== 'string' || given.length !== 24) return false
  if (USUAL.test(given)) return true
  const date = new Date(given)
  return !Number.isNaN(date.getTime()) && date.toISOString() === given
}

/** Corrects a time by an error of the client's clock; gives the form in which it is forwarded. */
export function toForwardable(ms: number, skewMs: number): string {
  return new Date(Math.min(Math.max(ms + skewMs, MIN_MS), MAX_MS)).toISOString()
}

/**
 * How far the clock of a client is behind.
 *
 * @param sentAt - When the client sent the request, by its own clock; what is no time tells nothing.
 * @param receivedAt - When it arrived, by the clock here: ms since the epoch.
 */
export function skewMsOf(sentAt: unknown, receivedAt: number): number {
  if (sentAt === undefined || sentAt === null) return 0
  const sentMs = parseTime(sentAt)
  if (sentMs === undefined) return 0
  const skewMs = receivedAt - sentMs
  return Math.abs(skewMs) > MAX_TRAVEL_MS ? skewMs : 0
}
