import { fdatasyncSync, fstatSync, statSync } from 'node:fs'
import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import { loadDriver } from './driver.js'
import { counted } from './exit.js'
import type { ThreadData } from './round.js'

// Copies the write-ahead log into the database file in a thread of its own. If a round did this, its puts would wait
// for it. The engine's thread starts this one, and posts a message after each commit.
//
// The log starts anew only when all of it is copied, and under load rounds add to it meanwhile. So once the log is long, the
// engine is told that little is left to copy. SQLite syncs the file itself only with the last page of the log, which would
// be in the engine's thread, with all pages since the last time. So this thread syncs the file after each copy.

/** In ms. A page that several rounds change within this time is copied once instead of several times. */
const GATHER_MS = 100

/** In pages (4 MB): how long the log is when the engine is asked to copy the rest. */
const LONG_PAGES = 1_000

/** What the thread starts with. */
export interface CheckpointData extends Pick<ThreadData, 'path' | 'driver' | 'calls'> {
  /** The descriptor of the database file: see {@link Engine.file}. */
  file: number
}

const port = parentPort as MessagePort
const { path, driver, calls, file } = workerData as CheckpointData
const open = counted(await loadDriver(driver), calls)
requireSameFile()
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

/** SQLite would apply the log of the store to any other file that has come to its path, or create one. */
function requireSameFile(): void {
  const [opened, found] = [fstatSync(file, { bigint: true }), statSync(path, { bigint: true })]
  if (opened.dev === found.dev && opened.ino === found.ino) return
  throw new Error(`${path} is not the file of the store any more.`)
}

function copy(): void {
  timer = undefined
  try {
    const { log, checkpointed } = database.prepare('PRAGMA wal_checkpoint(PASSIVE)').get() as {
      log: number
      checkpointed: number
    }
    fdatasyncSync(file)
    if (checkpointed === log && log >= LONG_PAGES) port.postMessage('copied')
  } catch {
    // The engine copies the log itself once it is long. Only the calls of the engine can report an error to somebody.
  }
}
