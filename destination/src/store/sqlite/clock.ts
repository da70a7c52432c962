import { aheadOf } from '../../model/clock.js'
import type { Copy, DeadGroup, Filter } from '../../model/delivery.js'
import type { Database } from './driver.js'

/** What the clocks of the process show. See `Clock`. */
export interface Reading {
  now: number
  wall: number
}

/**
 * In ms: how often the time is saved. After a crash the store's time may have lost so much if the system's clock was set
 * back in between; otherwise nothing.
 */
const SAVE_EVERY_MS = 30_000

/** Reads and writes the time that the file remembers. */
export function prepareClock(database: Database) {
  const read = database.prepare('SELECT store_at AS storeAt, wall_at AS wallAt FROM clock')
  const newest = database.prepare(
    'SELECT received_at AS receivedAt FROM deliveries ORDER BY id DESC LIMIT 1',
  )
  const save = database.prepare(
    `INSERT INTO clock (rowid, store_at, wall_at) VALUES (1, ?, ?)
     ON CONFLICT (rowid) DO UPDATE SET store_at = excluded.store_at, wall_at = excluded.wall_at`,
  )
  return {
    /** The store's time after a pause of unknown length, which ends when the system's clock shows `wall`. */
    resume: (wall: number): number => {
      const saved = read.get() as { storeAt: number; wallAt: number } | undefined
      const { receivedAt } = (newest.get() as { receivedAt: number } | undefined) ?? {
        receivedAt: 0,
      }
      const time = saved ? saved.storeAt + Math.max(0, wall - saved.wallAt) : wall
      return Math.max(time, receivedAt)
    },
    save: (storeAt: number, wallAt: number): void => {
      save.run(storeAt, wallAt)
    },
  }
}

/**
 * The store's time, in ms since the epoch. It never goes back, not even over a restart after which the system's clock
 * shows an earlier time. All stored times are on this clock.
 *
 * The file remembers the time together with what the system's clock showed. While no process has the file open, the time
 * goes on as the system's clock does, but never backwards.
 */
export class StoreClock {
  #ahead = 0
  #savedAt = -Infinity
  #savedAhead = 0

  /** Continues from the time that the file remembers. */
  resume(file: ReturnType<typeof prepareClock>, { now, wall }: Reading): void {
    this.#ahead = Math.round(file.resume(wall) - now)
  }

  /** The store's time. */
  at({ now }: Reading): number {
    return Math.round(now) + this.#ahead
  }

  /** Saves the time in the file. */
  save(file: ReturnType<typeof prepareClock>, reading: Reading): void {
    const time = this.at(reading)
    file.save(time, Math.round(reading.wall))
    this.#savedAt = time
    this.#savedAhead = this.ahead(reading)
  }

  /** Whether what the file remembers is old, or the system's clock was set since. */
  isToSave(reading: Reading): boolean {
    const isOld = this.at(reading) - this.#savedAt >= SAVE_EVERY_MS
    return isOld || this.ahead(reading) !== this.#savedAhead
  }

  /** How far the store's time is ahead of what people should see, in ms. */
  ahead(reading: Reading): number {
    return aheadOf(reading.wall, this.at(reading))
  }
}

/** The times of a delivery, moved by `byMs`. */
export function moveTimes<T extends Partial<Copy>>(row: T, byMs: number): T {
  if (byMs === 0) return row
  const moved = { ...row }
  for (const name of ['receivedAt', 'firstAttemptAt', 'dueAt', 'replayedAt'] as const) {
    const time = row[name]
    if (typeof time === 'number') moved[name] = time + byMs
  }
  if (row.attempts) moved.attempts = row.attempts.map((one) => ({ ...one, at: one.at + byMs }))
  return moved
}

/** The times of a group of dead letters, moved by `byMs`. */
export function moveGroup(group: DeadGroup, byMs: number): DeadGroup {
  return { ...group, firstAt: group.firstAt + byMs, lastAt: group.lastAt + byMs }
}

/** The times of a search, moved by `byMs`. */
export function moveFilter(filter: Filter, byMs: number): Filter {
  const move = (time: number | undefined) => (time === undefined ? undefined : time + byMs)
  return { ...filter, since: move(filter.since), until: move(filter.until) }
}
