import fs, { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { findRecords, jsonOf, makeRecord, scratch } from '../../src/spool/record.js'
import { Segment, type Stretch } from '../../src/spool/segment.js'
import { anyCharacter } from '../characters.js'
import { temporary } from './directory.js'

const bytesOf = (text: string) => new TextEncoder().encode(text)
const toRecord = (json: Uint8Array, index: number) => scratch.slice(0, makeRecord(json, index))
const textOf = (json: Uint8Array) => new TextDecoder().decode(json)

const HEAD_BYTES = 24
const MESSAGES = ['{"n":0}', '{"n":"é€𝄞"}', '', '{"n":[3,"\u0001"]}', '{}', '{"n":5}']

const directory = temporary(afterAll)

/** A segment as a crash leaves it, or sealed. */
function written({ isSealed = false, settled = 0 } = {}): Buffer {
  const path = join(directory, 'a.log')
  const segment = Segment.create(path)
  for (const message of MESSAGES) segment.append(bytesOf(message))
  for (let index = 0; index < settled; index++) {
    segment.settle(index, bytesOf(MESSAGES[index] ?? '').length)
  }
  segment.saveSettled()
  if (isSealed) segment.seal()
  segment.close()
  const bytes = readFileSync(path)
  segment.remove()
  return bytes
}

/** What can be read of a file, each message with its index, and how many are known to be lost. */
function recovered(bytes: Buffer, path: string) {
  writeFileSync(path, bytes)
  const { segment, torn } = Segment.load(path)
  const { unread, unreadBytes } = segment
  const stretches: Stretch[] = []
  while (segment.unread > 0) stretches.push(...segment.read())
  segment.close()
  const whole = stretches.flatMap(({ index, json }) =>
    json ? [[index, textOf(json)] as const] : [],
  )
  const lost = stretches.filter(({ json }) => !json)
  // The sums that the books rely on.
  expect(stretches.reduce((sum, { count }) => sum + count, 0)).toBe(unread)
  expect(stretches.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(unreadBytes)
  return { whole, lost, torn }
}

const RECORDS = MESSAGES.map((message, index) => Buffer.from(toRecord(bytesOf(message), index)))
const all = MESSAGES.map((message, index) => [index, message] as const)

/** Where each record starts and ends in a file. */
function extents(bytes: Buffer) {
  const { records } = findRecords(bytes.subarray(HEAD_BYTES), true)
  return records.map(({ from, to }) => [from + HEAD_BYTES, to + HEAD_BYTES] as const)
}

describe('a record', () => {
  test('is as documented: mark, length, index, JSON, CRC-32', () => {
    const record = Buffer.from(toRecord(bytesOf('{"a":1}'), 5))
    expect(record.subarray(0, 8).toString('hex')).toBe('ff00000700000005')
    expect(record.subarray(8, 15).toString()).toBe('{"a":1}')
    expect(record.readUInt32BE(15)).toBe(crc32(record.subarray(0, 15)))
    expect(record).toHaveLength(19)
  })

  test('is found among any bytes, each in its place, however they are cut into reads', () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 40 }).map((noise) => ({ noise })),
      fc.string({ unit: anyCharacter, maxLength: 40 }).map((text) => ({ text })),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.nat(300), (pieces, cut) => {
        const wanted: string[] = []
        const parts = pieces.map((one) => {
          if ('noise' in one) return Buffer.from(one.noise)
          const json = bytesOf(one.text)
          wanted.push(textOf(json))
          return Buffer.from(toRecord(json, wanted.length - 1))
        })
        const bytes = Buffer.concat(parts)
        const found = findRecords(bytes, true).records
        expect(found.map((record) => textOf(jsonOf(bytes, record)))).toEqual(wanted)
        const first = findRecords(bytes.subarray(0, cut), false)
        const rest = findRecords(bytes.subarray(first.seen), true)
        expect(first.records.length + rest.records.length).toBe(wanted.length)
      }),
    )
  })
})

describe.each([
  ['as a crash leaves it', false],
  ['sealed', true],
])('a segment %s', (_, isSealed) => {
  const path = join(directory, 'b.log')
  const bytes = written({ isSealed })

  test('gives back what was written', () => {
    expect(recovered(bytes, path)).toEqual({ whole: all, lost: [], torn: new Uint8Array(0) })
  })

  test('with any one bit flipped gives back all messages but the one that it was in', () => {
    const places = extents(bytes)
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const at = bit >> 3
      const flipped = Buffer.from(bytes)
      flipped[at] = (flipped[at] ?? 0) ^ (1 << (bit & 7))
      const { whole, lost, torn } = recovered(flipped, path)
      const hit = places.findIndex(([from, to]) => at >= from && at < to)
      expect(whole).toEqual(all.filter(([index]) => index !== hit))
      if (hit < 0) continue // in the head: what is done, and the end, are found out again
      const kept = lost[0]?.damaged ?? torn
      expect(Buffer.from(kept)).toEqual(flipped.subarray(...(places[hit] ?? [])))
      expect(lost.length).toBe(hit === MESSAGES.length - 1 && !isSealed ? 0 : 1)
    }
  })

  test('cut anywhere gives back all messages before the cut', () => {
    const places = extents(bytes)
    for (let length = HEAD_BYTES; length < bytes.length; length++) {
      const { whole, lost } = recovered(bytes.subarray(0, length), path)
      const left = places.filter(([, to]) => to <= length).length
      expect(whole).toEqual(all.slice(0, left))
      // Only one that was sealed can tell how many there were.
      expect(lost.reduce((sum, { count }) => sum + count, 0)).toBe(isSealed ? 6 - left : 0)
    }
  })

  test('cut in its head gives back nothing, and no error', () => {
    for (let length = 0; length < HEAD_BYTES; length++) {
      expect(recovered(bytes.subarray(0, length), path).whole).toEqual([])
    }
  })

  test('damaged in any way gives back each message that is still whole, once, and no other', () => {
    const at = fc.oneof(fc.nat(HEAD_BYTES), fc.nat(bytes.length))
    const damage = fc.array(
      fc.oneof(
        fc.record({ at, put: fc.uint8Array({ maxLength: 20 }) }),
        fc.record({ at, put: fc.uint8Array({ minLength: 200, maxLength: 400 }) }),
        fc.record({ at, cut: fc.nat(60) }),
        fc.record({ at, cut: fc.constant(bytes.length) }),
      ),
      { minLength: 1, maxLength: 4 },
    )
    fc.assert(
      fc.property(damage, fc.nat(MESSAGES.length), (hits, settled) => {
        let broken = written({ isSealed, settled })
        for (const hit of hits) {
          const to = 'put' in hit ? hit.at : hit.at + hit.cut
          const put = 'put' in hit ? hit.put : new Uint8Array(0)
          broken = Buffer.concat([broken.subarray(0, hit.at), put, broken.subarray(to)])
        }
        writeFileSync(path, broken)
        const { segment } = Segment.load(path)
        const seen: number[] = []
        let left = segment.unread
        while (segment.unread > 0) {
          for (const { index, count, bytes, json } of segment.read()) {
            left -= count
            expect(bytes).toBeGreaterThanOrEqual(0)
            if (!json) continue
            seen.push(index)
            expect(textOf(json)).toBe(MESSAGES[index])
          }
          segment.saveSettled() // overwrites the head, which may hold no record
        }
        segment.close()
        expect([left, segment.unreadBytes]).toEqual([0, 0])
        expect(seen).toEqual([...new Set(seen)].sort())
        const whole = RECORDS.flatMap((record, index) => (broken.includes(record) ? [index] : []))
        expect(seen.filter((index) => index >= settled)).toEqual(
          whole.filter((index) => index >= settled),
        )
      }),
      { numRuns: 1000 },
    )
  })
})

test('a segment that a full disk does not take leaves no file, open or closed', () => {
  const path = join(directory, 'full.log')
  const close = vi.spyOn(fs, 'closeSync')
  vi.spyOn(fs, 'writeSync').mockImplementation(() => {
    throw new Error('ENOSPC')
  })
  onTestFinished(() => {
    vi.restoreAllMocks()
  })
  expect(() => Segment.create(path)).toThrow('ENOSPC')
  expect(existsSync(path)).toBe(false)
  expect(close).toHaveBeenCalledOnce()
})

describe('what has its outcome', () => {
  test.each([0, 1, 3, 6])('is left out by the next reader: %i', (settled) => {
    const path = join(directory, 'c.log')
    const { whole } = recovered(written({ settled }), path)
    expect(whole).toEqual(all.slice(settled))
  })

  test('needs no record any more: it may be lost', () => {
    const path = join(directory, 'e.log')
    const bytes = written({ settled: 4 })
    expect(recovered(bytes.subarray(0, extents(bytes)[2]?.[0]), path).whole).toEqual([])
  })

  test('counts once all before it has its own', () => {
    const path = join(directory, 'd.log')
    const segment = Segment.create(path)
    segment.firstSequence = 10
    for (const message of MESSAGES) segment.append(bytesOf(message))
    const settle = (index: number) => {
      segment.settle(10 + index, bytesOf(MESSAGES[index] ?? '').length)
      segment.saveSettled()
      return recovered(readFileSync(path), `${path}.copy`).whole.map(([left]) => left)
    }
    expect(settle(2)).toEqual([0, 1, 2, 3, 4, 5])
    expect(settle(0)).toEqual([1, 2, 3, 4, 5])
    expect(segment.pending).toBe(4)
    expect(settle(1)).toEqual([3, 4, 5])
    expect(segment.has(12)).toBe(false)
    expect(segment.has(13)).toBe(true)
    segment.close()
  })
})
