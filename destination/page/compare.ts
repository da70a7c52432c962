// Compares the answers of attempts. This file uses no browser API, so that tests can run it in Node.
import type { ShownAttempt } from '../src/model/answers.js'
import { pretty } from './json.js'

/** Attempts in a row that had the same answer. */
export interface SameAnswers {
  attempts: ShownAttempt[]
  /** The latest answer of the same endpoint before these, if it differs from theirs. */
  before: ShownAttempt | undefined
}

/** Joins attempts in a row, at the same endpoint, that had the same answer. */
export function grouped(attempts: readonly ShownAttempt[]): SameAnswers[] {
  const groups: SameAnswers[] = []
  const latest = new Map<string, SameAnswers>()
  for (const attempt of attempts) {
    const group = latest.get(attempt.url)
    const last = group?.attempts.at(-1)
    if (group && last && isSame(last, attempt)) {
      group.attempts.push(attempt)
      continue
    }
    const made: SameAnswers = { attempts: [attempt], before: last }
    groups.push(made)
    latest.set(attempt.url, made)
  }
  return groups
}

/** Headers such as `date` differ each time and do not make an answer another one. */
function isSame(a: ShownAttempt, b: ShownAttempt): boolean {
  return (
    a.code === b.code && a.status === b.status && a.error === b.error && a.response === b.response
  )
}

export interface DiffLine {
  kind: 'same' | 'old' | 'new'
  text: string
}

/** The most lines that are compared. An answer has 2 KB at most. */
const MAX_LINES = 200

/** The difference of two answers, line by line: status, error and body. */
export function difference(before: ShownAttempt, after: ShownAttempt): DiffLine[] {
  return lineDiff(linesOf(before), linesOf(after))
}

function linesOf({ status, code, error, response }: ShownAttempt): string[] {
  const first = status === null ? (error ?? code) : String(status)
  return [first, ...(response === '' ? [] : pretty(response).split('\n'))].slice(0, MAX_LINES)
}

/** The shortest difference by the longest common subsequence. */
export function lineDiff(before: readonly string[], after: readonly string[]): DiffLine[] {
  const lengths = before.map(() => new Array<number>(after.length + 1).fill(0))
  lengths.push(new Array<number>(after.length + 1).fill(0))
  const at = (i: number, j: number) => lengths[i]?.[j] ?? 0
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const row = lengths[i]
      if (row === undefined) continue
      row[j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ kind: 'same', text: before[i++] ?? '' })
      j++
    } else if (j >= after.length || (i < before.length && at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ kind: 'old', text: before[i++] ?? '' })
    } else lines.push({ kind: 'new', text: after[j++] ?? '' })
  }
  return lines
}
