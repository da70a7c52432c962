// The backup and the restore of docs/operating.md, while a destination is in use.
import { copyFileSync, rmSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { loadDriver } from '../src/store/sqlite/driver.js'
import { destination, endpoint, post, settingsFor, start, track } from './run.js'

const openDatabase = await loadDriver()

test('a restore sends what was delivered after the backup once more, and has no later message', async () => {
  const waiting: ServerResponse[] = []
  const crm = await endpoint((response) => waiting.push(response), 204)
  const settings = settingsFor([destination([crm])])
  const folder = dirname((settings.store as string).slice('sqlite:'.length))
  const [file, backup] = [join(folder, 'store.db'), join(folder, 'backup.db')]

  const first = await start(settings)
  await post(first, [track('before')])
  await crm.has(1)
  const reader = openDatabase(file)
  reader.exec(`VACUUM INTO '${backup}'`)
  reader.close()
  waiting[0]?.writeHead(204).end()
  await post(first, [track('after')])
  await crm.has(2)
  await first.close()

  copyFileSync(backup, file)
  for (const suffix of ['-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true })
  const second = await start(settings)
  await crm.has(3)
  const sent = () => crm.received.map(({ headers }) => headers['x-message-id'])
  expect(sent()).toEqual(['before', 'after', 'before'])
  // The restored store does not know the later message, so it is no duplicate.
  await post(second, [track('before'), track('after')])
  await crm.has(4)
  await expect.poll(() => second.stats()).toEqual([])
  expect(sent().slice(3)).toEqual(['after'])
})
