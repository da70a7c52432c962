// The file of a store that is in use is removed, replaced or moved. SQLite itself goes on with what it has open.
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { Files } from '../../../src/store/sqlite/files.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const openDatabase = await loadDriver()

/** A path in a folder of its own, which can be removed. */
async function freePath(): Promise<{ outer: string; data: string; path: string }> {
  const place = await folder()
  onTestFinished(() => place[Symbol.asyncDispose]())
  const data = `${place.path}/data`
  return { outer: place.path, data, path: `${data}/store.db` }
}

async function opened(path: string): Promise<Store> {
  const store = await openStore(`sqlite:${path}`)
  onTestFinished(() => store.close())
  return store
}

/** A store that is open, and a backup that was made beside it. */
async function withBackup() {
  const { outer, path } = await freePath()
  const store = await openStore(`sqlite:${path}`)
  await store.put([newDelivery({ messageId: 'before' })])
  const backup = `${outer}/backup.db`
  const database = openDatabase(path)
  database.exec(`VACUUM INTO '${backup}'`)
  database.close()
  return { path, store, backup }
}

const removed = (file: string): unknown =>
  expect.objectContaining({
    name: 'StoreError',
    code: 'removed',
    message: expect.stringMatching(`/${file} was removed or replaced .*restart`) as unknown,
  })

async function refusesAll(store: Store, file = 'store.db'): Promise<void> {
  await expect(store.put([newDelivery()])).rejects.toEqual(removed(file))
  await expect(store.ping()).rejects.toEqual(removed(file))
  await expect(store.purgeUser('u', 0)).rejects.toEqual(removed(file))
  const changes = [{ kind: 'k', name: 'n', value: '1', actor: 'a', action: 'x' }]
  await expect(store.writeRecords(changes as never)).rejects.toEqual(removed(file))
}

const takes = (store: Store) => Promise.all([store.put([newDelivery()]), store.ping()])

test('after its folder was removed, a store takes nothing, and gives out what it has', async () => {
  const { data, path } = await freePath()
  const store = await opened(path)
  const [leased] = await store.put([
    newDelivery({ messageId: 'leased', state: 'leased' }),
    newDelivery({ messageId: 'waiting' }),
  ])
  rmSync(data, { recursive: true })
  await refusesAll(store)
  // A new delivery that comes together with a settlement does not keep it from being written.
  const [settled, put] = await Promise.allSettled([
    store.settle([settlement({ id: leased as number, attempt: 1 })]),
    store.put([newDelivery({ messageId: 'refused' })]),
  ])
  expect(settled).toEqual({ status: 'fulfilled', value: 0 })
  expect(put.status).toBe('rejected')
  const claimed = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 9 }])
  expect(claimed.map(({ messageId }) => messageId)).toEqual(['waiting'])
  expect(await store.stats()).toMatchObject([{ fresh: 0, leased: 1 }])
})

test('after another file came to its path, a store takes nothing, and the next one opens that file', async () => {
  const { path, store, backup } = await withBackup()
  await takes(store)
  renameSync(backup, path)
  await refusesAll(store)
  await store.close()
  const next = await opened(path)
  expect(await next.stats()).toMatchObject([{ fresh: 1 }])
  await takes(next)
})

test(
  'a file that comes to its path at once stays as it is, also after the end',
  { tags: 'long' },
  async () => {
    const { path, store, backup } = await withBackup()
    await store.put(Array.from({ length: 50 }, (_, n) => newDelivery({ messageId: `m${n}` })))
    const bytes = readFileSync(backup)
    renameSync(backup, path)
    // By then, the thread for checkpoints would have opened the path, and copied the log after the next round.
    await setTimeout(2_000)
    await store.claim([{ destination: 'crm', lane: 'fresh', limit: 9 }])
    await setTimeout(500)
    await store.close()
    expect(readFileSync(path).equals(bytes)).toBe(true)
    const next = await opened(path)
    expect(await next.stats()).toMatchObject([{ fresh: 1 }])
  },
)

test.each(['the file', 'the folder'])('takes calls again once %s is back', async (what) => {
  const { outer, data, path } = await freePath()
  const store = await opened(path)
  const from = what === 'the file' ? path : data
  renameSync(from, `${outer}/away`)
  await refusesAll(store)
  if (what === 'the folder') {
    mkdirSync(data) // as if a volume was not mounted
    await refusesAll(store)
    rmSync(data, { recursive: true })
  }
  renameSync(`${outer}/away`, from)
  await takes(store)
})

test('a copy at its path is not the file', async () => {
  const { outer, path } = await freePath()
  const store = await opened(path)
  copyFileSync(path, `${outer}/copy`)
  renameSync(path, `${outer}/away`)
  renameSync(`${outer}/copy`, path)
  await refusesAll(store)
})

test('without its log a store takes nothing: the newest commits are there', async () => {
  const { path } = await freePath()
  const store = await opened(path)
  unlinkSync(`${path}-wal`)
  await refusesAll(store, 'store.db-wal')
})

test('a symbolic link may be changed if it leads to the same file, and to no other', async () => {
  const { outer, data, path } = await freePath()
  mkdirSync(data)
  const link = `${outer}/link.db`
  symlinkSync(path, link)
  const store = await opened(link)
  await takes(store)
  unlinkSync(link)
  symlinkSync('data/store.db', link)
  await takes(store)
  unlinkSync(link)
  await expect(store.ping()).rejects.toEqual(removed('link.db'))
  writeFileSync(`${outer}/other.db`, '')
  symlinkSync('other.db', link)
  await expect(store.put([newDelivery()])).rejects.toEqual(removed('link.db'))
})

test('an error of the connection does not make a store open what is at its path now', async () => {
  const { outer, path } = await freePath()
  const store = await opened(path)
  const [id] = await store.put([newDelivery({ messageId: 'm' })])
  const database = openDatabase(path)
  database.exec(`UPDATE deliveries SET id = ${(id ?? 0) + 1}`)
  database.close()
  await (await openStore(`sqlite:${outer}/other.db`)).close()
  // The id that the next delivery gets is taken, so the connection counts as broken.
  await expect(store.put([newDelivery()])).rejects.toMatchObject({ code: 'failed' })
  renameSync(`${outer}/other.db`, path)
  await expect(store.stats()).rejects.toEqual(removed('store.db'))
  await expect(store.put([newDelivery()])).rejects.toEqual(removed('store.db'))
})

test('a file system that gives an error says nothing about the file', async () => {
  const { data, path } = await freePath()
  mkdirSync(data)
  writeFileSync(path, '')
  const files = new Files(path)
  files.found()
  expect(files.missing()).toBeUndefined()
  unlinkSync(path)
  expect(files.missing()).toBe(path)
  symlinkSync('store.db', path) // ELOOP
  expect(files.missing()).toBeUndefined()
})

test('a file whose folder became a file was removed', async () => {
  const { data, path } = await freePath()
  const store = await opened(path)
  rmSync(data, { recursive: true })
  writeFileSync(data, '')
  await refusesAll(store)
})
