import { entryBytes, type Batch, type Entry } from './entry.js'
import { createId } from './id.js'
import { encoder, nowMs } from './runtime.js'

const head = encoder.encode('{"batch":[')
const tail = (id: string, sentAt: string) => `],"messageId":"${id}","sentAt":"${sentAt}"}`
const TAIL_BYTES = tail('0'.repeat(36), '0'.repeat(24)).length

/** What a body takes beside its messages and the commas between them, in bytes. */
export const ENVELOPE_BYTES = head.length + TAIL_BYTES

/** Makes a batch of messages. A piece of `former` inherits what happened to that batch. */
export function createBatch(entries: readonly Entry[], former?: Batch): Batch {
  let bodyBytes = ENVELOPE_BYTES + entries.length - 1
  for (const entry of entries) bodyBytes += entryBytes(entry)
  const history = former ?? {
    attempts: 0,
    retries: 0,
    startedMs: nowMs(),
    failure: undefined,
    strikes: 0,
    cuts: 0,
    search: { pieceMessages: Infinity },
  }
  return { ...history, id: createId(), entries, bodyBytes }
}

/** Cuts a batch in two, in order. */
export function cutBatch(batch: Batch, firstMessages: number): [Batch, Batch] {
  return [
    createBatch(batch.entries.slice(0, firstMessages), batch),
    createBatch(batch.entries.slice(firstMessages), batch),
  ]
}

export function halfOf({ entries }: Batch): number {
  return Math.ceil(entries.length / 2)
}

/** How many of the first messages fit into a body: at least one. */
export function countFitting(
  entries: readonly Entry[],
  maxMessages: number,
  maxBodyBytes: number,
): number {
  const most = Math.min(entries.length, Math.max(1, maxMessages))
  let bytes = ENVELOPE_BYTES - 1
  for (let count = 0; count < most; count++) {
    bytes += 1 + entryBytes(entries[count] as Entry) // count is below the length
    if (bytes > maxBodyBytes) return Math.max(1, count)
  }
  return most
}

/** The bytes of one attempt. Messages that are neighbours in a slab are copied in one go. */
export function encodeBody(batch: Batch, sentAt: string): Uint8Array<ArrayBuffer> {
  const { entries } = batch
  const end = encoder.encode(tail(batch.id, sentAt)) // a time after the year 9999, or of a fake Date, has another length
  const body = new Uint8Array(batch.bodyBytes - TAIL_BYTES + end.length)
  body.set(head)
  let at = head.length
  let from = entries[0]
  for (const [index, entry] of entries.entries()) {
    const next = entries[index + 1]
    if (next?.slab === entry.slab && next.start === entry.end + 1) continue
    if (from) {
      const start = at === head.length ? from.start : from.start - 1
      body.set(entry.slab.subarray(start, entry.end), at)
      at += entry.end - start
    }
    from = next
  }
  body.set(end, at)
  return body
}
