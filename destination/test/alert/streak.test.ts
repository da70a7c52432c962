import { describe, expect, test } from 'vitest'
import {
  failingMsOf,
  GRACE_MS,
  judge,
  UNSEEN,
  withFailure,
  withSuccess,
  type Seen,
  type Streak,
} from '../../src/alert/streak.js'
import { dice } from '../simulation/chance.js'
import { rounds } from '../rounds.js'

const HOUR = 3_600_000
const AFTER = [HOUR, 24 * HOUR]
const T = 1_800_000_000_000

/** What a process has seen that failed so many times, from one time to another. */
function failed(times: number, from: number, to: number): Seen {
  let seen: Seen = UNSEEN
  for (let i = 0; i < times; i++) seen = withFailure(seen, from + ((to - from) * i) / (times - 1))
  return seen
}

const saved = (since: number, told = 0) => ({ streak: { since, told }, knownAt: since })

describe('an endpoint that fails', () => {
  const facts = { saved: undefined, after: AFTER, resumedAt: 0, now: T + 48 * HOUR }

  test('is not saved before a minute has passed and it has failed three times', () => {
    expect(judge({ ...facts, seen: failed(3, T, T + 59_999) })).toEqual({ kind: 'wait' })
    expect(judge({ ...facts, seen: failed(2, T, T + HOUR) })).toEqual({ kind: 'wait' })
    expect(judge({ ...facts, seen: failed(3, T, T + 60_000) })).toEqual({
      kind: 'save',
      streak: { since: T, told: 0 },
    })
  })

  test('is told once for each time, the longest one only if several have passed', () => {
    const seen = failed(9, T, T + HOUR)
    expect(judge({ ...facts, seen, saved: saved(T) })).toMatchObject({ afterMs: HOUR })
    expect(judge({ ...facts, seen, saved: saved(T, HOUR) })).toEqual({ kind: 'wait' })
    const longer = failed(9, T, T + 30 * HOUR)
    expect(judge({ ...facts, seen: longer, saved: saved(T) })).toEqual({
      kind: 'tell',
      afterMs: 24 * HOUR,
      streak: { since: T, told: 24 * HOUR },
    })
  })

  test('does not fail for longer while it gets no requests', () => {
    const seen = failed(3, T, T + HOUR - 1)
    expect(judge({ ...facts, seen, saved: saved(T), now: T + 90 * HOUR })).toEqual({ kind: 'wait' })
    expect(failingMsOf({ ...facts, seen, saved: saved(T) })).toBe(HOUR - 1)
  })

  test('begins anew after a pause, also for what was told before', () => {
    const resumedAt = T + 100 * HOUR
    const seen = failed(9, T, resumedAt + HOUR - 1)
    const paused = { ...facts, resumedAt, saved: saved(T, 24 * HOUR), now: resumedAt + HOUR }
    expect(judge({ ...paused, seen })).toEqual({ kind: 'wait' })
    expect(judge({ ...paused, seen: withFailure(seen, resumedAt + HOUR) })).toEqual({
      kind: 'tell',
      afterMs: HOUR,
      streak: { since: resumedAt, told: HOUR },
    })
  })
})

/** How long a change of the store takes until the other processes know it, at most. */
const FOLLOW_MS = 1_000

interface Worker {
  seen: Seen
  startedAt: number
  /** What it knows of the store, and since when. */
  known: { streak: Streak; version: number; knownAt: number } | undefined
  version: number
}

/**
 * Workers that share one endpoint and a store, on a virtual clock. The store has versions, and each worker learns of a change
 * up to a second later, as they do on PostgreSQL.
 */
class World {
  now = T
  readonly log: { at: number; what: 'failing' | 'recovered'; since: number; afterMs: number }[] = []
  /** Successes and failures in truth, and who saw them. */
  readonly attempts: { at: number; isGood: boolean; by: Worker }[] = []
  workers: Worker[]
  #record: { streak: Streak | undefined; version: number; at: number } = {
    ...{ streak: undefined, version: 0, at: T },
  }

  constructor(readonly count: number) {
    this.workers = Array.from({ length: count }, () => this.#started())
  }

  attempt(by: Worker, isGood: boolean): void {
    this.attempts.push({ at: this.now, isGood, by })
    by.seen = isGood ? withSuccess(this.now) : withFailure(by.seen, this.now)
  }

  restart(index: number): void {
    this.workers[index] = this.#started()
  }

  /** Time passes, and each worker does what it would do once a second. */
  tick(ms: number): void {
    this.now += ms
    for (const worker of this.workers) {
      if (this.now - this.#record.at >= FOLLOW_MS) this.#follow(worker)
      const action = judge({
        seen: worker.seen,
        saved: worker.known,
        after: AFTER,
        resumedAt: 0,
        now: this.now,
      })
      if (action.kind === 'wait') continue
      const { known } = worker
      if (!this.#write(worker, action.kind === 'end' ? undefined : action.streak)) continue
      if (action.kind === 'tell') {
        const { streak, afterMs } = action
        this.log.push({ at: this.now, what: 'failing', since: streak.since, afterMs })
      } else if (action.kind === 'end' && known && known.streak.told > 0) {
        this.log.push({ at: this.now, what: 'recovered', since: known.streak.since, afterMs: 0 })
      }
    }
  }

  #started(): Worker {
    const worker = { seen: UNSEEN, startedAt: this.now, known: undefined, version: -1 }
    this.#follow(worker)
    return worker
  }

  #follow(worker: Worker): void {
    const { streak, version } = this.#record
    if (worker.version === version) return
    worker.version = version
    const knownAt = worker.known?.knownAt ?? this.now
    if (!streak && worker.known) {
      worker.seen = { ...UNSEEN, lastSuccessAt: worker.seen.lastSuccessAt }
    }
    worker.known = streak && { streak, version, knownAt }
  }

  /** @returns `false` if another worker has written meanwhile. */
  #write(worker: Worker, streak: Streak | undefined): boolean {
    const isCurrent = this.#record.streak
      ? worker.known?.version === this.#record.version
      : worker.known === undefined
    if (isCurrent) {
      this.#record = { streak, version: this.#record.version + 1, at: this.now }
    }
    this.#follow(worker)
    return isCurrent
  }
}

test.each([1, 2, 3])(
  '%i workers tell each change once, and nothing that is not true',
  { tags: 'long' },
  (count) => {
    for (let round = 0; round < rounds(12); round++) {
      const seed = Math.floor(Math.random() * 2 ** 31)
      const { chance, pick, between } = dice(seed)
      const world = new World(count)
      let restartedAt = -Infinity
      for (let phase = 0; phase < 6; phase++) {
        const good = pick([0, 0, 0, 1, 0.5])
        const pause = pick([1_000, 60_000, 900_000])
        const until = world.now + between(1, 40) * HOUR
        while (world.now < until) {
          if (chance(0.9)) world.attempt(pick(world.workers), chance(good))
          if (chance(0.002)) {
            world.restart(between(0, count - 1))
            restartedAt = world.now
          }
          world.tick(between(1, pause))
          // Ticks come once a second, so no time passes in which nobody judges.
          for (let i = 0; i < 4; i++) world.tick(1_000)
        }
      }
      const about = `seed ${seed}, ${count} workers`
      const { log, attempts } = world
      for (const [i, { at, what, since, afterMs }] of log.entries()) {
        const before = attempts.filter((one) => one.at <= at)
        const last = before.findLast(({ isGood }) => isGood)?.at ?? -Infinity
        if (what === 'failing') {
          // Who restarts forgets the successes that it has not told yet.
          const slack = GRACE_MS + FOLLOW_MS + 4_000
          const isKnown = last < since || last > at - slack || restartedAt >= since
          expect(isKnown, `${about}: fails since ${since}, success at ${last}, told at ${at}`).toBe(
            true,
          )
          const latest = before.findLast(({ isGood }) => !isGood)?.at ?? 0
          expect(latest - since, about).toBeGreaterThanOrEqual(afterMs)
          const others = log.filter((one, j) => j !== i && one.what === what && one.since === since)
          expect(
            others.map((one) => one.afterMs),
            about,
          ).not.toContain(afterMs)
        } else {
          expect(last, about).toBeGreaterThanOrEqual(since)
          const earlier = log.slice(0, i)
          expect(
            earlier.some((one) => one.what === 'failing' && one.since === since),
            about,
          ).toBe(true)
          const again = earlier.some((one) => one.what === what && one.since === since)
          expect(again, about).toBe(false)
        }
      }
      // From here on it fails all the time and then succeeds: this must be told, whatever was before.
      const [worker] = world.workers as [Worker]
      const told = log.length
      world.attempt(worker, true)
      for (let i = 0; i < 10; i++) world.tick(1_000)
      const quiet = log.length
      const from = world.now
      while (world.now < from + HOUR + 60_000) {
        world.attempt(worker, false)
        world.tick(5_000)
      }
      expect(log.slice(quiet), about).toMatchObject([{ what: 'failing', afterMs: HOUR }])
      world.attempt(worker, true)
      for (let i = 0; i < 10; i++) world.tick(1_000)
      expect(log.at(-1)?.what, about).toBe('recovered')
      expect(quiet - told, about).toBeLessThanOrEqual(1)
    }
  },
)
