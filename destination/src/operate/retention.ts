import { setTimeout as wait } from 'node:timers/promises'
import type { MaintainPort } from '../store/store.js'

/** What happens while old deliveries are deleted. */
export interface RetentionEvents {
  /** Old deliveries could not be deleted; this is tried again. */
  sweepFailed(error: unknown): void
}

/** How often the store is swept, in ms. */
const EVERY_MS = 60_000

/** So many are deleted at once, with a pause after them: what is accepted meanwhile does not wait long. */
const SLICE = 1_000
const PAUSE_MS = 20

/** Deletes what the store has kept for long enough, now and then, until it is told to stop. */
export interface Retention {
  /** Resolves once no sweep is under way. */
  stop(): Promise<void>
}

/**
 * @param retentionMs - How long messages are kept, in ms, by the settings of the moment.
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
