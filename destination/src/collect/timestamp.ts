/** The first and the last ms of four-digit years. Not every receiver can read ISO 8601 with longer years. */
const MIN_MS = Date.parse('0000-01-01T00:00:00.000Z')
export const MAX_MS = Date.parse('9999-12-31T23:59:59.999Z')

/** A smaller number would be a time before March 1973. It is most likely in seconds, so it is refused. */
export const MIN_EPOCH_MS = 1e11

/**
 * A difference of up to this many ms between `sentAt` and the clock of this machine is the time that the request took:
 * clients wait 10 s, and some send the same body again. The time of the call is then not corrected. A larger
 * difference means that the clock of the client is wrong.
 */
const MAX_TRAVEL_MS = 60_000

const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)? ?(?:(Z)|([+-]\d\d):?(\d\d)?)?)?$/i

/**
 * Reads a time: ISO 8601, or a number of milliseconds since the epoch, from {@link MIN_EPOCH_MS} to {@link MAX_MS}. ISO 8601
 * may be a date, with or without a time.
 * The zone may be `Z` or an offset; without a zone the time is in UTC.
 *
 * @returns milliseconds since the epoch; `undefined` if the value is not a time.
 */
export function parseTime(given: unknown): number | undefined {
  if (typeof given === 'number' && given >= MIN_EPOCH_MS) return inRange(Math.trunc(given))
  if (isForwardable(given)) return Date.parse(given)
  const parts = typeof given === 'string' ? ISO_8601.exec(given) : null
  if (!parts) return undefined
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = ''] = parts
  const [zoneHour = '+00', zoneMinute = '00'] = parts.slice(9)
  // `Date` does not reject 30 February, but reads it as 2 March.
  const lastDay = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > lastDay) return undefined
  const time = `${hour}:${minute}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}`
  return inRange(Date.parse(`${year}-${month}-${day}T${time}${zoneHour}:${zoneMinute}`))
}

function inRange(ms: number): number | undefined {
  return ms >= MIN_MS && ms <= MAX_MS ? ms : undefined
}

/** Matches nearly every time without the cost of a `Date`. The days 29 to 31 need the calendar, so they do not match. */
const USUAL =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/

/** Whether a time already has the form in which it is forwarded: with milliseconds, in UTC. */
export function isForwardable(given: unknown): given is string {
  if (typeof given !== 'string' || given.length !== 24) return false
  if (USUAL.test(given)) return true
  const date = new Date(given)
  return !Number.isNaN(date.getTime()) && date.toISOString() === given
}

/**
 * Corrects a time by the error of the client's clock, and formats it as it is forwarded.
 *
 * @param ms - Milliseconds since the epoch. The result is limited to four-digit years.
 */
export function toForwardable(ms: number, skewMs: number): string {
  return new Date(Math.min(Math.max(ms + skewMs, MIN_MS), MAX_MS)).toISOString()
}

/**
 * Estimates how many ms the clock of a client is behind.
 *
 * @param sentAt - When the client sent the request, by its own clock. A value that is not a time is ignored.
 * @param receivedAt - When the request arrived, by the clock of this machine: ms since the epoch.
 * @returns 0 if the difference may be the travel time of the request, or `sentAt` is not a time.
 */
export function skewMsOf(sentAt: unknown, receivedAt: number): number {
  if (sentAt === undefined || sentAt === null) return 0
  const sentMs = parseTime(sentAt)
  if (sentMs === undefined) return 0
  const skewMs = receivedAt - sentMs
  return Math.abs(skewMs) > MAX_TRAVEL_MS ? skewMs : 0
}
