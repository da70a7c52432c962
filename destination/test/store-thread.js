// Serves one store after the other in the same thread, for reused-threads.ts.
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parentPort, workerData } from 'node:worker_threads'

const { serve } = await import(`${workerData.compiledDir}/store/sqlite/serve.js`)
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

parentPort.on('message', ({ port, data }) => {
  // The packaged SQLite closes a connection once its statements are garbage. The end of a thread closes it, too.
  port.on('close', async () => {
    // In this turn the port still holds what its listeners use.
    await setImmediate()
    collectGarbage()
    await setImmediate()
    parentPort.postMessage('ended')
  })
  void serve(port, data)
})
