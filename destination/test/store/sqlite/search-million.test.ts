import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import type { DeliveryId, Filter, NewDelivery, SearchPlace } from '../../../src/model/delivery.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const ROWS = 1_000_000
const AT_ONCE = 2_000
const LIMIT = 50

test.runIf(process.env['SLOW'])(
  'with a million rows a search and a replay hold nobody up for more than a moment',
  async () => {
    await using place = await folder()
    const store = await openStore(`sqlite:${place.path}/store.db`)
    const [oldest] = await put([{ user: 'needle', event: 'needle', destination: 'rare' }])
    for (let n = 0; n < ROWS; n += AT_ONCE) {
      const ids = await put(Array.from({ length: AT_ONCE }, (_, i) => ({ user: `u${n + i}` })))
      const next = { state: 'dead', reason: 'refused' } as const
      await store.settle(ids.map((id) => settlement({ id, attempt: 1 }, next)))
    }

    const searches: Record<string, Filter> = {
      newest: {},
      user: { user: 'needle' },
      event: { event: 'needle' },
      destination: { destination: 'rare' },
      dead: { states: ['dead'] },
      state: { states: ['leased'] },
      message: { messageId: 'none' },
    }
    const rows: Record<
      string,
      { slices: number; medianMs: number; longestMs: number; totalMs: number }
    > = {}
    for (const [name, filter] of Object.entries(searches)) {
      rows[name] = await slices(async (before) => {
        const { deliveries, next } = await store.find(filter, before, LIMIT)
        return deliveries.length > 0 ? undefined : next
      })
    }
    rows['replay of all'] = await slices(async (before) => {
      const { deliveries, next } = await store.find({ states: ['dead'] }, before, 200)
      await store.replay(
        deliveries.map(({ id }) => id),
        false,
      )
      return next
    })
    // Settles the oldest delivery, so that `stats` has to find the next one that waits.
    await store.settle([settlement({ id: oldest as DeliveryId, attempt: 1 })])
    rows['stats'] = await slices(async () => {
      await store.stats()
      return undefined
    })
    console.table(rows)
    await store.close()
    for (const [name, { medianMs }] of Object.entries(rows)) {
      expect(medianMs, name).toBeLessThan(20)
    }

    async function put(changes: Partial<NewDelivery>[]): Promise<DeliveryId[]> {
      const deliveries = changes.map((each) => newDelivery({ ...each, state: 'leased', body: '' }))
      return (await store.put(deliveries)) as DeliveryId[]
    }
  },
  600_000,
)

/** Runs all slices of a search and returns how long they took. */
async function slices(run: (before: SearchPlace | undefined) => Promise<SearchPlace | undefined>) {
  const times: number[] = []
  let before: SearchPlace | undefined
  do {
    const startedAt = performance.now()
    before = await run(before)
    times.push(performance.now() - startedAt)
  } while (before !== undefined)
  times.sort((a, b) => a - b)
  const totalMs = Math.round(times.reduce((sum, ms) => sum + ms, 0))
  return {
    slices: times.length,
    medianMs: times[times.length >> 1] ?? NaN,
    longestMs: times.at(-1) ?? NaN,
    totalMs,
  }
}
