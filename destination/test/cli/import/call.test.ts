import { describe, expect, test } from 'vitest'
import { toCall } from '../../../src/cli/import/call.js'

const call = (fields: Record<string, unknown>, line = 1) =>
  toCall({ line, text: JSON.stringify(fields), fields }, undefined, 'a.ndjson')

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

  const idOf = (
    name: string | undefined,
    line = 1,
    fields: Record<string, unknown> = { type: 'track', event: 'a' },
    type?: 'track' | 'screen',
  ) => {
    const made = toCall({ line, text: JSON.stringify(fields), fields }, type, name)
    return typeof made === 'string' ? made : made.message['messageId']
  }

  test('without an id gets the same one each time, and no other line of any file has it', () => {
    const untyped = { event: 'a' }
    const ids = [
      idOf('a.ndjson'),
      idOf('b.ndjson'),
      idOf('a.ndjson', 2),
      idOf('a.ndjson', 1, { type: 'track', event: 'b' }),
      idOf('a.ndjson', 1, untyped, 'screen'),
    ]
    expect(new Set(ids).size).toBe(5)
    expect(ids[0]).toMatch(/^import-[0-9a-f]{32}$/)
    expect(idOf('a.ndjson')).toBe(ids[0])
    expect(idOf('a.ndjson', 1, untyped, 'track')).toBe(ids[0])
  })

  test('of an import that an earlier version started keeps the id that it had', () => {
    expect(idOf(undefined)).toBe('import-4eb7d890a2ab673eacee0640db647bb7')
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
      toCall({ line: 1, text: '', fields }, 'identify', 'a.ndjson')
    expect(type({ userId: 'u' })).toMatchObject({ type: 'identify' })
    expect(type({ type: 'group' })).toMatchObject({ type: 'group' })
  })
})
