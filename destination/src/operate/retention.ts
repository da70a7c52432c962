import { setTimeout as wait } from 'node:timers/promises'
import type { MaintainPort, RecordPort } from '../store/store.js'

/** Events of the retention. */
export interface RetentionEvents {
  /** Old deliveries could not be deleted. The next sweep tries again. */
  sweepFailed(error: unknown): void
  /**
   * Messages of a destination have waited for longer than the retention, and became dead letters. Told once for each sweep, and once
   * a minute in a longer one.
   */
  expired(destination: string, count: number): void
}

/** The interval between sweeps of the store, in ms. */
const EVERY_MS = 60_000

/** The fewest and the most deliveries that one slice of a sweep deletes. */
const MIN_SLICE = 50
const MAX_SLICE = 1_000

/** How much of the store's time a sweep may take. */
interface Pace {
  /** In ms: a slice should take about this long. */
  sliceMs: number
  /** After a slice, the store is left alone for this many times as long as the slice took. */
  pauses: number
  /** The same for a sweep that has lasted for {@link LONG_SWEEP_MS}, because it may be too slow for all that comes in. */
  shortPauses: number
}

/** For a store whose other calls wait until a slice has ended. */
const PACE: Pace = { sliceMs: 4, pauses: 8, shortPauses: 4 }

/**
 * For a store that sweeps aside: it has to delete more than a worker delivers, of which a slice of a few rows is not capable, because
 * each takes several queries. One worker keeps at most a third of a core of the server busy, or half of one in a long sweep.
 */
const PACE_ASIDE: Pace = { sliceMs: 200, pauses: 2, shortPauses: 1 }

/** In ms: ten minutes. */
const LONG_SWEEP_MS = 600_000

/** How long the audit log is kept, in ms: 90 days. Deleted sources and destinations are remembered for as long. */
const AUDIT_MS = 90 * 86_400_000

/** What the next slice of a sweep is. */
interface Slice {
  /** The most deliveries that it deletes. */
  limit: number
  /** The pause before it, in ms. */
  pauseMs: number
}

/**
 * Plans the next slice, so that slices stay short on any disk, and take at most a ninth of the store's time, or a fifth in a long
 * sweep. In a store that sweeps aside they take at most a third of the time, or half of it.
 *
 * @param limit - The limit of the last slice.
 * @param ms - How long the last slice took.
 * @param sweepMs - How long the sweep has lasted.
 * @param isAside - Whether other calls of the store go on meanwhile.
 */
export function nextSlice(limit: number, ms: number, sweepMs: number, isAside: boolean): Slice {
  const { sliceMs, pauses, shortPauses } = isAside ? PACE_ASIDE : PACE
  const fitting = ms > sliceMs ? limit / 2 : ms < sliceMs / 2 ? limit * 2 : limit
  return {
    limit: Math.floor(Math.min(MAX_SLICE, Math.max(MIN_SLICE, fitting))),
    pauseMs: Math.ceil(ms * (sweepMs < LONG_SWEEP_MS ? pauses : shortPauses)),
  }
}

/** Deletes what is older than the retention, once a minute, until it is stopped. */
export interface Retention {
  /** Resolves when the current sweep has ended. */
  stop(): Promise<void>
}

/**
 * Starts the retention.
 *
 * @param retentionMs - How long messages are kept by the current settings, in ms.
 * @param afterwards - What follows once everything has been deleted that is too old. An error is reported as one of the sweep.
 */
export function startRetention(
  store: Pick<MaintainPort, 'sweep' | 'sweepsAside'> & Pick<RecordPort, 'forgetRecords'>,
  retentionMs: () => number,
  events: RetentionEvents,
  afterwards: () => Promise<void> = () => Promise.resolve(),
): Retention {
  const stopping = new AbortController()
  const { signal } = stopping
  const isStopped = () => signal.aborted
  let slice: Slice = { limit: MIN_SLICE, pauseMs: 0 }
  let sweepFrom = performance.now()
  const expired = new Map<string, number>()
  let toldAt = sweepFrom
  const tell = () => {
    for (const [destination, count] of expired) events.expired(destination, count)
    expired.clear()
    toldAt = performance.now()
  }
  const pause = async (ms: number) => {
    const dueAt = performance.now() + ms
    await wait(ms, undefined, { signal, ref: false })
    // The process stood still, and leases have run out meanwhile. What was answered before is to be saved first.
    if (performance.now() - dueAt > EVERY_MS) await pause(EVERY_MS)
  }
  const run = async () => {
    while (!isStopped()) {
      try {
        const { limit } = slice
        const startedAt = performance.now()
        const changed = await store.sweep(retentionMs(), limit, (destination, count) => {
          expired.set(destination, (expired.get(destination) ?? 0) + count)
        })
        const now = performance.now()
        slice = nextSlice(limit, now - startedAt, now - sweepFrom, store.sweepsAside ?? false)
        const isLast = changed < limit
        // A long sweep tells what it has done so far.
        if (isLast || now - toldAt >= EVERY_MS) tell()
        if (isLast) {
          await store.forgetRecords(AUDIT_MS, MAX_SLICE)
          await afterwards()
        }
        await pause(isLast ? EVERY_MS : slice.pauseMs)
        if (isLast) sweepFrom = toldAt = performance.now()
      } catch (error) {
        tell()
        if (isStopped()) return
        events.sweepFailed(error)
        await pause(EVERY_MS).catch(() => undefined)
        toldAt = performance.now()
      }
    }
  }
  const running = run().then(tell)
  return {
    stop: () => {
      stopping.abort()
      return running
    },
  }
}
