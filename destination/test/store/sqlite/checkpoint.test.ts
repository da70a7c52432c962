import { randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { newDelivery } from '../contract.js'
import { folder } from './subject.js'

test('the log is copied into the file while rounds go on, and is gone after the end', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const store = await openStore(`sqlite:${path}`)
  const before = statSync(path).size
  // The log stays too short for a round to copy it, so only the checkpoint thread can.
  const putAndLook = async () => {
    await store.put([newDelivery({ messageId: randomUUID() })])
    return statSync(path).size
  }
  await expect.poll(putAndLook, { timeout: 30_000 }).toBeGreaterThan(before)
  await store.close()
  expect(() => statSync(`${path}-wal`)).toThrow('ENOENT')
})
