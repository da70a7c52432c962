// What is wrong, in words. Nothing here touches the browser.
import { clockMinute, count, counted, percent, shortUrl, span } from './format.js'
import type {
  Bucket,
  DestinationStatus,
  EndpointStatus,
  BreakerState,
  EndpointHistories,
  SourceStatus,
  Status,
} from '../src/model/answers.js'
import type { State } from '../src/model/delivery.js'

/** How much a sentence matters: something is down, something wants a look, or it is good to know. */
export type Weight = 'bad' | 'warn' | 'note'

export interface Sentence {
  weight: Weight
  /** Whom it is about. */
  subject: string
  text: string
  /** Where more is to be seen. */
  href?: string
}

const DEADLINE_MS = 4 * 3_600_000
/** A message that has waited so long has an hour left. */
const LATE_MS = 3 * 3_600_000
/** Minutes that tell how an endpoint does now. */
const RECENT = 5

const VERBS: Readonly<Record<string, string>> = {
  throttled: 'asks to slow down (429)',
  timeout: 'does not answer in time',
  dns_error: 'has no address: its name is not in the DNS',
  connection_refused: 'refuses connections',
  connection_reset: 'cuts connections',
  connection_failed: 'can’t be reached',
  tls_error: 'has a certificate that is not trusted',
  address_refused: 'is in a network that must not be reached',
  endpoint_busy: 'has no room for more',
}

/** `answers 503`, `refuses connections`, … */
export function verb({ code, status }: { code: string; status: number | null }): string {
  return VERBS[code] ?? (status === null ? 'fails' : `answers ${status}`)
}

const OUTCOMES: Readonly<Record<string, string>> = {
  delivered: 'delivered',
  server_error: 'server error',
  throttled: 'asked to slow down',
  request_timeout: 'timed out there',
  client_error: 'refused for good',
  redirect: 'redirected',
  timeout: 'no answer in time',
  dns_error: 'no address',
  connection_refused: 'connection refused',
  connection_reset: 'connection cut',
  connection_failed: 'no connection',
  tls_error: 'certificate not trusted',
  address_refused: 'network not allowed',
  endpoint_down: 'not sent: endpoint down',
  endpoint_busy: 'not sent: endpoint busy',
}

/** A code of an attempt in words; one that is not known as it is. */
export const outcome = (code: string): string => OUTCOMES[code] ?? code

const STATES: Readonly<Record<State, string>> = {
  fresh: 'waiting',
  backlog: 'waiting',
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

const isDown = (state: BreakerState): boolean => state === 'open'

/** All that somebody on call should know, the worst first. */
export function sentences(status: Status, histories: EndpointHistories | undefined): Sentence[] {
  const all = [
    ...status.destinations.flatMap((destination) => [
      ...destination.endpoints.flatMap((endpoint) => {
        const buckets = bucketsOf(histories, destination.name, endpoint.url)
        return ofEndpoint(destination, endpoint, buckets, status.now)
      }),
      ...ofDestination(destination),
    ]),
    ...status.sources.flatMap(ofSource),
  ]
  const order: Weight[] = ['bad', 'warn', 'note']
  return all.sort((a, b) => order.indexOf(a.weight) - order.indexOf(b.weight))
}

export function bucketsOf(
  histories: EndpointHistories | undefined,
  destination: string,
  url: string,
): Bucket[] {
  const found = histories?.endpoints.find(
    (endpoint) => endpoint.destination === destination && endpoint.url === url,
  )
  return found?.buckets ?? []
}

function ofEndpoint(
  { name, fresh, backlog }: DestinationStatus,
  { url, breaker, lastFailure }: EndpointStatus,
  buckets: readonly Bucket[],
  now: number,
): Sentence[] {
  const subject = name
  const href = `#/deliveries?state=waiting&destination=${encodeURIComponent(name)}`
  const place = shortUrl(url)
  if (breaker === null) return []
  const waiting = fresh + backlog
  if (isDown(breaker.state)) {
    const what = lastFailure === null ? 'is down' : verb(lastFailure)
    const parts = [
      `${place} ${what}${downFor(buckets, now)}`,
      'one call at a time probes it, every 30 s at most',
      ...(waiting > 0 ? [counted(waiting, 'call waits', 'calls wait')] : []),
    ]
    return [{ weight: 'bad', subject, text: `${parts.join('; ')}.`, href }]
  }
  if (breaker.state === 'half-open') {
    const text = `${place} is recovering: ${counted(breaker.allowed, 'request')} at once, more with each success${waiting > 0 ? `; ${counted(waiting, 'call waits', 'calls wait')}` : ''}.`
    return [{ weight: 'note', subject, text, href }]
  }
  const recent = buckets.filter(({ at }) => at > now - RECENT * 60_000)
  const delivered = sum(recent, 'delivered')
  const failed = sum(recent, 'failed')
  if (failed === 0 || failed / (failed + delivered) < 0.05) return []
  const text = `${place}: ${count(failed)} of ${counted(failed + delivered, 'request')} failed in the last ${RECENT} minutes${lastFailure === null ? '' : `; it ${verb(lastFailure)}`}.`
  return [{ weight: 'warn', subject, text }]
}

/** Since when it is down: for all of the minutes up to now, in each of which it was down at some time. */
function downFor(buckets: readonly Bucket[], now: number): string {
  // In the present minute, the state of the breaker may not have been noted yet.
  const known = buckets.slice(0, isDown(buckets.at(-1)?.breaker ?? 'closed') ? undefined : -1)
  const lastHealthy = known.findLastIndex(({ breaker }) => !isDown(breaker))
  const first = known[lastHealthy + 1]
  if (first === undefined) return ''
  // Older ones are not asked for: it may have begun before.
  if (lastHealthy === -1 && now - first.at > 59 * 60_000) return ' for an hour or longer'
  return ` since ${clockMinute(first.at, now)}`
}

function ofDestination(destination: DestinationStatus): Sentence[] {
  const { name, enabled, dead, oldestMs } = destination
  const found: Sentence[] = []
  const query = `destination=${encodeURIComponent(name)}`
  if (!enabled) {
    found.push({ weight: 'note', subject: name, text: 'is switched off: it gets no calls.' })
  }
  if (oldestMs > LATE_MS) {
    const left = DEADLINE_MS - oldestMs
    const text =
      left > 0
        ? `the oldest call has waited for ${span(oldestMs)}: in ${span(left)} it becomes a dead letter.`
        : `the oldest call has waited for ${span(oldestMs)}.`
    found.push({
      weight: 'bad',
      subject: name,
      text,
      href: `#/deliveries?state=waiting&${query}`,
    })
  }
  if (dead > 0) {
    const text = `${counted(dead, 'dead letter')}: nobody tries ${dead === 1 ? 'it' : 'them'} again unless you do.`
    found.push({ weight: 'warn', subject: name, text, href: `#/deliveries?state=dead&${query}` })
  }
  return found
}

function ofSource({ name, accepted, rejected }: SourceStatus): Sentence[] {
  if (rejected === 0) return []
  const share = rejected / (accepted + rejected)
  const text = `${counted(rejected, 'call')} refused since the start, ${percent(share)} of what it sent; the answers to its requests say why.`
  return [{ weight: share > 0.01 ? 'warn' : 'note', subject: `source ${name}`, text }]
}

function sum(buckets: readonly Bucket[], field: 'delivered' | 'failed'): number {
  return buckets.reduce((total, bucket) => total + bucket[field], 0)
}
