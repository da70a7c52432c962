// @module-tag long
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, readSync, renameSync, statSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { expect, test, vi } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { Engine } from '../../../src/store/sqlite/engine.js'
import { callsUntilExit } from '../../../src/store/sqlite/exit.js'
import { serve } from '../../../src/store/sqlite/serve.js'
import { packDeliveries, packSettlements } from '../../../src/store/sqlite/wire.js'
import { newDelivery } from '../contract.js'
import { folder } from './subject.js'

const at = () => ({ now: Date.now(), wall: Date.now() })
const emptyRound = () => ({ at: at(), settlements: [], deliveries: [], claims: [], queries: [] })

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

// Both hold however fast the disk and the processors are. Together they say how a long log starts anew although rounds never pause.
test('once the thread has copied a long log, the engine is to copy the rest of it', async () => {
  await using place = await folder()
  const checkpoint = vi.spyOn(Engine.prototype, 'checkpoint')
  const { port1: port, port2 } = new MessageChannel()
  const data = { path: `${place.path}/store.db`, driver: undefined, calls: callsUntilExit() }
  await serve(port2, { ...data, at: at(), isRestart: false })
  await once(port, 'message')
  while (checkpoint.mock.calls.length === 0) {
    const deliveries = packDeliveries([newDelivery({ messageId: randomUUID() })])
    port.postMessage({ ...emptyRound(), deliveries, settlements: packSettlements([]) })
    await once(port, 'message')
  }
  port.postMessage({ closeAt: at() })
  await once(port, 'close')
  checkpoint.mockRestore()
})

test('the next round starts a log anew that the engine has copied', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const engine = new Engine(await loadDriver(), { path, at: at(), isRestart: false })
  // A log that starts anew has another salt: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
  const salt = () => {
    const header = Buffer.alloc(32)
    const log = openSync(`${path}-wal`, 'r')
    readSync(log, header)
    closeSync(log)
    return header.readUInt32BE(16)
  }
  const put = () => {
    const messageId = randomUUID()
    engine.run({ ...emptyRound(), deliveries: [newDelivery({ messageId })] })
  }
  put()
  const before = salt()
  put()
  expect(salt()).toBe(before)
  engine.checkpoint()
  put()
  expect(salt()).not.toBe(before)
  engine.close(at())
})

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
