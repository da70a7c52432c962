// Plays the rounds of proof 6 whose seeds it is told, one after the other. The timers of this thread are virtual.
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'

const { bundle, destination } = workerData

/** What is simulated, in the order of its way: from the package, so that a mutant can be. */
const PARTS = {
  createEnqueue: 'enqueue/enqueue.js',
  Dispatcher: 'deliver/dispatcher.js',
  destinationQueues: 'deliver/destination-queues.js',
  unusedEndpoints: 'deliver/destination-queues.js',
  SharedBreakers: 'deliver/shared-breakers.js',
  Settler: 'deliver/settler.js',
  Engine: 'store/sqlite/engine.js',
  loadDriver: 'store/sqlite/driver.js',
}

const load = (path) => import(pathToFileURL(path).href)

const { play } = await load(bundle)
const stage = {}
for (const [name, file] of Object.entries(PARTS)) {
  stage[name] = (await load(join(destination, 'dist', file)))[name]
}

parentPort.on('message', async (seed) => {
  parentPort.postMessage(await play(seed, stage))
})
