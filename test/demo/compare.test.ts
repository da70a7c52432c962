import { describe, expect, test } from 'vitest'
import { compare, percentile, type AppBooks, type CollectorBooks } from '../../demo/compare.js'

/** Three messages in two batches, the second of which got through at the third attempt. */
function booksThatAgree() {
  const app = {
    called: ['a', 'b', 'c'],
    delivered: ['a', 'b', 'c'],
    stats: { accepted: 3, delivered: 3, rejected: 0, dropped: 0, pending: 0, pendingBytes: 0 },
    reports: [
      { messages: 2, bytes: 500, attempts: 1, durationMs: 5 },
      { messages: 1, bytes: 300, attempts: 3, durationMs: 900 },
    ],
  } satisfies AppBooks
  const collector: CollectorBooks = {
    accepted: [
      { ids: ['a', 'b'], bytes: 500, retries: 0 },
      { ids: ['c'], bytes: 300, retries: 2 },
    ],
    refused: 1,
  }
  return { app, collector }
}

function wrongLines(app: AppBooks, collector: CollectorBooks): string[] {
  return compare(app, collector)
    .filter(({ isRight }) => isRight === false)
    .map(({ what }) => what)
}

function line(app: AppBooks, collector: CollectorBooks, what: string) {
  return compare(app, collector).find((candidate) => candidate.what === what)
}

describe('books that agree', () => {
  test('have no wrong line', () => {
    const { app, collector } = booksThatAgree()
    expect(wrongLines(app, collector)).toEqual([])
  })

  test('count an attempt that no collector saw as one that met a closed port', () => {
    const { app, collector } = booksThatAgree()
    expect(line(app, collector, 'sent / answered')).toMatchObject({ app: 4, collector: 3 })
    expect(line(app, collector, 'met a closed port')).toMatchObject({ app: 1, isRight: true })
  })
})

describe('a line is wrong', () => {
  test('if the collector forgot a message that it answered 200', () => {
    const { app, collector } = booksThatAgree()
    collector.accepted[0]?.ids.pop()
    expect(line(app, collector, 'lost')).toMatchObject({ app: 0, collector: 1, isRight: false })
  })

  test('if a forgotten message is hidden by one that came twice', () => {
    const { app, collector } = booksThatAgree()
    collector.accepted[0]?.ids.splice(0, 2, 'c', 'b')
    expect(wrongLines(app, collector)).toEqual(
      expect.arrayContaining(['lost', 'delivered twice', 'delivered (callbacks) / unique ids']),
    )
  })

  test('if a callback was never called, or called with an error', () => {
    const { app, collector } = booksThatAgree()
    app.delivered.pop()
    expect(line(app, collector, 'lost')).toMatchObject({ app: 1, collector: 0, isRight: false })
  })

  test('if a callback was called twice', () => {
    const { app, collector } = booksThatAgree()
    app.delivered.push('a')
    expect(wrongLines(app, collector)).toEqual(['delivered twice'])
  })

  test('if messages came in another order than the calls', () => {
    const { app, collector } = booksThatAgree()
    collector.accepted[0]?.ids.reverse()
    expect(wrongLines(app, collector)).toEqual(['out of order'])
  })

  test('if the SDK did not accept every call', () => {
    const { app, collector } = booksThatAgree()
    app.stats.accepted = 2
    expect(wrongLines(app, collector)).toEqual(['accepted by the SDK'])
  })

  test('if stats() disagrees with the collector', () => {
    const { app, collector } = booksThatAgree()
    app.stats.delivered = 2
    expect(wrongLines(app, collector)).toEqual(['delivered (stats) / received'])
  })

  test('if a retry was reported that the collector did not see announced', () => {
    const { app, collector } = booksThatAgree()
    collector.accepted[1] = { ids: ['c'], bytes: 300, retries: 0 }
    expect(wrongLines(app, collector)).toEqual(['retried before that', 'retries of those'])
  })

  test('if the sizes of a batch differ', () => {
    const { app, collector } = booksThatAgree()
    collector.accepted[1] = { ids: ['c'], bytes: 301, retries: 2 }
    expect(wrongLines(app, collector)).toEqual(['bytes in all'])
  })

  test('if the collector answered more requests than the SDK says it sent', () => {
    const { app, collector } = booksThatAgree()
    collector.refused = 3
    expect(wrongLines(app, collector)).toEqual(['met a closed port'])
  })
})

test.each([
  [[5, 1, 3], 0.5, 3],
  [[4, 1, 3, 2], 0.5, 2],
  [[1, 2, 3], 0.99, 3],
  [[7], 0, 7],
  [[], 0.5, NaN],
])('percentile of %j at %f is %f', (numbers, part, expected) => {
  expect(percentile(numbers, part)).toBe(expected)
})
