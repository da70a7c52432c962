import { entryBytes, type Batch, type Entry } from './entry.js'
import { createId } from './id.js'
import { MAX_BODY_BYTES } from './limits.js'

const encoder = new TextEncoder()
const head = encoder.encode('{"batch":[')
const tail = (id: string, sentAt: string) => `],"messageId":"${id}","sentAt":"${sentAt}"}`
const ID_LENGTH = 36
const TIME_LENGTH = 24
const envelopeBytes = head.length + tail('0'.repeat(ID_LENGTH), '0'.repeat(TIME_LENGTH)).length

/** What a batch's messages may take, with the commas between them. */
export const MAX_BATCH_BYTES = MAX_BODY_BYTES - envelopeBytes

/** Makes a batch of messages; what was tried as a part of `former` goes on counting. */
export function createBatch(entries: readonly Entry[], former?: Batch): Batch {
  let bodyBytes = envelopeBytes + entries.length - 1
  for (const entry of entries) bodyBytes += entryBytes(entry)
  const { attempts, retries, startedMs } = former ?? {
    attempts: 0,
    retries: 0,
    startedMs: performance.now(),
  }
  return { id: createId(), entries, bodyBytes, attempts, retries, startedMs }
}

/** Halves a batch that the server would not take as a whole, in order. */
export function splitBatch(batch: Batch): [Batch, Batch] {
  const middle = Math.ceil(batch.entries.length / 2)
  return [
    createBatch(batch.entries.slice(0, middle), batch),
    createBatch(batch.entries.slice(middle), batch),
  ]
}

/** The bytes of one attempt. Messages that lie next to each other in a slab are copied in one go. */
export function encodeBody(batch: Batch, sentAt: string): Uint8Array<ArrayBuffer> {
  const { entries } = batch
  const body = new Uint8Array(batch.bodyBytes)
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
  encoder.encodeInto(tail(batch.id, sentAt), body.subarray(at))
  return body
}
