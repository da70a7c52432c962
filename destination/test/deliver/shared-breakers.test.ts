import { expect, test } from 'vitest'
import { destinationQueues } from '../../src/deliver/destination-queues.js'
import { SharedBreakers } from '../../src/deliver/shared-breakers.js'
import { HEARTBEAT_MS, WORKER_TIMEOUT_MS, type Workers } from '../../src/store/workers.js'
import { MemoryWorkers } from '../simulation/memory-store.js'

test('a worker whose endpoints are all down, with a slow store, is not taken for gone', async () => {
  let time = 0
  const now = () => time
  const members = new MemoryWorkers(now)
  const [own, other] = [members.join(), members.join()]
  const counts: number[] = []
  let otherBeatsAt = 0
  /** Each answer takes a second. */
  const wait = async () => {
    time += 1_000
    if (time < otherBeatsAt) return
    otherBeatsAt = time + HEARTBEAT_MS
    counts.push(await other.heartbeat())
  }
  const workers: Workers = {
    heartbeat: async () => (await wait(), own.heartbeat()),
    findDown: async (maxMs) => (await wait(), own.findDown(maxMs)),
    noteDown: async (...given) => (await wait(), own.noteDown(...given)),
    tryProbes: async (...given) => (await wait(), own.tryProbes(...given)),
    endProbes: async (...given) => (await wait(), own.endProbes(...given)),
  }
  const workersFailed = (error: unknown) => {
    throw error
  }
  const shared = await SharedBreakers.join({ workers, events: { workersFailed }, now })
  const crm = {
    name: 'crm',
    sources: ['web'],
    enabled: true,
    sharedSecret: undefined,
    webhooks: Array.from({ length: 10_000 }, (_, n) => ({
      url: `https://${n}.example.com/`,
      headers: {},
      concurrency: 64,
    })),
  }
  const connect = () => ({ post: () => undefined, close: () => Promise.resolve() })
  const queues = [...destinationQueues([crm], [], true, { connect, now })]
  shared.use(queues)
  const breakers = queues.flatMap(({ endpoints }) => endpoints.map(({ breaker }) => breaker))
  const failure = { isHealthy: false, retryAfterMs: 0, wasTried: false }
  for (const breaker of breakers) {
    for (let n = 0; n < 5; n++) breaker.end(breaker.start(), failure, time)
  }
  counts.splice(0)
  const startedAt = time
  await shared.tick()
  await shared.close()
  expect(time - startedAt).toBeGreaterThan(WORKER_TIMEOUT_MS)
  expect(new Set(counts)).toEqual(new Set([2]))
  expect((await other.findDown(60_000)).length).toBe(10_000)
})
