import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import { loadDriver } from './driver.js'
import type { ThreadData } from './store.js'

// Copies the log back into the file while rounds go on; within a round, all that it puts would wait for that. The
// engine's thread starts this one, and tells when it has committed. A copy that fails is the engine's to make: it does
// so once the log is long, and has somebody to tell.

/** In ms. A page that several rounds change within it is copied once. */
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
    // Said above.
  }
}
