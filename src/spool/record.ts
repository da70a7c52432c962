import { MAX_MESSAGE_BYTES } from '../limits.js'
import { crc32 } from './node.js'

// The layout of a record. Numbers are big-endian.
//
//     ff │ length: 3 bytes │ index in the segment: 4 │ JSON │ CRC-32 of all before it: 4
//
// The byte ff never occurs in UTF-8 text. After damage, the next record is searched from one ff to the next, and its
// index tells how many records were lost.

const MARK = 0xff
const HEAD_BYTES = 8
const CRC_BYTES = 4

/** What a record takes in addition to its JSON. */
export const RECORD_OVERHEAD = HEAD_BYTES + CRC_BYTES

export const MAX_RECORD_BYTES = MAX_MESSAGE_BYTES + RECORD_OVERHEAD

/** Where a record is within some bytes: from `from` up to `to`. */
export interface RecordAt {
  /** Its number within its segment. */
  readonly index: number
  readonly from: number
  readonly to: number
}

/** Holds the record that was made last. */
export const scratch = new Uint8Array(MAX_RECORD_BYTES)
const scratchView = new DataView(scratch.buffer)

/** Makes a record of a message's JSON in {@link scratch}, and gives its length. */
export function makeRecord(json: Uint8Array, index: number): number {
  const crcAt = HEAD_BYTES + json.length
  scratchView.setUint32(0, MARK * 0x1000000 + json.length)
  scratchView.setUint32(4, index)
  scratch.set(json, HEAD_BYTES)
  scratchView.setUint32(crcAt, crc32(scratch.subarray(0, crcAt)))
  return crcAt + CRC_BYTES
}

/** The JSON of a record. */
export function jsonOf(bytes: Uint8Array, { from, to }: RecordAt): Uint8Array {
  return bytes.subarray(from + HEAD_BYTES, to - CRC_BYTES)
}

/**
 * Finds all records that are whole, whatever is between them.
 *
 * @param isEnd - true if nothing follows; otherwise, the last bytes may be the start of a record
 * @returns the records, and the number of bytes that need not be searched again
 */
export function findRecords(
  bytes: Uint8Array,
  isEnd: boolean,
): { records: RecordAt[]; seen: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const records: RecordAt[] = []
  let at = 0
  while (at < bytes.length) {
    const record = recordAt(bytes, view, at)
    if (record) {
      records.push(record)
      at = record.to
    } else if (!isEnd && bytes.length - at < MAX_RECORD_BYTES) {
      return { records, seen: at }
    } else {
      const next = bytes.indexOf(MARK, at + 1)
      at = next < 0 ? bytes.length : next
    }
  }
  return { records, seen: at }
}

function recordAt(bytes: Uint8Array, view: DataView, from: number): RecordAt | undefined {
  if (bytes[from] !== MARK || from + RECORD_OVERHEAD > bytes.length) return undefined
  const length = view.getUint32(from) % 0x1000000
  const crcAt = from + HEAD_BYTES + length
  if (length > MAX_MESSAGE_BYTES || crcAt + CRC_BYTES > bytes.length) return undefined
  if (view.getUint32(crcAt) !== crc32(bytes.subarray(from, crcAt))) return undefined
  return { index: view.getUint32(from + 4), from, to: crcAt + CRC_BYTES }
}
