import { expect, test } from 'vitest'
import { Ledger } from '../../../src/cli/import/ledger.js'

const START = { line: 10, offset: 100 }

test('the place is behind the last line before which all have ended', () => {
  const ledger = new Ledger(START)
  const entries = Array.from({ length: 5_000 }, (_, i) =>
    ledger.add(11 + i, { line: 11 + i, offset: 110 + 10 * i }),
  )
  expect([ledger.place, ledger.open]).toEqual([START, 5_000])
  for (const entry of entries.slice(1)) ledger.end(entry)
  expect([ledger.place, ledger.open]).toEqual([START, 1])
  if (entries[0]) ledger.end(entries[0])
  expect([ledger.place, ledger.open]).toEqual([{ line: 5_010, offset: 50_100 }, 0])
  ledger.end(ledger.add(5_011, { line: 5_011, offset: 50_110 }))
  expect(ledger.place).toEqual({ line: 5_011, offset: 50_110 })
})

test('a line whose call was lost is read again, with what comes after it', () => {
  const ledger = new Ledger(START)
  const [first, second, third] = [11, 12, 13].map((line) =>
    ledger.add(line, { line, offset: line * 10 }),
  )
  if (!first || !second || !third) throw new Error('three entries were added')
  ledger.end(third, 'refused')
  ledger.lose(second, 'lost')
  ledger.end(first, 'refused')
  expect(ledger.place).toEqual({ line: 11, offset: 110 })
  expect(ledger.takeRefused()).toEqual([{ line: 11, problem: 'refused' }])
  expect(ledger.takeRefused()).toEqual([])
  expect(ledger.takeRest()).toEqual([
    { line: 12, problem: 'lost' },
    { line: 13, problem: 'refused' },
  ])
})

test('refused lines are taken in the order of the file, whatever the order of the answers', () => {
  const ledger = new Ledger(START)
  const entries = [11, 12, 13, 14].map((line) => ledger.add(line, { line, offset: line * 10 }))
  for (const entry of entries.toReversed()) ledger.end(entry, 'refused')
  expect(ledger.takeRefused().map(({ line }) => line)).toEqual([11, 12, 13, 14])
})
