import { setTimeout as wait } from 'node:timers/promises'
import type { MaintainPort } from '../store/store.js'

/** Events of the retention. */
export interface RetentionEvents {
  /** Old deliveries could not be deleted. The next sweep tries again. */
  sweepFailed(error: unknown): void
}

/** The interval between sweeps of the store, in ms. */
const EVERY_MS = 60_000

/** Deliveries that are deleted at once. The pause between two slices keeps the delay of new calls short. */
const SLICE = 1_000
const PAUSE_MS = 20

/** Deletes deliveries that are older than the retention, once a minute, until it is stopped. */
export interface Retention {
  /** Resolves when the current sweep has ended. */
  stop(): Promise<void>
}

/**
 * Starts the retention.
 *
 * @param retentionMs - How long messages are kept by the current settings, in ms.
 */
export function startRetention(
  store: Pick<MaintainPort, 'sweep'>,
  retentionMs: () => number,
  events: RetentionEvents,
): Retention {
  const stopping = new AbortController()
  const { signal } = stopping
  const isStopped = () => signal.aborted
  const run = async () => {
    while (!isStopped()) {
      try {
        const changed = await store.sweep(retentionMs(), SLICE)
        await wait(changed < SLICE ? EVERY_MS : PAUSE_MS, undefined, { signal, ref: false })
      } catch (error) {
        if (isStopped()) return
        events.sweepFailed(error)
        await wait(EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined)
      }
    }
  }
  const running = run()
  return {
    stop: () => {
      stopping.abort()
      return running
    },
  }
}
