// Describes in sentences what is wrong. This file uses no browser API, so that tests can run it in Node.
import { clockMinute, count, counted, percent, shortUrl, span } from './format.js'
import { healthOf, isBlocking, recentOf } from '../src/model/health.js'
import type { Health } from '../src/model/health.js'
import type {
  Bucket,
  DestinationStatus,
  EndpointStatus,
  BreakerState,
  EndpointHistories,
  FormerDestination,
  ServerStatus,
  SourceStatus,
  Status,
} from '../src/model/answers.js'
import { waitingIn, type State } from '../src/model/delivery.js'

/** How important a sentence is. `bad`: act now. `warn`: look at it soon. `note`: for information. */
export type Weight = 'bad' | 'warn' | 'note'

export interface Sentence {
  weight: Weight
  /** The destination or source that the sentence is about. */
  subject: string
  text: string
  /** A link to the view with the details. */
  href?: string
}

const DEADLINE_MS = 4 * 3_600_000
/** After this wait, a message has one hour left before its deadline. */
const LATE_MS = 3 * 3_600_000
/** In ms: the failure rate of an endpoint is that of the last 5 minutes, or of the last minute with requests. */
const RECENT_MS = 5 * 60_000

const VERBS: Readonly<Record<string, string>> = {
  throttled: 'asks to slow down (429)',
  timeout: 'does not answer in time',
  dns_error: 'has a host name that DNS does not resolve',
  connection_refused: 'refuses connections',
  connection_reset: 'closes connections without an answer',
  connection_failed: 'can’t be reached',
  tls_error: 'has a certificate that is not trusted',
  address_refused: 'is in a network that the settings do not allow',
  endpoint_busy: 'is too busy for more requests',
}

/** `answers 503`, `refuses connections`, … */
export function verb({ code, status }: { code: string; status: number | null }): string {
  return VERBS[code] ?? (status === null ? 'fails' : `answers ${status}`)
}

const OUTCOMES: Readonly<Record<string, string>> = {
  delivered: 'delivered',
  server_error: 'server error',
  throttled: 'throttled',
  request_timeout: 'request timeout',
  client_error: 'permanently refused',
  redirect: 'redirect not followed',
  timeout: 'no answer in time',
  dns_error: 'host name not resolved',
  connection_refused: 'connection refused',
  connection_reset: 'connection reset',
  connection_failed: 'connection failed',
  tls_error: 'certificate not trusted',
  address_refused: 'network not allowed',
  endpoint_down: 'not sent: endpoint down',
  endpoint_busy: 'not sent: endpoint busy',
}

/** All codes, for filters. Nothing is stored of an attempt that was not sent. */
export const OUTCOME_CODES: readonly string[] = Object.keys(OUTCOMES).filter(
  (code) => code !== 'endpoint_down' && code !== 'endpoint_busy',
)

/** The outcome of an attempt in words. An unknown code is returned unchanged. */
export const outcome = (code: string): string => OUTCOMES[code] ?? code

const STATES: Readonly<Record<State, string>> = {
  fresh: 'waiting',
  backlog: 'waiting',
  bulk: 'waiting (bulk)',
  leased: 'being sent',
  done: 'delivered',
  dead: 'dead letter',
  skipped: 'skipped',
}

export const stateInWords = (state: State): string => STATES[state]

export const BREAKERS: Readonly<Record<BreakerState, string>> = {
  closed: 'healthy',
  'half-open': 'recovering',
  open: 'down',
}

const HEALTHS: Readonly<Record<Health, string>> = {
  down: 'down',
  failing: 'failing',
  unsteady: 'failing',
  recovering: 'recovering',
  healthy: 'healthy',
  paused: 'paused',
  idle: 'idle',
  disabled: 'disabled',
}

/** The state of a destination or an endpoint: `failing 100 %`, `healthy`. */
export function healthInWords(health: Health, failedShare: number | null): string {
  const isFailing = health === 'failing' || health === 'unsteady'
  return isFailing && failedShare !== null ? `failing ${percent(failedShare)}` : HEALTHS[health]
}

/** A breaker without a `Retry-After` waits 30 s and a fifth at most. */
const LONGEST_PROBE_MS = 36_000

const isDown = (state: BreakerState): boolean => state === 'open'

/** What the sentences are made from. */
type News = Pick<Status, 'now' | 'servers' | 'sources' | 'destinations' | 'formerDestinations'> & {
  histories: EndpointHistories
}

/** What a list lacks, because servers of the store are away. The portal does not know their names. */
export function missing(away: readonly string[]): string {
  if (away.length === 0) return 'A part of the store can’t be reached. What it has is missing here.'
  const names = away.join(', ')
  return away.length === 1
    ? `The server ${names} of the store can’t be reached. What it has is missing here.`
    : `The servers ${names} of the store can’t be reached. What they have is missing here.`
}

/** Everything that needs attention, the most important first. */
export function sentences(status: News): Sentence[] {
  const { histories } = status
  const all = [
    ...(status.servers ?? []).flatMap(ofServer),
    ...status.destinations.flatMap((destination) => [
      ...destination.endpoints.flatMap((endpoint) => {
        const buckets = bucketsOf(histories, destination.name, endpoint.url)
        return ofEndpoint(destination, endpoint, buckets, status.now)
      }),
      ...ofDestination(destination, status.now),
    ]),
    ...status.formerDestinations.map(ofFormer),
    ...status.sources.flatMap(ofSource),
  ]
  const order: Weight[] = ['bad', 'warn', 'note']
  return all.sort((a, b) => order.indexOf(a.weight) - order.indexOf(b.weight))
}

function ofServer({ name, error }: ServerStatus): Sentence[] {
  if (error === null) return []
  const text = `is a server of the store that fails. Calls of its sources are refused, and its messages wait. ${error}`
  return [{ weight: 'bad', subject: name, text }]
}

function bucketsOf(histories: EndpointHistories, destination: string, url: string): Bucket[] {
  const found = histories.endpoints.find(
    (endpoint) => endpoint.destination === destination && endpoint.url === url,
  )
  return found?.buckets ?? []
}

function ofEndpoint(
  { name, fresh, backlog, bulk }: DestinationStatus,
  { url, breaker, lastFailure, failuresInARow, deliveredInARow }: EndpointStatus,
  buckets: readonly Bucket[],
  now: number,
): Sentence[] {
  const subject = name
  const of = `#/deliveries?destination=${encodeURIComponent(name)}&endpoint=${encodeURIComponent(url)}`
  const failures = lastFailure === null ? of : `${of}&code=${lastFailure.code}`
  const href = `#/deliveries?state=waiting&destination=${encodeURIComponent(name)}`
  const place = shortUrl(url)
  if (breaker === null) return []
  const calls = fresh + backlog + bulk
  const waiting = calls > 0 ? `; ${counted(calls, 'call is', 'calls are')} waiting` : ''
  const pause = Math.ceil(breaker.pausedMs / 1_000)
  if (isDown(breaker.state)) {
    const what = lastFailure === null ? 'is down' : verb(lastFailure)
    const next =
      breaker.pausedMs > LONGEST_PROBE_MS
        ? `it asked for a pause, and the next call is sent in ${pause} s`
        : 'one call at a time is sent as a probe, at intervals of up to 30 s'
    const text = `${place} ${what}${downFor(buckets, now)}; ${next}${waiting}.`
    return [{ weight: 'bad', subject, text, href: lastFailure === null ? href : failures }]
  }
  const recent = recentOf(buckets, now)
  const health = healthOf(breaker.state, recent, { failuresInARow, deliveredInARow })
  if (health === 'failing') {
    const text = `${place} fails ${percent(recent.failed / recent.sent)}: ${requests(recent, buckets, now)}${lastFailure === null ? '' : `; it ${verb(lastFailure)}`}${waiting}.`
    return [{ weight: 'bad', subject, text, href: failures }]
  }
  if (breaker.state === 'half-open') {
    const text = `${place} is recovering: it gets ${counted(breaker.allowed, 'request')} at once, and more after each success${waiting}.`
    return [{ weight: 'note', subject, text, href }]
  }
  if (breaker.pausedMs > 0) {
    const text = `${place} asked for fewer requests: it gets the next one in ${pause} s${waiting}.`
    return [{ weight: 'warn', subject, text, href }]
  }
  if (health === 'recovering') {
    const text = `${place} is recovering: ${requests(recent, buckets, now)}, and the last ${count(deliveredInARow ?? 0)} were delivered${waiting}.`
    return [{ weight: 'note', subject, text, href: failures }]
  }
  if (health !== 'unsteady') return []
  const text = `${place}: ${requests(recent, buckets, now)}${lastFailure === null ? '' : `; sometimes it ${verb(lastFailure)}`}.`
  return [{ weight: 'warn', subject, text, href: failures }]
}

function requests(
  { sent, failed }: { sent: number; failed: number },
  buckets: readonly Bucket[],
  now: number,
): string {
  const isRecent = buckets.some((one) => one.at > now - RECENT_MS && one.delivered + one.failed > 0)
  const when = isRecent ? 'in the last 5 minutes' : 'in its last minute with requests'
  return `${count(failed)} of ${counted(sent, 'request')} failed ${when}`
}

/** How long the endpoint has been down. A minute counts as down if the breaker was open at any time in it. */
function downFor(buckets: readonly Bucket[], now: number): string {
  // The current minute may not have a sample of the breaker yet.
  const known = buckets.slice(0, isDown(buckets.at(-1)?.breaker ?? 'closed') ? undefined : -1)
  const lastHealthy = known.findLastIndex(({ breaker }) => !isDown(breaker))
  const first = known[lastHealthy + 1]
  if (first === undefined) return ''
  // The page reads one hour only, so the endpoint may have been down for longer.
  if (lastHealthy === -1 && now - first.at > 59 * 60_000) return ' for an hour or longer'
  return ` since ${clockMinute(first.at, now)}`
}

function ofDestination(destination: DestinationStatus, now: number): Sentence[] {
  const { name, enabled, paused, dead, oldestMs, filters } = destination
  const found: Sentence[] = []
  const query = `destination=${encodeURIComponent(name)}`
  if (filters !== null && isBlocking(filters)) {
    const text = `Its filters have let none of ${counted(filters.stopped, 'call')} through. Check them in the settings.`
    found.push({ weight: 'warn', subject: name, text, href: `#/deliveries?state=skipped&${query}` })
  }
  if (!enabled) {
    const text = 'This destination is disabled in the settings and gets no calls.'
    found.push({ weight: 'note', subject: name, text })
  }
  if (paused !== null) {
    const text = `Paused since ${clockMinute(paused.at, now)}: ${paused.reason}`
    found.push({
      weight: 'warn',
      subject: name,
      text,
      href: `#/destinations/${encodeURIComponent(name)}`,
    })
  }
  // A pause holds the 4 hours of a message that has had no attempt, so they say nothing here.
  if (paused === null && oldestMs > LATE_MS) {
    const left = DEADLINE_MS - oldestMs
    const text =
      left > 0
        ? `The oldest call has waited for ${span(oldestMs)}. It becomes a dead letter in ${span(left)}.`
        : `The oldest call has waited for ${span(oldestMs)}.`
    found.push({
      weight: 'bad',
      subject: name,
      text,
      href: `#/deliveries?state=waiting&${query}`,
    })
  }
  if (dead > 0) {
    const text = `${counted(dead, 'dead letter')}. Dead letters are sent again only if you replay them.`
    found.push({ weight: 'warn', subject: name, text, href: `#/deliveries?state=dead&${query}` })
  }
  return found
}

function ofFormer(former: FormerDestination): Sentence {
  const { name, dead } = former
  const waiting = waitingIn(former)
  const kept = [
    ...(waiting > 0 ? [counted(waiting, 'call is waiting', 'calls are waiting')] : []),
    ...(dead > 0 ? [counted(dead, 'dead letter is kept', 'dead letters are kept')] : []),
  ].join(' and ')
  return {
    weight: waiting > 0 ? 'bad' : 'warn',
    subject: name,
    text: `${kept}, but the settings no longer have this destination. Put it back under this name to send them.`,
    href: `#/deliveries?destination=${encodeURIComponent(name)}`,
  }
}

function ofSource({ name, accepted, rejected }: SourceStatus): Sentence[] {
  if (rejected === 0) return []
  const share = rejected / (accepted + rejected)
  const text = `${counted(rejected, 'call')} refused since the start, which is ${percent(share)} of its calls. The answers to its requests give the reasons.`
  return [{ weight: share > 0.01 ? 'warn' : 'note', subject: `source ${name}`, text }]
}
