import { Worker, type MessagePort } from 'node:worker_threads'
import type { StoreError } from '../store-error.js'
import type { CheckpointData } from './checkpoint.js'
import { loadDriver } from './driver.js'
import { Engine } from './engine.js'
import { counted } from './exit.js'
import { toFailure } from './failure.js'
import type { Goodbye, Opened, Result, Sent, SentBack, ThreadData, Upgrading } from './round.js'
import type { Delivery } from '../../model/delivery.js'
import { packClaimed, unpackDeliveries, unpackSettlements, type Packed } from './wire.js'

/** In ms. The first requests go first, and a command that opens a store only to read it needs no checkpoints. */
const CHECKPOINTS_AFTER_MS = 1_000

/**
 * Runs an engine for the main thread: it receives a round and posts its result, until it is told to close. Then, or if the
 * file can't be opened, it closes the port.
 */
export async function serve(port: MessagePort, data: ThreadData): Promise<void> {
  let engine: Engine
  try {
    const open = counted(await loadDriver(data.driver), data.calls)
    engine = new Engine(open, data, (upgrade) => {
      port.postMessage({ upgrade } satisfies Upgrading)
    })
  } catch (error) {
    port.postMessage({ failure: toFailure(error as StoreError) } satisfies Opened)
    port.close()
    return
  }
  const checkpoints = startCheckpoints(data, engine)
  port.on('message', (sent: Sent | Goodbye) => {
    if ('closeAt' in sent) {
      void checkpoints.end().then(() => {
        // After the checkpoint thread: SQLite empties the log when the last connection closes.
        engine.close(sent.closeAt)
        port.close()
      })
      return
    }
    const result = engine.run({
      ...sent,
      deliveries: unpackDeliveries(sent.deliveries),
      settlements: unpackSettlements(sent.settlements),
    })
    port.postMessage({ ...result, claimed: packed(result.claimed) } satisfies SentBack)
    checkpoints.tell()
  })
  port.postMessage({ value: engine.timeAt(data.at) } satisfies Opened)
}

function packed(claimed: Result<Delivery[][]>): Result<Packed> {
  return 'value' in claimed ? { value: packClaimed(claimed.value) } : claimed
}

/** Starts the thread that copies the log. If it can't start or dies, the engine copies the log itself. */
function startCheckpoints({ path, driver, calls }: ThreadData, engine: Engine) {
  let thread: Worker | undefined
  let ended: Promise<unknown> = Promise.resolve()
  const start = () => {
    const workerData: CheckpointData = { path, driver, calls, file: engine.file }
    let started: Worker
    try {
      started = new Worker(new URL('./checkpoint.js', import.meta.url), { workerData })
    } catch {
      return // as if it had died
    }
    started.on('message', () => {
      engine.checkpoint()
    })
    started.on('error', () => undefined)
    // Not events.once(), which rejects if an error comes first.
    ended = new Promise((resolve) => started.once('exit', resolve))
    thread = started
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
