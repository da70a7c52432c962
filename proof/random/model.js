// What a plan allows: how long health, recovery and the end of the client may take. All bounds come from the speed of
// the planned endpoint and from the documented waits, and are generous.
import {
  EXIT_MS,
  FIRST_WAIT_MS,
  longestWaitMs,
  MAX_BODY_BYTES,
  MAX_BODY_MESSAGES,
  MAX_WAIT_MS,
  MOST_EXIT_MS,
  TRIES_BEFORE_SPLIT,
} from './contract.js'

/** A process needs this to start, a request to be made, on a machine that does other things too. */
const START_MS = 5_000
const REQUEST_MS = 30
/** A larger body is found by some smaller ones, and a smaller one by some larger ones. */
const STEPS = 20
const CALL_MS = 0.1

const sum = (numbers) => numbers.reduce((total, one) => total + one, 0)

export const isRetryablePoison = ({ poison }) =>
  poison !== undefined && poison.status !== 400 && poison.status !== 413

/** When the load has been made and the endpoint has entered its last phase, in ms from the begin. */
const calmAtMs = ({ load, calls, endpoint, freezes }) =>
  Math.max(
    0,
    ...load.turns.map(([atMs]) => atMs),
    ...calls.map(({ atMs }) => atMs),
    endpoint.phases.at(-1).atMs,
    ...freezes.map(({ atMs, forMs }) => atMs + forMs),
  )

/** The wait that is left when an endpoint has become healthy again after so long, Retry-After included. */
function lastWaitMs({ endpoint, client }) {
  const faultyMs = endpoint.phases.at(-1).atMs
  if (faultyMs === 0) return 0
  const asked = Math.max(0, ...endpoint.phases.map(({ retryAfterS = 0 }) => retryAfterS * 1_000))
  // Waits grow by doubling: the next one is at most twice what all before took, and then the first.
  return Math.min(MAX_WAIT_MS, 2 * (faultyMs + client.timeout) + 2 * FIRST_WAIT_MS) + asked
}

/** How many messages of a slow collector fit into the timeout, and how often a body is halved until it does. */
function halvings({ load, client, endpoint }) {
  const messages = Math.min(MAX_BODY_MESSAGES, sum(load.turns.map(([, count]) => count)))
  const bodyMs = endpoint.latencyMs + endpoint.msPerMessage * messages
  return bodyMs <= client.timeout ? 0 : Math.ceil(Math.log2(bodyMs / client.timeout)) + 1
}

/**
 * How often one message may be stored by an endpoint in its last phase: until bodies are small enough for it, and
 * until the neighbour is found whose answer can't be read.
 */
export function mostStores(plan) {
  const isUnread = plan.endpoint.poison?.kind.startsWith('stored')
  return 3 + halvings(plan) + (isUnread ? TRIES_BEFORE_SPLIT + Math.log2(MAX_BODY_MESSAGES) : 0)
}

const waitsMs = (count, from = 1) =>
  sum(Array.from({ length: count }, (_, failure) => longestWaitMs(from + failure)))

/** All that is delivered needs at most this, from the calm on. */
function drainMs(plan) {
  const { load, client, endpoint } = plan
  const messages = sum(load.turns.map(([, count]) => count))
  const bytes = messages * load.bytes?.[1] || 0
  const bodyBytes = Math.min(
    MAX_BODY_BYTES,
    client.maxBatchBytes ?? Infinity,
    endpoint.limitBytes ?? Infinity,
  )
  const poisoned = endpoint.poison?.ids.length ?? 0
  const splits = poisoned * Math.ceil(Math.log2(MAX_BODY_MESSAGES))
  const requests = 2 * (messages / client.flushAt + (2 * bytes) / bodyBytes + splits) + STEPS
  const steps = halvings(plan)
  const serving =
    requests * (endpoint.latencyMs + REQUEST_MS) + 2 * messages * endpoint.msPerMessage
  const adapting = steps * client.timeout + waitsMs(steps, steps > 0 ? waitsSoFar(plan) : 1)
  const isolating = isRetryablePoison(endpoint)
    ? poisoned * (waitsMs(TRIES_BEFORE_SPLIT + 4) + splits * longestWaitMs(1))
    : 0
  return lastWaitMs(plan) + serving + adapting + isolating + client.flushAfter + messages * CALL_MS
}

/** The number of failures that an outage before the calm can have led to. */
const waitsSoFar = ({ endpoint }) =>
  1 + Math.ceil(Math.log2(1 + endpoint.phases.at(-1).atMs / FIRST_WAIT_MS))

/** A process that is not over by then hangs. `whole` is the plan with the load, also for the heir of its spool. */
export function longestMs(plan, whole = plan) {
  const { end, client, endpoint } = plan
  const calm = calmAtMs(plan)
  const closing = end.timeout ?? Infinity
  const ending = endpoint.phases.at(-1).kind === 'ok' ? EXIT_MS : MOST_EXIT_MS
  return START_MS + calm + Math.min(closing + calm, drainMs(whole)) + ending + client.timeout
}
