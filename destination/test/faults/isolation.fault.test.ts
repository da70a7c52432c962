import { expect, test } from 'vitest'
import { folderWith } from '../cli/process.js'
import { startEndpoint, type Answer } from '../endpoint.js'
import { duplicatesAt, lateAt, startCustomer } from './customer.js'
import { post } from './load.js'
import { CONCURRENCY, serve, settingsFor, storeIn } from './service.js'

const BATCHES = 20

/** Outcomes of requests that were not sent at all. */
const UNSENT = ['endpoint_down', 'endpoint_busy']

test('one endpoint that is dead, in whichever way, keeps nothing from the four beside it', async () => {
  const reset: Answer = ({ socket }) => socket?.resetAndDestroy()
  await using silent = await startEndpoint([() => undefined])
  await using resetting = await startEndpoint([reset])
  const dead = {
    silent,
    resetting,
    refusing: { url: 'http://127.0.0.1:1/hook' },
    nameless: { url: 'http://nowhere.invalid/hook' },
  }
  await using healthy = await startCustomers(4 * Object.keys(dead).length)
  const destinations = Object.entries(dead).map(
    ([name, one], i) => [name, [one, ...healthy.customers.slice(4 * i, 4 * i + 4)]] as const,
  )
  const folder = folderWith(settingsFor(Object.fromEntries(destinations)))
  await using service = await serve(folder)
  const { taken, refused, unanswered } = await post({
    url: service.url,
    name: 'load',
    answered: ({ taken }) => taken.length >= BATCHES,
  })
  expect([refused, unanswered]).toEqual([[], []])
  const expected = taken.flat()
  await Promise.all(healthy.customers.map((customer) => customer.has(expected)))
  // If each message had waited for the dead one, there had been a request for each by now.
  expect(silent.received.length).toBeGreaterThan(0)
  expect(silent.received.length).toBeLessThanOrEqual(2 * CONCURRENCY)

  await silent[Symbol.asyncDispose]() // or else the service waits for it
  service.kill('SIGTERM')
  const { code, stdout } = await service.ended
  expect(code).toBe(0)
  for (const { wrong, accepted } of healthy.customers) {
    expect(wrong).toEqual([])
    expect(new Set(accepted.keys())).toEqual(new Set(expected))
  }
  const duplicates = healthy.customers.map((one) => duplicatesAt(one, lateAt(one, stdout)))
  expect(duplicates).toEqual(duplicates.map(() => 0))

  const outcomes = outcomesIn(stdout, new Set(Object.values(dead).map(({ url }) => url)))
  const sent = Object.fromEntries(
    Object.entries(dead).map(([name, { url }]) => {
      const codes = outcomes.filter(({ endpoint }) => endpoint === url).map(({ code }) => code)
      expect(codes).toHaveLength(expected.length)
      return [name, codes.filter((code) => !UNSENT.includes(code))]
    }),
  )
  const counts = Object.entries(sent).map(([name, { length }]) => [name, length])
  console.log(
    `${expected.length} messages; requests to the dead: ${JSON.stringify(Object.fromEntries(counts))}`,
  )
  expect(new Set(sent['resetting'])).toEqual(new Set(['connection_reset']))
  expect(new Set(sent['refusing'])).toEqual(new Set(['connection_refused']))
  // Some systems take longer to find that there is no such name than an attempt may.
  expect(['dns_error', 'timeout']).toEqual(expect.arrayContaining(sent['nameless'] ?? []))
  for (const codes of Object.values(sent)) {
    expect(codes.length).toBeGreaterThan(0)
    expect(codes.length).toBeLessThanOrEqual(2 * CONCURRENCY)
  }

  const store = await storeIn(folder)
  const waiting = await store.stats()
  await store.close()
  expect(waiting).toEqual([])
}, 900_000)

async function startCustomers(count: number) {
  const customers = await Promise.all(Array.from({ length: count }, startCustomer))
  const dispose = async () => {
    await Promise.all(customers.map((customer) => customer[Symbol.asyncDispose]()))
  }
  return { customers, [Symbol.asyncDispose]: dispose }
}

/** What the log says of attempts at these endpoints. */
function outcomesIn(log: string, endpoints: Set<string>): { endpoint: string; code: string }[] {
  return log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { msg: string; endpoint: string; code: string })
    .filter(({ msg, endpoint }) => msg === 'attempt' && endpoints.has(endpoint))
}
