// The endpoints of a round, as the round sees them.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'

/**
 * Starts endpoints in a thread.
 *
 * @param {{ latencyMs: number, secret: string }[]} plans one for each endpoint
 *
 * @returns their URLs, and `tell`, which resolves when the thread has followed an order
 */
export async function startEndpoints(plans) {
  const thread = new Worker(new URL('endpoint-thread.js', import.meta.url), {
    workerData: plans,
  })
  const [{ urls }] = await once(thread, 'message')
  const waiting = new Map()
  let orders = 0
  thread.on('message', ({ number, answer }) => waiting.get(number)(answer))
  const tell = (order, given = {}) => {
    const number = ++orders
    thread.postMessage({ number, order, ...given })
    return new Promise((resolve) => waiting.set(number, resolve))
  }
  return { urls, tell, close: () => thread.terminate() }
}
