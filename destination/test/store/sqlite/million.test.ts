import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import type { NewDelivery } from '../../../src/model/delivery.js'
import type { Store } from '../../../src/store/store.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const ROWS = 1_000_000
const AT_ONCE = 2_000
const BODY = JSON.stringify({ text: 'x'.repeat(500) })

test.runIf(process.env['SLOW'])(
  'a million rows that wait for a dead destination cost the others next to nothing',
  async () => {
    await using place = await folder()
    const url = `sqlite:${place.path}/store.db`
    let store = await openStore(url)
    await measure(store)
    const empty = await measure(store)
    for (let n = 0; n < ROWS; n += AT_ONCE) await store.put(many(AT_ONCE, 'dead', 'backlog'))
    await measure(store)
    const laden = await measure(store)
    await store.close()

    const openedAt = performance.now()
    store = await openStore(url)
    const openMs = performance.now() - openedAt
    const reopened = await measure(store)
    const rssMb = process.memoryUsage().rss / 1e6
    console.table({ empty, laden, reopened })
    console.log(`opened in ${openMs.toFixed(0)} ms, ${rssMb.toFixed(0)} MB in all`)
    await store.close()

    expect(rssMb).toBeLessThan(400)
    expect(openMs).toBeLessThan(2_000)
    expect(laden.claimMs).toBeLessThan(10 * empty.claimMs + 5)
    expect(laden.putMs).toBeLessThan(10 * empty.putMs + 5)
    expect(laden.statsMs).toBeLessThan(10 * empty.statsMs + 5)
  },
  600_000,
)

/** The median times of 50 rounds in ms. Each round puts, claims and settles a hundred deliveries. */
async function measure(store: Store) {
  const times: { putMs: number; claimMs: number; settleMs: number; statsMs: number }[] = []
  for (let n = 0; n < 50; n++) {
    const deliveries = many(100, 'alive', 'fresh')
    const [putMs] = await timed(() => store.put(deliveries))
    const [claimMs, claimed] = await timed(() =>
      store.claim([{ destination: 'alive', lane: 'fresh', limit: 100 }]),
    )
    expect(claimed).toHaveLength(100)
    const [settleMs] = await timed(() => store.settle(claimed.map((one) => settlement(one))))
    const [statsMs] = await timed(() => store.stats())
    times.push({ putMs, claimMs, settleMs, statsMs })
  }
  const median = (key: keyof (typeof times)[0]): number =>
    times.map((time) => time[key]).sort((a, b) => a - b)[times.length >> 1] ?? NaN
  return {
    putMs: median('putMs'),
    claimMs: median('claimMs'),
    settleMs: median('settleMs'),
    statsMs: median('statsMs'),
  }
}

async function timed<T>(work: () => Promise<T>): Promise<[ms: number, value: T]> {
  const startedAt = performance.now()
  const value = await work()
  return [performance.now() - startedAt, value]
}

function many(count: number, destination: string, state: NewDelivery['state']): NewDelivery[] {
  return Array.from({ length: count }, () => newDelivery({ destination, state, body: BODY }))
}
