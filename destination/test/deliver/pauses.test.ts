// The times of a pause are those of the store's clock, because other processes compare them with theirs.
import { expect, onTestFinished, test, vi } from 'vitest'
import { Pauses } from '../../src/deliver/pauses.js'
import { openStore } from '../../src/store/open.js'
import { folder } from '../store/sqlite/subject.js'

const ACTOR = { by: 'operator', from: null } as const

async function newStore(now: () => number) {
  const place = await folder()
  const store = await openStore(`sqlite:${place.path}/store.db`, { now })
  onTestFinished(async () => {
    await store.close()
    await place[Symbol.asyncDispose]()
  })
  return store
}

test('a pause begins and ends by the clock of the store', async () => {
  let time = 1_700_000_000_000
  const store = await newStore(() => time)
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

test.each(['deletes its destination', 'resumes it'])(
  'a pause holds until the settings of its end are in use: another process %s',
  async (how) => {
    const store = await newStore(Date.now)
    const manager = await Pauses.open(store)
    for (const name of ['crm', 'ads']) {
      await manager.pause(name, { reason: 'wrong', by: 'operator' }, ACTOR)
    }
    const other = await Pauses.open(store)
    const obeyed = vi.fn(() => Promise.resolve())
    let use!: () => void
    const inUse = new Promise<void>((resolve) => {
      use = resolve
    })
    const catchUp = vi.fn(() => inUse)
    other.start(obeyed, { catchUp }, { followFailed: expect.unreachable })
    if (how === 'resumes it') await manager.resume('crm', ACTOR)
    else await store.writeRecords(await manager.endsOf(['crm']))
    const following = other.catchUp()
    await expect.poll(() => catchUp.mock.calls).toHaveLength(1)
    expect(other.of('crm')).toBeDefined()
    expect(obeyed).not.toHaveBeenCalled()
    use()
    await following
    expect(other.of('crm')).toBeUndefined()
    expect(other.of('ads')).toBeDefined()
    expect(obeyed).toHaveBeenCalledOnce()
  },
)
