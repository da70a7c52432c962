// The end of a round: nothing may wait any more. Then the destination is asked what it knows.
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../random/clock.js'
import { askDeliveries, askJson, askMetric } from './ask.js'

/** The last calls of a round, while everything is healthy, in batches. */
const VOLLEY = 6
const BATCH = 10
const LOOK_MS = 250
/** The waits after the first attempts of a message, and what is added at random, as destination/README.md has them. */
const WAITS_MS = [2_000, 5_000, 15_000, 45_000, 120_000, 300_000, 600_000]
/** The wait once they are used up. */
const LONG_WAIT_MS = 900_000
const JITTER = 1.2
/** The lease of a killed worker takes 30 s. The rest is for a backlog. */
const DRAIN_MS = 60_000
/** New messages are delivered in this time. */
const PROMPT_MS = 20_000
/** A backlog that gets no smaller for so long is stuck. */
const STUCK_MS = 10_000
/** A backlog behind a low limit may take so many times as long. */
const SLOWER = 3
/** So many messages are looked up. */
const SAMPLE = 40

/** The longest that a message which has failed for so long may wait for its next attempt. */
function longestWaitMs(failedMs) {
  let sum = 0
  return JITTER * (WAITS_MS.find((waitMs) => (sum += waitMs) > failedMs) ?? LONG_WAIT_MS)
}

/** Waits until nothing waits, sends the last calls, and collects what the destination says about all of it. */
export async function rest(parts, activeMs) {
  const { load, service, fault, tell } = parts
  const [url] = service.all
  for (const [audience, members] of load.audiences) await load.putAudience(audience, [...members])
  const startedAt = clock()
  await drained(parts, DRAIN_MS + longestWaitMs(activeMs))
  tell(`nothing waits any more, after ${Math.round(clock() - startedAt)} ms`)
  const dead = await askDeliveries(url, '&state=dead')
  await load.replay()
  await drained(parts, PROMPT_MS)

  const from = clock()
  const before = await totals(service.all)
  const batches = Array.from({ length: VOLLEY }, () =>
    load.send(BATCH, { isBulk: false, isCalm: true }),
  )
  await Promise.all(batches)
  await drained(parts, PROMPT_MS)
  const volley = { from, before, after: await totals(service.all) }
  tell('the last calls are delivered')
  const stored = await askDeliveries(url)
  const status = await askJson(url, 'status')
  const sample = stored.filter(() => Math.random() < SAMPLE / stored.length)
  const traces = await Promise.all(sample.map(({ id }) => askJson(url, `deliveries/${id}`)))
  for (const one of service.all) {
    const response = await fetch(`${one}/readyz`)
    if (response.status !== 200) fault('ready', `/readyz is answered ${response.status} at rest`)
  }
  return { dead, volley, stored, status, traces }
}

const waitingIn = ({ destinations, formerDestinations }) =>
  [...destinations, ...formerDestinations].reduce(
    (sum, { fresh, backlog, bulk, leased }) => sum + fresh + backlog + bulk + leased,
    0,
  )

async function nothingWaits(url) {
  const { deliveries } = await askJson(url, 'deliveries?state=waiting&limit=1')
  return deliveries.length === 0
}

async function drained({ service, fault }, withinMs) {
  const [url] = service.all
  let status
  let least = Infinity
  let late = clock() + withinMs
  for (const latest = clock() + SLOWER * withinMs; clock() < late; await sleep(LOOK_MS)) {
    status = await askJson(url, 'status')
    const waiting = waitingIn(status)
    // PostgreSQL keeps counts that took long, so they may be from before the last calls.
    if (waiting === 0 && (await nothingWaits(url))) return
    if (waiting < least) late = Math.min(latest, Math.max(late, clock() + STUCK_MS))
    least = Math.min(least, waiting)
  }
  const left = status.destinations.filter(
    (one) => waitingIn({ destinations: [one], formerDestinations: [] }) > 0,
  )
  fault(
    'drain',
    `${waitingIn(status)} wait ${withinMs} ms after everything is healthy: ${JSON.stringify(left)}`,
  )
}

/** Attempts by destination and outcome, and messages by destination and result, of all processes together. */
async function totals(urls) {
  const sums = new Map()
  for (const url of urls) {
    for (const name of ['hookline_attempts_total', 'hookline_messages_total']) {
      for (const [labels, value] of await askMetric(url, name)) {
        const key = `${labels.destination} ${labels.outcome ?? labels.result}${labels.result ? ' message' : ''}`
        sums.set(key, (sums.get(key) ?? 0) + value)
      }
    }
  }
  return sums
}
