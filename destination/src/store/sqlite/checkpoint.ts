import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import { loadDriver } from './driver.js'
import type { ThreadData } from './store.js'

// Copies the write-ahead log into the database file in a thread of its own. If a round did this, its puts would wait
// for it. The engine's thread starts this one, and posts a message after each commit.

/** In ms. A page that several rounds change within this time is copied once instead of several times. */
const GATHER_MS = 250

const port = parentPort as MessagePort
const { path, driver } = workerData as ThreadData
const open = await loadDriver(driver)
const database = open(path)
let timer: NodeJS.Timeout | undefined

port.on('message', (message: 'committed' | 'close') => {
  if (message === 'committed') {
    timer ??= setTimeout(copy, GATHER_MS)
    return
  }
  clearTimeout(timer)
  database.close()
  port.close()
})

function copy(): void {
  timer = undefined
  try {
    database.exec('PRAGMA wal_checkpoint(PASSIVE)')
  } catch {
    // The engine copies the log itself once it is long. Only the calls of the engine can report an error to somebody.
  }
}
