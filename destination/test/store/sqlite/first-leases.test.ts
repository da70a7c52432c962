// What a process that is killed leaves of the first attempts that were under way: the next connection has to find all of them.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../../src/store/sqlite/connection.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { Engine } from '../../../src/store/sqlite/engine.js'
import type { Query, Round } from '../../../src/store/sqlite/round.js'
import type { NewDelivery } from '../../../src/model/delivery.js'
import { LEASE_MS } from '../../../src/store/store.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const openDatabase = await loadDriver()

/** An engine that is never closed, and what another connection finds in its file. */
async function subject() {
  const place = await folder()
  const path = join(place.path, 'store.db')
  let now = 1_700_000_000_000
  const at = () => ({ now, wall: now })
  const engine = new Engine(openDatabase, { path, at: at(), isRestart: false })
  return {
    advance: (ms: number) => void (now += ms),
    run: (round: Partial<Round>) => {
      const none = { settlements: [], deliveries: [], claims: [], queries: [] }
      const result = engine.run({ at: at(), ...none, ...round })
      const { settled, put, claimed } = result
      if (!('value' in settled && 'value' in put && 'value' in claimed)) throw new Error('failed')
      return { settled: settled.value, put: put.value, claimed: claimed.value.flat() }
    },
    found: () => {
      const { firstLeases, counts, names, database, ids: next } = connect(openDatabase, path)
      const ids = Array.from(
        { [Symbol.iterator]: () => firstLeases[Symbol.iterator]() },
        ([id]) => id,
      )
      const [stats] = counts.stats(names, now)
      database.close()
      return { ids, stats, nextId: next.next }
    },
    [Symbol.asyncDispose]: () => {
      engine.close(at())
      return place[Symbol.asyncDispose]()
    },
  }
}

const leased = (count: number) =>
  Array.from({ length: count }, () => newDelivery({ state: 'leased', body: '' }))
const fresh = () => newDelivery({ state: 'fresh' })
const CLAIM = { destination: 'crm', lane: 'fresh', limit: 1 } as const

test('leases of puts and of claims are found, and what was settled is not', async () => {
  await using store = await subject()
  store.run({ deliveries: [fresh(), ...leased(2)] })
  store.run({ claims: [CLAIM], settlements: [settlement({ id: 2, attempt: 1 })] })
  expect(store.found()).toMatchObject({ ids: [1, 3], stats: { leased: 2, fresh: 0 } })
})

test('a claim of a delivery that is older than what the file says is found', async () => {
  await using store = await subject()
  store.run({ deliveries: [fresh()] })
  const { put } = store.run({ deliveries: leased(25_000) })
  store.run({ settlements: put.map((id = 0) => settlement({ id, attempt: 1 })) })
  store.advance(60_000)
  store.run({ claims: [{ ...CLAIM, destination: 'none' }] })
  expect(store.run({ claims: [CLAIM] }).claimed).toMatchObject([{ id: 1 }])
  expect(store.found().ids).toEqual([1])
})

test('a delivery gets no id below what the file says, although all newer ones were deleted', async () => {
  await using store = await subject()
  const { put } = store.run({ deliveries: leased(20_000) })
  store.run({ settlements: put.map((id = 0) => settlement({ id, attempt: 1 })) })
  store.advance(60_000)
  store.run({ queries: [{ ask: 'sweep', given: [1, 30_000] }] })
  expect(store.found().nextId).toBeGreaterThan(10_000)
})

test('a lease that has run out waits, and is settled as long as nobody has claimed it', async () => {
  await using store = await subject()
  store.run({ deliveries: leased(2) })
  store.advance(LEASE_MS)
  const [one] = store.run({ claims: [{ ...CLAIM, lane: 'backlog' }] }).claimed
  expect(one).toMatchObject({ id: 1, attempt: 2 })
  expect(store.found().ids).toEqual([])
  const settlements = [1, 2].map((id) => settlement({ id, attempt: 1 }))
  expect(store.run({ settlements }).settled).toEqual([false, true])
})

test.each([
  ['of a user', 'leased', { ask: 'purgeUser', given: ['ann', 0] }],
  ['of a destination', 'backlog', { ask: 'discard', given: ['crm', 10] }],
  ['that is old', 'skipped', { ask: 'sweep', given: [-1, 10] }],
] satisfies [string, NewDelivery['state'], Query][])(
  'the id of a message %s that was deleted is not given again',
  async (_, state, query) => {
    await using store = await subject()
    store.run({ deliveries: [fresh()] })
    const { put } = store.run({ deliveries: [newDelivery({ state })] })
    expect(put).toEqual([2])
    store.run({ queries: [query] })
    store.run({ queries: [query] })
    expect(store.found().nextId).toBe(3)
  },
)
