// @module-tag long
import { randomUUID } from 'node:crypto'
import { closeSync, openSync, readFileSync, readSync, renameSync, statSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
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
  await expect.poll(putAndLook).toBeGreaterThan(before)
  await store.close()
  expect(() => statSync(`${path}-wal`)).toThrow('ENOENT')
})

// Where this thread gets no processor for long, a round copies the log first.
test(
  'under load, a long log always starts anew before a round has to copy it',
  { retry: 3 },
  async () => {
    await using place = await folder()
    const path = `${place.path}/store.db`
    const store = await openStore(`sqlite:${path}`)
    // A log that starts anew has another salt: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    const salt = () => {
      const header = Buffer.alloc(32)
      const log = openSync(`${path}-wal`, 'r')
      readSync(log, header)
      closeSync(log)
      return header.readUInt32BE(16)
    }
    const put = () => store.put([newDelivery({ messageId: randomUUID() })])
    // The thread has started once it has copied something.
    const before = statSync(path).size
    const putAndLook = async () => {
      await put()
      return statSync(path).size
    }
    await expect.poll(putAndLook).toBeGreaterThan(before)
    const salts = new Set<number>()
    while (salts.add(salt()).size < 30) await put()
    // A round copies a log of 4,000 pages itself. The log keeps its size when it starts anew.
    expect(statSync(`${path}-wal`).size).toBeLessThan(4_000 * 4_096)
    await store.close()
  },
)

// Without its locks, the next program that closes the file deletes the log that the store still writes to.
test.runIf(process.platform === 'linux')('the store keeps its locks on the file', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const store = await openStore(`sqlite:${path}`)
  const { ino } = statSync(path)
  const copiedAfter = (ms: number) =>
    expect
      .poll(async () => {
        await store.put([newDelivery({ messageId: randomUUID() })])
        return statSync(path).mtimeMs
      })
      .toBeGreaterThan(ms)
  // The file is synced after each copy. So with the second copy it has been synced.
  await copiedAfter(statSync(path).mtimeMs)
  await copiedAfter(statSync(path).mtimeMs)
  expect(readFileSync('/proc/locks', 'utf8')).toContain(`:${ino} `)
  await store.close()
})

test('goes on without its thread if that cannot open the file, and copies the log itself', async () => {
  await using place = await folder()
  const path = `${place.path}/open/store.db`
  const store = await openStore(`sqlite:${path}`)
  // The thread opens the path; the engine has opened it already, and takes no calls while it is gone.
  renameSync(`${place.path}/open`, `${place.path}/moved`)
  await setTimeout(1_500)
  // The thread would be started by now, and a round copies a log of 4,000 pages.
  renameSync(`${place.path}/moved`, `${place.path}/open`)
  const before = statSync(path).size
  const body = 'x'.repeat(30_000)
  const putAndLook = async () => {
    const many = Array.from({ length: 50 }, () => newDelivery({ messageId: randomUUID(), body }))
    await store.put(many)
    return statSync(path).size
  }
  await expect.poll(putAndLook).toBeGreaterThan(before)
  await store.close()
})
