import { once } from 'node:events'
import { parentPort, Worker, workerData, type MessagePort } from 'node:worker_threads'
import type { StoreError } from '../store-error.js'
import { loadDriver } from './driver.js'
import { Engine } from './engine.js'
import type { Failure, RoundResult } from './round.js'
import { unflattenDeliveries, unflattenSettlements } from './wire.js'
import type { Opened, Sent, ThreadData } from './store.js'

// Runs an engine for the thread that started this one: a round in, its result out, until there is nothing to come.

/** In ms. The start is for the first requests, and whoever opens a store to look at it needs no copies. */
const CHECKPOINTS_AFTER_MS = 1_000

const port = parentPort as MessagePort
const data = workerData as ThreadData

try {
  const engine = new Engine(await loadDriver(data.driver), data.path, data.now)
  const checkpoints = startCheckpoints()
  port.on('message', (sent: Sent | 'close') => {
    if (sent === 'close') {
      void checkpoints.end().then(() => {
        engine.close() // the last to close empties the log
        port.close()
      })
      return
    }
    const result: RoundResult = engine.run({
      ...sent,
      deliveries: unflattenDeliveries(sent.deliveries),
      settlements: unflattenSettlements(sent.settlements),
    })
    port.postMessage(result)
    checkpoints.tell()
  })
  port.postMessage({ value: undefined } satisfies Opened)
} catch (error) {
  const { code, message, cause } = error as StoreError
  port.postMessage({ failure: { code, message, cause } satisfies Failure } satisfies Opened)
}

/** Has the log copied by a thread of its own. One that can't start, or dies, is done without. */
function startCheckpoints() {
  let thread: Worker | undefined
  let ended: Promise<unknown> = Promise.resolve()
  const start = () => {
    thread = new Worker(new URL('./checkpoint.js', import.meta.url), { workerData: data })
    thread.on('error', () => undefined)
    ended = once(thread, 'exit')
  }
  const timer = setTimeout(start, CHECKPOINTS_AFTER_MS)
  return {
    tell: () => {
      thread?.postMessage('committed')
    },
    end: () => {
      clearTimeout(timer)
      thread?.postMessage('close')
      return ended
    },
  }
}
