// The warnings of answers and their metric, compared with what really arrives at the endpoint.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { Where } from '../../src/settings/settings.js'
import { parseScrape } from '../observe/scrape.js'
import { ADMIN_TOKEN, destination, endpoint, settingsFor, start } from '../run.js'

/** What the destination of each source asks for. */
const CONDITIONS: Where[] = [
  { 'properties.n': { $gte: 100 } },
  { 'properties.n': { $not: { $gte: 100 } } },
  { 'traits.n': { $not: { $lt: 100 } } },
  { 'properties.n': { $exists: true } },
  { 'context.app': 'shop' },
  { 'context.n': { $gt: 1 } },
  { $or: [{ 'context.traits.n': { $gte: 100 } }, { 'properties.app': { $like: 's*' } }] },
]

/** Stands for a number that JavaScript cannot hold, a different one at each place. */
const BIG = 'BIG'

const value = fc.constantFrom<unknown>(BIG, BIG, 1, 100.5, 'shop', null, [BIG, 2], { n: BIG })
const fields = fc.dictionary(fc.constantFrom('n', 'app', 'other'), value, { maxKeys: 3 })
const context = fc.record(
  { n: value, app: value, other: value, traits: fields },
  { requiredKeys: [] },
)
const call = fc.record(
  {
    type: fc.constantFrom('track', 'identify', 'page', 'screen', 'group', 'alias', 'nothing'),
    ...{ properties: fields, traits: fields, context },
    integrations: fc.constantFrom({ All: false }, { All: false, Webhooks: BIG }, { Other: BIG }),
  },
  { requiredKeys: ['type'] },
)
const batch = fc.record(
  { batch: fc.array(call, { minLength: 1, maxLength: 4 }), context },
  { requiredKeys: ['batch'] },
)

/** A text in which each {@link BIG} is another number, which stays different when JavaScript rounds it. */
function withNumbers(body: object, prefix: string): string {
  let index = 0
  return JSON.stringify(body).replaceAll(
    `"${BIG}"`,
    () => `${prefix}${String(index++).padStart(4, '0')}0001`,
  )
}

async function untilSent(running: RunningDestination): Promise<void> {
  const waiting = async () =>
    (await running.stats()).filter((one) => one.fresh + one.backlog + one.bulk + one.leased > 0)
  await expect.poll(waiting, { interval: 5 }).toEqual([])
}

test(
  'an answer warns of each changed number that the endpoint gets, and of no other, whatever filters ask for',
  { tags: 'long' },
  async () => {
    const crm = await endpoint()
    const sources = CONDITIONS.map((_, i) => ({ name: `s${i}`, writeKey: `key-${i}` }))
    const destinations = CONDITIONS.map((where, i) =>
      destination([crm], { name: `d${i}`, sources: [`s${i}`], filters: [{ where }] }),
    )
    const running = await start(settingsFor(destinations, { sources }))
    let runs = 0
    let warned = 0
    await fc.assert(
      fc.asyncProperty(batch, fc.nat(CONDITIONS.length - 1), async (given, source) => {
        const prefix = `7${String(++runs).padStart(6, '0')}00`
        const messages = given.batch.map((one, i) => ({
          ...{ userId: 'u', event: 'E', groupId: 'g', previousId: 'p', ...one },
          messageId: `m${runs}-${i}`,
        }))
        const body = withNumbers({ ...given, batch: messages }, prefix)
        const arrivedBefore = crm.received.length
        const response = await fetch(`${running.url}/v1/batch`, {
          method: 'POST',
          headers: { Authorization: `Basic ${btoa(`key-${source}:`)}` },
          body,
        })
        const { warnings = [] } = (await response.json()) as { warnings?: { message: string }[] }
        await untilSent(running)

        const arrived = crm.received.slice(arrivedBefore).map((one) => one.body)
        const numbers = body.match(new RegExp(`${prefix}\\d+`, 'g')) ?? []
        const forwarded = numbers.filter((number) =>
          arrived.some((text) => text.includes(String(Number(number)))),
        )
        const named = warnings.map(({ message }) => /\d+/.exec(message)?.[0])
        expect(named.sort(), body).toEqual(forwarded.sort())
        warned += warnings.length
      }),
      { numRuns: 150 },
    )
    const metrics = await fetch(`${running.adminUrl}/metrics`, {
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    const counted = Array.from(parseScrape(await metrics.text())).filter(([series]) =>
      series.startsWith('hookline_changed_numbers_total'),
    )
    expect(counted.reduce((sum, [, count]) => sum + count, 0)).toBe(warned)
    expect(warned).toBeGreaterThan(50)
  },
)
