import { describe, expect, test } from 'vitest'
import { toCall } from '../../../src/cli/import/call.js'
import { Ledger } from '../../../src/cli/import/ledger.js'

const call = (fields: Record<string, unknown>, line = 1) =>
  toCall({ line, text: JSON.stringify(fields), fields }, undefined)

describe('a line as a call', () => {
  test('has what the call has, and not what an export adds', () => {
    const fields = {
      type: 'track',
      messageId: 'm1',
      userId: 7,
      event: 'a',
      properties: { n: null },
    }
    const added = { writeKey: 'k', receivedAt: 'x', channel: 'server', version: '1', context: null }
    expect(call({ ...fields, ...added })).toEqual({
      type: 'track',
      message: { messageId: 'm1', userId: '7', event: 'a', properties: { n: null } },
    })
  })

  test('takes the original timestamp where there is no other', () => {
    const at = (fields: object) => {
      const made = call({ type: 'track', ...fields })
      return typeof made === 'string' ? made : made.message['timestamp']
    }
    expect(at({ originalTimestamp: 'o' })).toBe('o')
    expect(at({ originalTimestamp: 'o', timestamp: 't' })).toBe('t')
    expect(at({})).toBeUndefined()
  })

  test('without an id gets the same one each time, and no other line has it', () => {
    const id = (fields: Record<string, unknown>, line: number) => {
      const made = call(fields, line)
      return typeof made === 'string' ? made : made.message['messageId']
    }
    const ids = [
      id({ type: 'track', event: 'a' }, 1),
      id({ type: 'track', event: 'a' }, 2),
      id({ type: 'track', event: 'b' }, 1),
    ]
    expect(new Set(ids).size).toBe(3)
    expect(ids[0]).toMatch(/^import-[0-9a-f]{32}$/)
    expect(id({ type: 'track', event: 'a' }, 1)).toBe(ids[0])
  })

  test.each([
    [
      {},
      'type: expected one of identify, track, page, screen, group, alias, got none; add it to the line, or give --type',
    ],
    [
      { type: 'Track' },
      'type: expected one of identify, track, page, screen, group, alias, got "Track"',
    ],
    [
      { type: 'track', userId: 1234567890123456800 },
      'userId: expected a string or a whole number below 2^53, got 1234567890123456800',
    ],
    [{ type: 7 }, 'type: expected one of identify, track, page, screen, group, alias, got 7'],
  ])('%j is not a call: %s', (fields, problem) => {
    expect(call(fields)).toBe(problem)
  })

  test('has the type that all have, unless it says another', () => {
    const type = (fields: Record<string, unknown>) =>
      toCall({ line: 1, text: '', fields }, 'identify')
    expect(type({ userId: 'u' })).toMatchObject({ type: 'identify' })
    expect(type({ type: 'group' })).toMatchObject({ type: 'group' })
  })
})

test('the place is behind the last line before which all have ended', () => {
  const ledger = new Ledger({ line: 10, offset: 100 })
  const entries = Array.from({ length: 5_000 }, (_, i) => ledger.add(11 + i, 110 + 10 * i, 3))
  expect([ledger.place, ledger.bytes]).toEqual([{ line: 10, offset: 100 }, 15_000])
  for (const entry of entries.slice(1)) ledger.end(entry)
  expect([ledger.place, ledger.bytes]).toEqual([{ line: 10, offset: 100 }, 3])
  if (entries[0]) ledger.end(entries[0])
  expect([ledger.place, ledger.bytes]).toEqual([{ line: 5_010, offset: 50_100 }, 0])
  ledger.end(ledger.add(5_011, 50_110, 3))
  expect(ledger.place).toEqual({ line: 5_011, offset: 50_110 })
})
