import { startDeadline } from './runtime.js'
import type { FlushResult } from './types.js'

type Counts = { -readonly [Outcome in keyof FlushResult]: number }

/** The messages that were accepted between one flush and the next. */
interface Stretch extends Counts {
  /** The last of them; Infinity until a flush ends the stretch. */
  lastSequence: number
  /** How many of them have no outcome yet. */
  left: number
  readonly waiters: Set<Waiter>
}

/** A caller that waits until all messages of a stretch, and of those before it, have their outcome. */
interface Waiter {
  /** The outcomes before the caller came. */
  readonly before: FlushResult
  readonly resolve: (result: FlushResult) => void
  readonly cancel: () => void
}

/** Complete stretches are cut off the list once they are most of it, and at least this many. */
const MIN_CUT = 1_024

/**
 * Who waits for which messages. An outcome is counted in the stretch of its message alone, so it costs the
 * same for one caller and for 100,000 of them.
 *
 *     complete │ ended by a flush, callers wait │ open
 *              │← head                          │← last
 */
export class Flushes {
  #stretches: Stretch[] = [openStretch()]
  #head = 0
  /** The outcomes of all stretches that are complete. */
  readonly #complete: Counts = { delivered: 0, failed: 0 }
  readonly #total: Counts = { delivered: 0, failed: 0 }
  /** Stretches that are not complete and have outcomes already. */
  readonly #begun = new Set<Stretch>()
  /** Up to this place in the sequence, nobody waits for an outcome any more. */
  #endedUpTo = 0

  /** Messages were accepted that will have their outcome later. */
  accepted(count: number): void {
    this.#open.left += count
  }

  /**
   * Resolves once all messages up to `lastSequence`, the last that was accepted, have their outcome. After the
   * timeout it resolves with the outcomes that are there.
   */
  wait(lastSequence: number, timeoutMs: number): Promise<FlushResult> {
    const stretch = this.#endStretch(lastSequence)
    return new Promise((resolve) => {
      const giveUp = () => {
        this.#release(stretch, waiter, this.#upTo(stretch))
      }
      const cancel = startDeadline(timeoutMs, giveUp)
      const waiter = { before: { ...this.#total }, resolve, cancel }
      stretch.waiters.add(waiter)
    })
  }

  /** A message has its outcome. */
  settled(sequence: number, outcome: keyof FlushResult): void {
    if (sequence <= this.#endedUpTo) return
    const stretch = this.#stretchOf(sequence)
    this.#total[outcome]++
    stretch[outcome]++
    stretch.left--
    this.#begun.add(stretch)
    if (stretch.left === 0) this.#completeFirst()
  }

  /**
   * Some of the messages up to `lastSequence`, the last that was accepted, will have no outcome that anybody waits for.
   *
   * @returns lets those go who wait for any of these messages, with the outcomes that are there by then
   */
  end(lastSequence: number): () => void {
    this.#endStretch(lastSequence)
    return () => {
      this.#endedUpTo = lastSequence
      for (const stretch of this.#stretches.slice(this.#head)) {
        if (stretch.lastSequence <= lastSequence) stretch.left = 0
      }
      this.#completeFirst()
    }
  }

  get #open(): Stretch {
    return this.#stretches.at(-1) as Stretch // the list is never empty
  }

  #endStretch(lastSequence: number): Stretch {
    const ended = this.#stretches.at(-2)
    if (this.#head < this.#stretches.length - 1 && ended?.lastSequence === lastSequence)
      return ended
    const stretch = this.#open
    stretch.lastSequence = lastSequence
    this.#stretches.push(openStretch())
    return stretch
  }

  #stretchOf(sequence: number): Stretch {
    let low = this.#head
    let high = this.#stretches.length - 1
    if (sequence <= this.#at(low).lastSequence) high = low // by far the most frequent case
    while (low < high) {
      const middle = (low + high) >> 1
      if (sequence <= this.#at(middle).lastSequence) high = middle
      else low = middle + 1
    }
    return this.#at(low)
  }

  #at(index: number): Stretch {
    return this.#stretches[index] as Stretch // the callers stay inside of the list
  }

  #completeFirst(): void {
    for (let first = this.#at(this.#head); isComplete(first); first = this.#at(this.#head)) {
      this.#head++
      this.#begun.delete(first)
      this.#complete.delivered += first.delivered
      this.#complete.failed += first.failed
      for (const waiter of first.waiters) this.#release(first, waiter, this.#complete)
    }
    if (this.#head >= MIN_CUT && this.#head * 2 > this.#stretches.length) {
      this.#stretches = this.#stretches.slice(this.#head)
      this.#head = 0
    }
  }

  /** The outcomes of a stretch and of those before it. */
  #upTo({ lastSequence }: Stretch): Counts {
    const counts = { ...this.#complete }
    for (const begun of this.#begun) {
      if (begun.lastSequence > lastSequence) continue
      counts.delivered += begun.delivered
      counts.failed += begun.failed
    }
    return counts
  }

  #release(stretch: Stretch, waiter: Waiter, counts: Counts): void {
    stretch.waiters.delete(waiter)
    waiter.cancel()
    waiter.resolve({
      delivered: counts.delivered - waiter.before.delivered,
      failed: counts.failed - waiter.before.failed,
    })
  }
}

function openStretch(): Stretch {
  return { lastSequence: Infinity, left: 0, delivered: 0, failed: 0, waiters: new Set() }
}

function isComplete({ lastSequence, left }: Stretch): boolean {
  return lastSequence !== Infinity && left === 0
}
