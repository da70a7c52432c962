// The application of the benchmarks: it makes calls, a few in each turn of the event loop.
import { setTimeout as sleep } from 'node:timers/promises'
import { buildEvent } from './event.js'
import { turn } from './measure.js'

const CALLS_A_TURN = 20

/**
 * About 8 MB of JSON. A producer that is faster than the network has to wait for it somewhere: here,
 * for every subject alike, it makes no calls while this many of them have no outcome.
 */
const PAUSE_AT_EVENTS = 15_000

/** A subject that takes longer than this for one run is cut off, and its row says so. */
export const CAP_MS = 30_000

/**
 * Makes the calls `from` to `from + count - 1`, pausing while too many events are under way.
 *
 * @returns the number of calls made, fewer than asked for if time ran out, and the time inside them
 */
export async function produce(subject, { from = 0, count, deadline = performance.now() + CAP_MS }) {
  const end = from + count
  let seq = from
  let insideMs = 0
  while (seq < end && performance.now() < deadline) {
    const turnEnd = Math.min(seq + CALLS_A_TURN, end)
    const start = performance.now()
    for (; seq < turnEnd; seq += 1) subject.track(buildEvent(seq))
    insideMs += performance.now() - start
    await turn()
    while (subject.pending() > PAUSE_AT_EVENTS && performance.now() < deadline) await sleep(1)
  }
  return { made: seq - from, insideMs }
}

/** Waits for the flush of a subject, but not past the deadline. True if it finished. */
export async function finish(flushed, deadline) {
  const late = Symbol('late')
  const waiting = new AbortController()
  const timer = sleep(Math.max(0, deadline - performance.now()), late, { signal: waiting.signal })
  const first = await Promise.race([flushed, timer.catch(() => undefined)])
  waiting.abort()
  return first !== late
}
