import { isDeepStrictEqual } from 'node:util'
import type { Verdict } from '../enqueue/enqueue.js'
import type { FilterCount } from '../model/answers.js'
import { isBlocking } from '../model/health.js'
import type { Destination } from '../settings/settings.js'
import type { Observer } from './events.js'
import type { Log } from './log.js'

interface Counted extends FilterCount {
  destination: Destination
}

/**
 * Counts what the filters of each destination let through, and warns of filters that let nothing through: one wrong letter in
 * a filter hides every call.
 */
export class FilterCounts implements Observer {
  readonly #log: Pick<Log, 'warn'>
  readonly #counts = new Map<string, Counted>()

  constructor(log: Pick<Log, 'warn'>) {
    this.#log = log
  }

  /** Filters were asked about a call. */
  filtered(_call: unknown, { destination, reason }: Verdict): void {
    const counts = this.#of(destination)
    if (reason === undefined) {
      counts.passed++
      return
    }
    const wasBlocking = isBlocking(counts)
    counts.stopped++
    if (wasBlocking || !isBlocking(counts)) return
    const { stopped } = counts
    this.#log.warn(
      { destination: destination.name, stopped, last: reason },
      'the filters of this destination have let no call through so far; check them, also for upper and lower case: POST /v1/admin/filters/preview says what they stop',
    )
  }

  /** The counts since the filters of a destination were last changed, or since the start; `null` if it has no filters. */
  of(destination: Destination): FilterCount | null {
    if ((destination.filters ?? []).length === 0) return null
    const { passed, stopped } = this.#of(destination)
    return { passed, stopped }
  }

  #of(destination: Destination): Counted {
    const { name, filters } = destination
    let counts = this.#counts.get(name)
    // Each reload makes a new object for the destination, often with the same filters.
    if (counts && counts.destination !== destination) {
      if (isDeepStrictEqual(counts.destination.filters, filters)) counts.destination = destination
      else counts = undefined
    }
    if (!counts) this.#counts.set(name, (counts = { destination, passed: 0, stopped: 0 }))
    return counts
  }
}
