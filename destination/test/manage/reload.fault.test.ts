// Settings files that are read again while the server of the store is away.
import { expect, onTestFinished, test } from 'vitest'
import { startDestination } from '../../src/destination.js'
import type { ManagedSettings } from '../../src/model/answers.js'
import { openStore } from '../../src/store/open.js'
import { startServer } from '../store/postgres/server.js'
import { ADMIN_TOKEN, destination, settingsFor, silent } from '../run.js'

test('other settings are used while the store is away, and it learns later whose the names are', async () => {
  const server = await startServer({ fsync: 'off' })
  onTestFinished(() => server.dispose())
  const store = await server.database()
  const warnings: string[] = []
  const log = { ...silent, warn: (_: object, message: string) => void warnings.push(message) }
  const settingsOf = (names: string[]) =>
    settingsFor(
      names.map((name) => destination([{ url: 'http://127.0.0.1:9/' }], { name, tenant: 'acme' })),
      { store, tenants: [{ name: 'acme', portal: { editUrls: false } }] },
    )
  const running = await startDestination(settingsOf(['one']), log)
  onTestFinished(() => running.close())
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
  const namesInUse = async () => {
    const response = await fetch(`${running.url}/v1/admin/destinations`, { headers })
    const { items } = (await response.json()) as ManagedSettings
    return items.map(({ name }) => name)
  }

  await server.stop('fast')
  await running.reload(settingsOf(['one', 'two']))
  await running.reload(settingsOf(['one', 'two', 'three']))
  expect(warnings.filter((text) => text.includes('whose the names'))).toHaveLength(1)
  // Nothing is encrypted without a key.
  expect(warnings.filter((text) => text.includes('settingsKey'))).toEqual([])
  expect(await namesInUse()).toEqual(['one', 'three', 'two'])

  await server.start()
  const other = await openStore(store)
  onTestFinished(() => other.close())
  const owned = async () => {
    const { records } = await other.records(0, 100)
    return records.filter(({ kind }) => kind === 'owner').map(({ name }) => name)
  }
  await expect.poll(async () => (await owned()).sort()).toEqual(['one', 'three', 'two'])
})
