import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { aheadOf } from '../../src/model/clock.js'
import type { HistoryRow } from '../../src/model/history.js'
import { Past, type PastRows } from '../../src/operate/past.js'

const START = 1_700_000_040_000
const MINUTE_MS = 60_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A store whose clock can be set. With `isSqlite`, the times of all rows move then, by whole seconds. */
function make(isSqlite: boolean) {
  const rows = new Map<number, HistoryRow>()
  let [elapsedMs, setBy] = [0, 0]
  const wall = () => START + elapsedMs + setBy
  const now = () => (isSqlite ? START + elapsedMs : wall())
  const store = {
    clock: { now, wall },
    history: (_span: string, since: number, after: { at: number } | undefined, limit: number) => {
      const shown = Array.from(rows.values(), (row) => ({
        ...row,
        at: row.at - aheadOf(wall(), now()),
      }))
      const found = shown.filter(({ at }) => (after ? at > after.at : at >= since))
      return Promise.resolve(found.sort((a, b) => a.at - b.at).slice(0, limit))
    },
  }
  const pastOf = () => new Past(store, { saveIfSmall: () => Promise.resolve() })
  return {
    past: pastOf(),
    /** What a process shows that has just started. */
    anew: () => pastOf().read('1h'),
    set: (ms: number) => (setBy += ms),
    deliver: (minutes: number) => {
      for (let i = 0; i < minutes; i++) {
        const at = now() - (now() % MINUTE_MS)
        const delivered = (rows.get(at)?.delivered ?? 0) + 1
        const counts = { delivered, failed: 0, busy: 0, breaker: 'closed' as const, bins: [] }
        rows.set(at, { at, destination: 'crm', url: 'https://crm.example.com/', ...counts })
        elapsedMs += MINUTE_MS
        vi.advanceTimersByTime(MINUTE_MS)
      }
      elapsedMs-- // The last minute is the current one.
    },
  }
}

const shown = (rows: PastRows) =>
  Array.from(rows.get('crm')?.get('https://crm.example.com/') ?? [], ({ at, delivered }) => [
    at,
    delivered,
  ])

test.each([
  ['the server of PostgreSQL', 'back by an hour', false, -60],
  ['the server of PostgreSQL', 'back by ten minutes', false, -10],
  ['the server of PostgreSQL', 'forward', false, 10],
  ['the system with SQLite', 'back by an hour', true, -60],
  ['the system with SQLite', 'back by ten minutes', true, -10],
  ['the system with SQLite', 'back by half a minute', true, -0.5],
  ['the system with SQLite', 'forward', true, 10],
])(
  'the history goes on if the clock of %s is set %s',
  async (_clock, _how, isSqlite, byMinutes) => {
    const { past, anew, set, deliver } = make(isSqlite)
    deliver(70)
    expect(shown(await past.read('1h'))).toHaveLength(60)
    set(byMinutes * MINUTE_MS)
    for (const minutes of [1, 5, 30]) {
      deliver(minutes)
      const now = shown(await past.read('1h'))
      expect(now).toEqual(shown(await anew()))
      expect(now.length).toBeGreaterThan(0)
    }
  },
)

test.each([
  ['gains', 300],
  ['loses', -300],
])(
  'no request counts twice or is missing with SQLite if the clock of the system %s little by little',
  async (_how, byMs) => {
    const { past, anew, set, deliver } = make(true)
    deliver(70)
    await past.read('1h')
    for (let i = 0; i < 10; i++) {
      set(byMs)
      deliver(1)
      expect(shown(await past.read('1h'))).toEqual(shown(await anew()))
    }
  },
)

test('what only grows is read piece by piece', async () => {
  const { past, anew, deliver } = make(true)
  deliver(70)
  await past.read('1h')
  deliver(1)
  const history = vi.spyOn(past.store, 'history')
  const now = shown(await past.read('1h'))
  expect(history).toHaveBeenCalledOnce()
  expect(now).toEqual(shown(await anew()))
})

test('nothing that lies in the future is in the history, and little of it is read', async () => {
  const { past, set, deliver } = make(false)
  deliver(600)
  set(-500 * MINUTE_MS)
  deliver(1)
  const history = vi.spyOn(past.store, 'history')
  expect(shown(await past.read('1h'))).toHaveLength(60)
  expect(history).toHaveBeenCalledOnce()
})
