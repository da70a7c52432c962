const number = new Intl.NumberFormat('en')
const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const minute = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' })
const exact = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  timeZoneName: 'short',
})
const zoned = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', timeZoneName: 'short' })
const hour = new Intl.DateTimeFormat('en-GB', {
  weekday: 'short',
  hour: '2-digit',
  minute: '2-digit',
})
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

export const count = (value: number): string => number.format(value)

/** `1 call`, `2 calls`. */
export const counted = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`

/** The whole date and time to the millisecond, with the time zone and in UTC. */
export const exactly = (at: number): string => `${exact.format(at)} (${new Date(at).toISOString()})`

/** The short name of the browser's time zone at a time: `CET`, `GMT+2`. */
export const zone = (at: number): string =>
  zoned.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? ''

/** The day of the week and the time, for charts of several days. */
export const clockDay = (at: number): string => hour.format(at)

/** The time of day to the second, with the date if it isn't today. */
export const clock = (at: number, now: number): string => withDay(at, now, time.format(at))

/** The time of day to the minute, with the date if it isn't today. */
export const clockMinute = (at: number, now: number): string => withDay(at, now, minute.format(at))

function withDay(at: number, now: number, text: string): string {
  return day.format(at) === day.format(now) ? text : `${day.format(at)} ${text}`
}

const UNITS = [
  { ms: 86_400_000, name: 'd' },
  { ms: 3_600_000, name: 'h' },
  { ms: 60_000, name: 'min' },
  { ms: 1_000, name: 's' },
] as const

/** A duration in its two largest units: `3 h 12 min`, `45 s`, `850 ms`. */
export function span(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  const at = UNITS.findIndex((unit) => ms >= unit.ms)
  const [first, second] = [UNITS[at], UNITS[at + 1]]
  if (first === undefined) return ''
  const whole = Math.floor(ms / first.ms)
  const rest = second === undefined ? 0 : Math.floor((ms % first.ms) / second.ms)
  return second === undefined || rest === 0
    ? `${whole} ${first.name}`
    : `${whole} ${first.name} ${rest} ${second.name}`
}

/** A duration of at least one second, for countdowns: milliseconds would only flicker. */
export const seconds = (ms: number): string => span(Math.max(1_000, ms))

/** A share as a percentage. It is rounded down so that 99.97 % does not read as 100 %, and a small share never as 0 %. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return 'under 0.1 %'
  return `${Math.floor(share * 1_000 + 1e-9) / 10} %`
}

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** A large number in a narrow place: `12.3K`. */
export const compact = (value: number): string =>
  value < 10_000 ? count(value) : short.format(value)

/** A rate per second, with as many decimals as it needs. */
export const rate = (value: number): string =>
  value === 0 ? '0' : value < 10 ? value.toFixed(value < 0.1 ? 2 : 1) : count(Math.round(value))

/** A URL without `https://` and without a slash at the end. Other schemes stay. */
export const shortUrl = (url: string): string => url.replace(/^https:\/\//, '').replace(/\/$/, '')
