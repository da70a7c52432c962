import { describe, expect, test } from 'vitest'
import { difference, grouped, lineDiff } from '../../page/compare.js'
import { toCurl } from '../../page/curl.js'
import type { ShownAttempt } from '../../src/model/answers.js'

const attempt = (number: number, changes: Partial<ShownAttempt> = {}): ShownAttempt => ({
  attempt: number,
  at: number,
  url: 'https://a.example.com/',
  code: 'server_error',
  status: 503,
  ms: 5,
  error: 'The endpoint answered 503.',
  response: 'away',
  ...changes,
})

describe('attempts', () => {
  test('with the same answer in a row are one group, whatever their headers', () => {
    const same = Array.from({ length: 23 }, (_, i) => attempt(i + 1, { headers: `date: ${i}` }))
    const other = attempt(24, { response: 'full' })
    const groups = grouped([...same, other])
    expect(groups.map(({ attempts }) => attempts.length)).toEqual([23, 1])
    expect(groups[0]?.before).toBeUndefined()
    expect(groups[1]?.before?.attempt).toBe(23)
  })

  test('of two endpoints are grouped for each of them', () => {
    const other = { url: 'https://b.example.com/', response: 'no' }
    const groups = grouped([attempt(1), attempt(1, other), attempt(2), attempt(2, other)])
    expect(groups.map(({ attempts }) => attempts.map(({ url }) => url))).toEqual([
      ['https://a.example.com/', 'https://a.example.com/'],
      ['https://b.example.com/', 'https://b.example.com/'],
    ])
  })

  test('that differ show the lines that differ', () => {
    const before = attempt(1, { response: '{"a":1,"b":2}' })
    const after = attempt(2, { status: 500, response: '{"a":1,"b":3}' })
    expect(difference(before, after).filter(({ kind }) => kind !== 'same')).toEqual([
      { kind: 'old', text: '503' },
      { kind: 'new', text: '500' },
      { kind: 'old', text: '  "b": 2' },
      { kind: 'new', text: '  "b": 3' },
    ])
    expect(lineDiff([], ['x'])).toEqual([{ kind: 'new', text: 'x' }])
    expect(lineDiff(['x'], ['x'])).toEqual([{ kind: 'same', text: 'x' }])
  })
})

test('a request as a curl command keeps the body as it is, and names what is not shown', () => {
  const request = {
    url: 'https://a.example.com/',
    headers: [
      ['X-Signature', 'abc'],
      ['X-Api-Key', '…'],
    ] as [string, string][],
  }
  expect(toCurl(request, `{"name":"O'Brien"}`)).toBe(
    [
      `curl 'https://a.example.com/'`,
      `  -H 'X-Signature: abc'`,
      `  -H 'X-Api-Key: YOUR_X_API_KEY'`,
      `  --data-raw '{"name":"O'\\''Brien"}'`,
    ].join(' \\\n'),
  )
})
