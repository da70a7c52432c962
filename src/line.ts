import { countFitting, createBatch, cutBatch, ENVELOPE_BYTES } from './batch.js'
import type { BodySize } from './body-size.js'
import type { Batch, Entry } from './entry.js'

/** The messages that have not been tried. */
export interface Untried {
  /** How many messages may be sent. */
  readonly closedLength: number
  take(maxMessages: number, maxBytes: number, before: number): Entry[]
  findFrom(sequence: number): Entry | undefined
  remove(entry: Entry): void
}

/** All messages that are to be sent in their order: batches and pieces that were tried, and the queue, whose messages may be older. */
export class Line {
  readonly #queue: Untried
  /** Batches and pieces that were tried, the oldest first. */
  #tried: Batch[] = []

  constructor(queue: Untried) {
    this.#queue = queue
  }

  get isEmpty(): boolean {
    return this.#tried.length === 0 && this.#queue.closedLength === 0
  }

  /** Takes the oldest messages, as many as the endpoint can take. */
  takeFirst(size: BodySize): Batch {
    const [first] = this.#tried
    const before = first?.entries[0]?.sequence ?? Infinity
    const queued = this.#queue.take(size.messages, size.bytes - ENVELOPE_BYTES, before)
    if (!first || queued.length > 0) return createBatch(queued)

    this.#tried.shift()
    const { pieceMessages, refusal } = first.search
    const maxMessages = Math.min(pieceMessages, size.messages)
    const messages = countFitting(first.entries, maxMessages, refusal ? Infinity : size.bytes)
    if (messages === first.entries.length) return first
    const [piece, rest] = cutBatch(first, messages)
    this.#tried.unshift(rest)
    return piece
  }

  /** Takes one message, so far behind the first one that was tried; `undefined` if the line ends before. */
  takeBehind(distance: number): Batch | undefined {
    const [first] = this.#tried
    const entry = this.#findFrom((first?.entries[0]?.sequence ?? 0) + distance)
    return entry && this.#takeAlone(entry)
  }

  /**
   * Takes any one message behind the first one. The more were tried alone, the more seldom it is another one: each that leaves its
   * batch has a request of its own later, also after an outage.
   */
  takeAnywhere(farthest: number): Batch {
    const singles = this.#tried.slice(1).filter(({ entries }) => entries.length === 1)
    const isOther = Math.random() * singles.length < 1
    const known = isOther ? undefined : singles[Math.floor(Math.random() * singles.length)]
    if (known) return this.#takeAlone(known.entries[0] as Entry)
    for (
      let far = Math.ceil(Math.random() * farthest);
      far > 1;
      far = Math.floor(Math.random() * far)
    ) {
      const batch = this.takeBehind(far)
      if (batch) return batch
    }
    return this.takeBehind(1) ?? (this.takeBehind(0) as Batch) // it is not empty
  }

  #findFrom(place: number): Entry | undefined {
    const queued = this.#queue.findFrom(place)
    const all = this.#tried.flatMap(({ entries }) => entries)
    if (queued) all.push(queued)
    return all
      .filter(({ sequence }) => sequence >= place)
      .sort((a, b) => a.sequence - b.sequence)[0]
  }

  #takeAlone(entry: Entry): Batch {
    const at = this.#tried.findIndex(({ entries }) => entries.includes(entry))
    const batch = this.#tried[at]
    if (!batch) {
      this.#queue.remove(entry)
      return createBatch([entry])
    }
    const [start, rest] = cutBatch(batch, batch.entries.indexOf(entry))
    const [alone, end] = cutBatch(rest, 1)
    const others = [start, end].filter(({ entries }) => entries.length > 0)
    this.#tried.splice(at, 1, ...others)
    return others.length > 0 ? alone : batch
  }

  /** Puts a batch back to its place. */
  putBack(batch: Batch): void {
    this.#tried = [...this.#tried, batch].sort(byAge)
  }

  /** Puts the pieces of the first batch back. */
  putFirst(...pieces: Batch[]): void {
    this.#tried.unshift(...pieces)
  }

  /**
   * Takes the rest of the batch that this message was cut from, if it is to be given up. Before that, its last
   * message is tried alone: it shows whether the endpoint takes any.
   */
  takeRestOf(batch: Batch): Entry[] {
    const { search } = batch
    const rest = this.#tried.filter((piece) => piece.search === search)
    const last = rest.at(-1)
    if (!last || search.refusal !== 400) return []
    this.#tried = this.#tried.filter((piece) => piece.search !== search)
    if (search.sample === batch) return rest.flatMap(({ entries }) => entries)
    const [start, sample] = cutBatch(last, last.entries.length - 1)
    search.sample = sample
    const kept = start.entries.length > 0 ? [start] : []
    this.putFirst(sample, ...rest.slice(0, -1), ...kept)
    return []
  }

  /** Takes all that was tried. */
  takeTried(): Batch[] {
    const tried = this.#tried
    this.#tried = []
    return tried
  }
}

function byAge(a: Batch, b: Batch): number {
  return (a.entries[0]?.sequence ?? 0) - (b.entries[0]?.sequence ?? 0)
}
