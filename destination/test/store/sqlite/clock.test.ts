import { cpSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Store } from '../../../src/store/store.js'
import { openStore } from '../../../src/store/open.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'
import { rounds } from '../../rounds.js'

const HOUR = 3_600_000
const NOON = 1_700_000_000_000

/** A machine with a store. Its clock can be set, and its process can be started again. */
class Machine {
  wall = NOON
  #now = NOON
  store!: Store

  constructor(public path: string) {}

  /** Starts a process. What it measures by begins with what the system's clock shows. */
  async start(): Promise<void> {
    this.#now = this.wall
    this.store = await openStore(`sqlite:${this.path}/store.db`, {
      now: () => this.#now,
      wall: () => this.wall,
    })
  }

  async restart(downMs = 0): Promise<void> {
    await this.store.close()
    this.wall += downMs
    await this.start()
  }

  wait(ms: number): void {
    this.wall += ms
    this.#now += ms
  }

  setBack(ms: number): void {
    this.wall -= ms
  }

  async claim() {
    return await this.store.claim([
      { destination: 'crm', lane: 'fresh', limit: 1_000 },
      { destination: 'crm', lane: 'backlog', limit: 1_000 },
    ])
  }

  /** Puts a message that fails at once, and is to be tried again after `delayMs`. */
  async fail(messageId: string, delayMs: number): Promise<void> {
    const [id = 0] = await this.store.put([newDelivery({ messageId, state: 'leased' })])
    await this.store.settle([settlement({ id, attempt: 1 }, { state: 'backlog', delayMs })])
  }
}

async function machine(): Promise<AsyncDisposable & { it: Machine }> {
  const place = await folder()
  const it = new Machine(place.path)
  await it.start()
  return {
    it,
    [Symbol.asyncDispose]: async () => {
      await it.store.close()
      await place[Symbol.asyncDispose]()
    },
  }
}

test('a clock that is set back an hour delays no retry and hides no age', async () => {
  await using one = await machine()
  const { it } = one
  await it.fail('m', 2_000)
  it.setBack(HOUR)
  it.wait(1_999)
  expect(await it.claim()).toEqual([])
  expect(await it.store.stats()).toMatchObject([{ backlog: 1, oldestMs: 1_999 }])
  it.wait(1)
  expect(await it.claim()).toMatchObject([{ messageId: 'm', attempt: 2, sinceFirstMs: 2_000 }])
})

test('nor does it so over a restart', async () => {
  await using one = await machine()
  const { it } = one
  await it.fail('m', 60_000)
  it.wait(10_000)
  await it.restart(-HOUR)
  it.wait(49_999)
  expect(await it.claim()).toEqual([])
  it.wait(1)
  expect(await it.claim()).toMatchObject([{ messageId: 'm', sinceFirstMs: 60_000 }])
})

test('nor over a crash', async () => {
  await using one = await machine()
  await using copy = await folder()
  const { it } = one
  await it.fail('m', 60_000)
  cpSync(it.path, copy.path, { recursive: true })
  const after = new Machine(copy.path)
  after.wall = it.wall - HOUR
  await after.start()
  after.wait(60_000)
  expect(await after.claim()).toMatchObject([{ messageId: 'm', sinceFirstMs: 60_000 }])
  await after.store.close()
})

test.each([
  ['was set', -20 * 365 * 24 * HOUR, 0],
  ['stood in the future', 8 * 24 * HOUR, 0],
  ['was right, and hours passed', 0, 3 * HOUR],
])(
  'a crash of a process that wrote nothing since its clock %s ends no window',
  async (_, offMs, idleMs) => {
    await using place = await folder()
    await using copy = await folder()
    const it = new Machine(place.path)
    it.wall += offMs
    await it.start()
    await it.fail('m', 10 * HOUR)
    it.setBack(offMs)
    it.wait(idleMs)
    await it.store.due()
    cpSync(it.path, copy.path, { recursive: true })
    await it.store.close()
    const after = new Machine(copy.path)
    after.wall = it.wall
    await after.start()
    after.wait(10 * HOUR - idleMs - 1)
    expect(await after.claim()).toEqual([])
    after.wait(1)
    expect(await after.claim()).toMatchObject([{ messageId: 'm', sinceFirstMs: 10 * HOUR }])
    await after.store.close()
  },
)

test('a clock that was in 1970 at the start ends no window when it learns the time', async () => {
  await using place = await folder()
  const it = new Machine(place.path)
  it.wall = 5_000
  await it.start()
  await it.fail('m', 60_000)
  it.setBack(-NOON)
  it.wait(59_999)
  expect(await it.claim()).toEqual([])
  await it.restart()
  it.wait(1)
  expect(await it.claim()).toMatchObject([{ messageId: 'm', sinceFirstMs: 60_000 }])
  expect(await it.store.sweep(HOUR, 1_000)).toBe(0)
  await it.store.close()
})

test('people see times of the clock as it is now, and search by these', async () => {
  await using one = await machine()
  const { it } = one
  await it.fail('m', 60_000)
  it.wait(1_000)
  it.setBack(HOUR)
  const at = it.wall - 1_000
  const times = { receivedAt: at, firstAttemptAt: at, dueAt: at + 60_000 }
  expect(await it.store.trace('m')).toMatchObject([times])
  await it.restart()
  expect(await it.store.trace('m')).toMatchObject([{ receivedAt: at }])
  expect(await it.store.copyOut(0, 10)).toMatchObject([{ receivedAt: at, dueAt: at + 60_000 }])
  const found = async (since: number, until: number) =>
    (await it.store.find({ since, until }, undefined, 10)).deliveries.length
  expect(await found(at, at + 1)).toBe(1)
  expect(await found(at - HOUR, at)).toBe(0)
  expect(await found(at + 1, at + HOUR)).toBe(0)
})

test('a copy from a store whose clock is ahead was not received in the future', async () => {
  await using from = await machine()
  await using to = await machine()
  await from.it.fail('m', 0)
  const [copy] = await from.it.store.copyOut(0, 1)
  if (!copy) throw new Error('nothing was copied')
  await to.it.store.copyIn([{ ...copy, receivedAt: NOON + HOUR }])
  expect(await to.it.store.trace('m')).toMatchObject([{ receivedAt: NOON }])
})

test('rows from the future, which an older version left, do not stop the sweep', async () => {
  await using one = await machine()
  const { it } = one
  const skipped = (n: number) =>
    newDelivery({ messageId: `m${n}`, state: 'skipped', reason: 'a test', body: '' })
  await it.store.put(Array.from({ length: 2_000 }, (_, n) => skipped(n)))
  await it.store.close()
  const database = (await loadDriver())(`${it.path}/store.db`)
  database.exec(`UPDATE deliveries SET received_at = ${NOON + 1_000 * HOUR} WHERE id IN (1, 700)`)
  database.exec('DELETE FROM clock')
  database.close()
  await it.start()
  it.wait(3 * HOUR)
  expect(await it.store.sweep(2 * HOUR, 1_000)).toBe(1_000)
  expect(await it.store.sweep(2 * HOUR, 1_000)).toBe(998)
  expect(await it.store.sweep(2 * HOUR, 1_000)).toBe(0)
  it.wait(1_000 * HOUR)
  expect(await it.store.sweep(2 * HOUR, 1_000)).toBe(2)
})

test('whatever the clock does, each retry is due when its delay is over', async () => {
  const ms = fc.integer({ min: 0, max: 2 * HOUR })
  const jump = fc.integer({ min: -400 * HOUR, max: 400 * HOUR })
  const step = fc.oneof(
    fc.record({ act: fc.constant('fail' as const), ms }),
    fc.record({ act: fc.constant('wait' as const), ms }),
    fc.record({ act: fc.constant('jump' as const), ms: jump }),
    fc.record({ act: fc.constant('restart' as const), ms: jump }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      await using one = await machine()
      const { it } = one
      const due = new Map<string, number>()
      let time = 0
      for (const [n, { act, ms }] of steps.entries()) {
        if (act === 'fail') {
          await it.fail(`m${n}`, ms)
          due.set(`m${n}`, time + ms)
        } else if (act === 'wait') {
          it.wait(ms)
          time += ms
        } else if (act === 'jump') {
          it.setBack(-ms)
        } else {
          await it.restart(ms)
          time += Math.max(0, ms)
        }
        const expected = Array.from(due).filter(([, at]) => at <= time)
        const claimed = await it.claim()
        expect(claimed.map(({ messageId }) => messageId).sort()).toEqual(
          expected.map(([id]) => id).sort(),
        )
        for (const [id] of expected) due.delete(id)
        await it.store.settle(claimed.map((delivery) => settlement(delivery)))
      }
    }),
    { numRuns: rounds(8) },
  )
})
