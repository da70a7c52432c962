import { afterAll, expect, test } from 'vitest'
import { startDestination } from '../src/destination.js'
import { watchLeftovers } from './leftovers.js'
import { startProxy } from './store/postgres/proxy.js'
import { startServer } from './store/postgres/server.js'
import { destination, post, settingsFor, silent, track } from './run.js'

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

/** Starts and ends a destination whose server is lost when the process has sent this many packets. */
async function startWithLoss(store: string, lostAt: number) {
  const lines: string[] = []
  let packets = 0
  let isStarted = false
  await using proxy = await startProxy(server.port, undefined, () => {
    if (isStarted) return
    packets++
    // Nobody listens on this port.
    if (packets === lostAt) proxy.leadTo(1)
  })
  const warn = (_details: object, message: string) => {
    lines.push(message)
    if (message.startsWith('waiting for the store')) proxy.leadTo(server.port)
  }
  const url = store.replace(`:${server.port}/`, `:${proxy.port}/`)
  const settings = settingsFor([destination([{ url: 'http://127.0.0.1:9/' }])], { store: url })
  const running = await startDestination(settings, { ...silent, warn })
  isStarted = true
  proxy.leadTo(server.port)
  await expect.poll(async () => (await post(running, [track(`m${lostAt}`)])).status).toBe(200)
  await running.close()
  return { packets, lines }
}

test('a start goes on at each moment at which its server may be lost, and leaves nothing of the tries before', async () => {
  const store = await server.database()
  await startWithLoss(store, 0) // makes the tables
  const left = watchLeftovers()
  const { packets } = await startWithLoss(store, 0)
  expect(packets).toBeGreaterThan(10)
  for (let lostAt = 1; lostAt <= packets; lostAt++) {
    const { lines } = await startWithLoss(store, lostAt)
    // The last packets may be questions that no start waits for.
    if (lostAt > packets - 3) continue
    expect(lines, `lost at ${lostAt} of ${packets}`).toContain(
      'waiting for the store, which cannot be reached',
    )
  }
  await expect.poll(left).toEqual([])
  const connections = 'SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = $1'
  await expect
    .poll(() => server.query(connections, [new URL(store).pathname.slice(1)]))
    .toEqual([{ count: 0 }])
}, 900_000)
