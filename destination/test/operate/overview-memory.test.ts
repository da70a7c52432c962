import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test, vi } from 'vitest'
import { Overviews } from '../../src/operate/overview.js'
import type { Past, PastRows } from '../../src/operate/past.js'
import type { StatusParts } from '../../src/operate/status.js'
import { destination } from '../run.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

const destinations = [destination([{ url: 'https://crm.example.com/' }])]
const parts = {
  store: { stats: () => Promise.resolve([]) },
  settings: () => ({ sources: [], destinations }),
  totals: { callsPerSecond: () => 0, streak: () => ({}) },
  filterCounts: { of: () => null },
  queues: () => [],
  pauses: { of: () => undefined },
  clock: { now: Date.now, wall: Date.now },
} as unknown as StatusParts

/** What of the history is still in memory, by destination. */
const kept = new Map<string, WeakRef<object>>()

const past = {
  read: () => {
    const counts = { delivered: 1, failed: 0, busy: 0, breaker: 'closed' as const, bins: [] }
    const rows: PastRows = new Map(
      ['crm', 'other'].map((name) => {
        const url = `https://${name}.example.com/`
        return [name, new Map([[url, [{ at: Date.now(), destination: name, url, ...counts }]]])]
      }),
    )
    for (const [name, ofEndpoints] of rows) kept.set(name, new WeakRef(ofEndpoints))
    return Promise.resolve(rows)
  },
} as unknown as Past

const isKept = async (name: string): Promise<boolean> => {
  await new Promise((resolve) => setTimeout(resolve, 10))
  gc()
  return kept.get(name)?.deref() !== undefined
}

test('an overview keeps no history of the destinations of others, and after a moment none at all', async () => {
  const overviews = new Overviews(parts, past)
  const { rows } = await overviews.overview({
    ...{ span: '1h', q: '', health: undefined, sort: 'health', isDescending: false },
    ...{ offset: 0, limit: 10 },
  })
  expect(rows).toMatchObject([{ name: 'crm', delivered: 1 }])
  expect([await isKept('crm'), await isKept('other')]).toEqual([true, false])
  await vi.waitFor(async () => {
    expect(await isKept('crm')).toBe(false)
  }, 10_000)
  expect(overviews.parts).toBe(parts) // The overviews themselves are kept.
})
