// The threads of SQLite stores, for the sources that tests import: vitest.config.ts puts this in the place of Node's `Worker`.
import { EventEmitter } from 'node:events'
import { MessageChannel, Worker as Thread, type MessagePort } from 'node:worker_threads'
import { inject } from 'vitest'
import type { ThreadData } from '../src/store/sqlite/store.js'

const idle: Thread[] = []

/**
 * A thread for one store. To start a thread and to load its modules takes ten times as long as to open a store in it, and the
 * tests open hundreds. So a thread whose store is closed serves the next store. The stores in compiled sources, as those of
 * processes, have threads of their own.
 */
export class Worker extends EventEmitter {
  readonly #port: MessagePort

  constructor(_: URL, { workerData }: { workerData: ThreadData }) {
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

function startThread(): Thread {
  return new Thread(new URL('./store-thread.js', import.meta.url), {
    workerData: { compiledDir: inject('compiledDir') },
    // Without the flags of the test process, with which the thread would load a script of Vitest.
    execArgv: [],
  })
}
