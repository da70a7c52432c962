import { describe, expect, test } from 'vitest'
import { exitCodeOf, toJson, toLines, type Outcome } from '../../../src/cli/import/outcome.js'

const outcome: Outcome = {
  file: 'a.ndjson',
  dryRun: false,
  isStopped: false,
  accepted: 1_000,
  bad: 0,
  badBefore: 0,
  lost: 0,
  undated: 0,
  changedNumbers: 0,
  fromLine: 1,
  toLine: 1_000,
  ms: 2_000,
}

describe('the outcome of an import', () => {
  test('of which everything was accepted says so', () => {
    expect(toLines(outcome)).toEqual(['Imported 1,000 calls (2 s, 500/s).'])
    expect(toJson(outcome)).toMatchObject({ complete: true, lost: 0 })
    expect(exitCodeOf(outcome)).toBe(0)
  })

  test('with a lost call is not complete, and can be run again', () => {
    const lost = { ...outcome, accepted: 998, lost: 2, bad: 1, toLine: 300 }
    expect(toLines(lost)).toEqual([
      'Imported 998 calls (2 s, 499/s).',
      '1 line was refused.',
      '2 calls were not accepted, because the collector failed for each of them again and again. Run the same command to send them again.',
    ])
    expect(toJson(lost)).toMatchObject({ complete: false, lost: 2 })
    expect(exitCodeOf(lost)).toBe(3)
  })

  test('that was stopped before any answer does not say that there was nothing to import', () => {
    const stopped = { ...outcome, isStopped: true, accepted: 0, toLine: 0 }
    expect(toLines(stopped)).toEqual([
      'Imported 0 calls (2 s, 0/s).',
      'Stopped after line 0. Run the same command to continue.',
    ])
    expect(toJson(stopped)).toMatchObject({ complete: false })
    expect(exitCodeOf(stopped)).toBe(3)
  })

  test('of a stopped standard input does not promise to continue', () => {
    const [, last] = toLines({ ...outcome, file: '-', isStopped: true })
    expect(last).toBe(
      'Stopped after line 1000. Import the whole input again: calls that have arrived are forwarded once.',
    )
  })

  test('of one of each speaks of one', () => {
    const one = { accepted: 1, bad: 1, badBefore: 1, lost: 1, undated: 1, changedNumbers: 1 }
    expect(toLines({ ...outcome, ...one })).toEqual([
      'Imported 1 call (2 s, 1/s).',
      '1 line was refused.',
      'An earlier import of this file refused 1 line. Correct it, then import the whole file with --restart.',
      '1 call has no timestamp. It gets the current time.',
      '1 number is forwarded with another value.',
      '1 call was not accepted, because the collector failed for it again and again. Run the same command to send it again.',
    ])
    expect(toLines({ ...outcome, dryRun: true, accepted: 1 })).toEqual([
      '1 call is valid. Nothing was sent.',
    ])
  })

  test('of an earlier import counts too', () => {
    const again = { ...outcome, accepted: 0, badBefore: 2, fromLine: 1_001 }
    expect(toLines(again)).toEqual([
      'There are no new lines to import.',
      'An earlier import of this file refused 2 lines. Correct them, then import the whole file with --restart.',
    ])
    expect(exitCodeOf(again)).toBe(1)
  })
})
