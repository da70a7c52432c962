import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import type { StoreError } from '../store-error.js'
import { loadDriver } from './driver.js'
import { Engine } from './engine.js'
import type { Failure, RoundResult } from './round.js'
import { unflattenDeliveries, unflattenSettlements } from './wire.js'
import type { Opened, Sent, ThreadData } from './store.js'

// Runs an engine for the thread that started this one: a round in, its result out, until there is nothing to come.

const port = parentPort as MessagePort

try {
  const engine = await open(workerData as ThreadData)
  port.on('message', (sent: Sent | 'close') => {
    if (sent === 'close') {
      engine.close()
      port.close()
      return
    }
    const result: RoundResult = engine.run({
      ...sent,
      deliveries: unflattenDeliveries(sent.deliveries),
      settlements: unflattenSettlements(sent.settlements),
    })
    port.postMessage(result)
  })
  port.postMessage({ value: undefined } satisfies Opened)
} catch (error) {
  const { code, message, cause } = error as StoreError
  port.postMessage({ failure: { code, message, cause } satisfies Failure } satisfies Opened)
}

async function open({ path, driver, now }: ThreadData): Promise<Engine> {
  return new Engine(await loadDriver(driver), path, now)
}
