import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../../src/store/sqlite/connection.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { Engine } from '../../../src/store/sqlite/engine.js'
import { LEASE_MS } from '../../../src/store/store.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const openDatabase = await loadDriver()

const DAY = 86_400_000
const NOW = 1_700_000_000_000

/** More than two sweeps look at. */
const MANY = 25_000

test('a sweep looks only at some rows, and the next one goes on behind them and what has to stay', async () => {
  await using place = await folder()
  const path = join(place.path, 'store.db')
  const { put, database } = connect(openDatabase, path)
  put.one(newDelivery({ state: 'leased' }), NOW)
  put.one(newDelivery({ state: 'skipped', body: '' }), NOW)
  // Dead letters that died today, between the two.
  database.exec('UPDATE deliveries SET id = 1000000 WHERE id = 2')
  database.exec(
    `WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${MANY})
     INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at,
       received_at, attempts_before)
     SELECT n, 'dead ' || n, source, destination, type, user, event, 3, 1, ${NOW + DAY}, received_at, 0
     FROM numbers, deliveries WHERE id = 1`,
  )
  database.exec(`UPDATE deliveries SET first_attempt_at = ${NOW + DAY} WHERE id = 1`)
  database.close()

  let now = NOW
  const at = () => ({ now, wall: now })
  // As a thread that was started again: what was leased is still being sent.
  const engine = new Engine(openDatabase, { path, at: at(), isRestart: true })
  const none = { settlements: [], deliveries: [], claims: [] }
  const sweep = (): number => {
    const { answers } = engine.run({
      at: at(),
      ...none,
      queries: [{ ask: 'sweep', given: [DAY, 10] }],
    })
    const [answer] = answers
    if (!answer || !('value' in answer)) throw new Error('failed')
    return (answer.value as { changed: number }).changed
  }
  now += DAY + LEASE_MS / 2
  const changed = [sweep()]
  expect(changed).toEqual([0])
  while (!changed.includes(1) && changed.length < 5) changed.push(sweep())
  expect(changed).toContain(1)
  engine.run({ at: at(), ...none, settlements: [settlement({ id: 1, attempt: 1 })], queries: [] })
  for (let n = 0; n < 5; n++) changed.push(sweep())
  expect(changed.filter((count) => count > 0)).toEqual([1, 1])
  engine.close(at())
})
