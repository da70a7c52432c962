// A setup file: the threads of SQLite stores that the tests open in their own process serve one store after the other.
import { EventEmitter } from 'node:events'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { MessageChannel, type MessagePort, type Worker } from 'node:worker_threads'
import { inject } from 'vitest'
import type { ThreadData } from '../src/store/sqlite/round.js'

/** The threads of the compiled sources, which tests run. */
const COMPILED = new URL(`file://${inject('compiledDir')}/`).href

/** Without the flags of the test process, with which a thread would load a script of Vitest. */
const NO_FLAGS = { execArgv: [] }

const threads = createRequire(import.meta.url)('node:worker_threads') as { Worker: typeof Worker }
const Thread = threads.Worker
const idle: Worker[] = []

/**
 * A thread for one store. To start a thread and to load its modules takes ten times as long as to open a store in it, and the
 * tests open hundreds. So a thread whose store is closed serves the next store. The stores in other processes have threads of
 * their own.
 */
class StoreThread extends EventEmitter {
  readonly #port: MessagePort

  constructor(workerData: ThreadData) {
    super()
    const { port1, port2 } = new MessageChannel()
    const thread = idle.pop() ?? startThread()
    const fail = (error: Error) => {
      this.emit('error', error)
      this.emit('exit', 1)
    }
    thread.on('error', fail)
    thread.once('message', () => {
      thread.off('error', fail)
      thread.unref()
      idle.push(thread)
      this.emit('exit', 0)
    })
    thread.ref()
    thread.postMessage({ port: port2, data: workerData }, [port2])
    this.#port = port1.on('message', (message) => this.emit('message', message))
  }

  postMessage(message: unknown): void {
    this.#port.postMessage(message)
  }
}

function startThread(): Worker {
  const workerData = { compiledDir: inject('compiledDir') }
  return new Thread(new URL('./store-thread.js', import.meta.url), { workerData, ...NO_FLAGS })
}

/** Stands for Node's `Worker`. */
function OwnThread(url: URL, options: { workerData: ThreadData }): Worker | StoreThread {
  if (url.href === `${COMPILED}store/sqlite/thread.js`) return new StoreThread(options.workerData)
  return new Thread(url, url.href.startsWith(COMPILED) ? { ...options, ...NO_FLAGS } : options)
}

// Several test files run in one process, and each of them runs this file.
if (Thread.name !== OwnThread.name) {
  Object.assign(threads, { Worker: OwnThread })
  syncBuiltinESMExports()
}
