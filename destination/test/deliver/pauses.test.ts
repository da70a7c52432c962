// The times of a pause are those of the store's clock, because other processes compare them with theirs.
import { expect, onTestFinished, test } from 'vitest'
import { Pauses } from '../../src/deliver/pauses.js'
import { openStore } from '../../src/store/open.js'
import { folder } from '../store/sqlite/subject.js'

const ACTOR = { by: 'operator', from: null } as const

test('a pause begins and ends by the clock of the store', async () => {
  let time = 1_700_000_000_000
  const place = await folder()
  const store = await openStore(`sqlite:${place.path}/store.db`, { now: () => time })
  onTestFinished(async () => {
    await store.close()
    await place[Symbol.asyncDispose]()
  })
  const pauses = await Pauses.open(store)
  await pauses.pause('crm', { reason: 'repair', by: 'operator' }, ACTOR)
  expect(pauses.of('crm')).toMatchObject({ at: time, reason: 'repair' })
  const began = time
  time += 60_000
  await pauses.pause('crm', { reason: 'a longer repair', by: 'operator' }, ACTOR)
  expect(pauses.of('crm')).toMatchObject({ at: began, reason: 'a longer repair' })
  await pauses.resume('crm', ACTOR)
  expect(pauses.resumedAt('crm')).toBe(time)
  const other = await Pauses.open(store)
  expect(other.resumedAt('crm')).toBe(time)
})
