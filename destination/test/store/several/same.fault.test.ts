import { afterAll, expect, test } from 'vitest'
import type { DeadPlace, DeliveryId, Filter, SearchPlace } from '../../../src/model/delivery.js'
import { openPostgres } from '../../../src/store/postgres/store.js'
import type { Store } from '../../../src/store/store.js'
import { rounds } from '../../rounds.js'
import { newDelivery, settlement } from '../contract.js'
import { startServer } from '../postgres/server.js'
import { chance } from './chance.js'
import { severalSubjects } from './subject.js'

const server = await startServer({ fsync: 'off' })
const databases = [await server.database(), await server.database(), await server.database()]
const subjects = await severalSubjects(databases)
const single = await server.database()

afterAll(async () => {
  await subjects.dispose()
  await server.dispose()
})

/** Thirty sources are on all three servers. */
const SOURCES = Array.from({ length: 30 }, (_, i) => `source${i}`)
const DESTINATIONS = ['crm', 'mail']
const LANES = ['fresh', 'backlog', 'bulk'] as const
const USERS = ['ann', 'bob', 'eve']

async function found(store: Store, filter: Filter, limit: number): Promise<string[]> {
  const all: string[] = []
  let before: SearchPlace | undefined
  do {
    const { deliveries, next } = await store.find(filter, before, limit)
    expect(deliveries.length).toBeLessThanOrEqual(limit)
    for (const { messageId, destination, state } of deliveries) {
      all.push(`${messageId} ${destination} ${state}`)
    }
    before = next
  } while (before !== undefined)
  return all
}

async function matched(store: Store, filter: Filter, limit: number): Promise<DeliveryId[]> {
  const all: DeliveryId[] = []
  let before: DeliveryId | undefined
  do {
    const { matches, next } = await store.match(filter, before, limit)
    all.push(...matches.flatMap(({ ids }) => ids))
    before = next
  } while (before !== undefined)
  return all
}

async function deadOf(store: Store, destination: string, limit: number): Promise<number> {
  let count = 0
  let before: DeadPlace | undefined
  do {
    const { groups, next } = await store.deadGroups(destination, before, limit)
    for (const group of groups) count += group.count
    before = next
  } while (before !== undefined)
  return count
}

/** The messages of ids, by which two stores can be compared. */
async function messagesOf(store: Store, ids: readonly DeliveryId[]): Promise<string[]> {
  const traces = await Promise.all(ids.map((id) => store.get(id)))
  return traces.map((trace) => `${trace?.messageId} ${trace?.destination}`).sort()
}

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

test.each(Array.from({ length: rounds(2) }, (_, i) => seed + i))(
  'three servers answer as one does: SEED=%i',
  async (seed) => {
    const random = chance(seed)
    const subject = await subjects.make()
    const one = await openPostgres(`${single}?schema=same_${seed}`, () => subject.now())
    const both = [one, subject.store] as const
    const each = <T>(work: (store: Store) => Promise<T>) => Promise.all(both.map(work))
    const same = async <T>(what: string, work: (store: Store) => Promise<T>): Promise<T> => {
      const [expected, got] = await each(work)
      expect(got, `SEED=${seed}: ${what}`).toEqual(expected)
      return expected as T
    }
    const put: { messageId: string; source: string }[] = []
    try {
      for (let step = 0; step < 120; step++) {
        subject.advance(1 + random.below(200))
        const destination = random.of(DESTINATIONS)
        const lane = random.of(LANES)
        const act = random.below(10)
        if (act < 4) {
          const isAgain = put.length > 0 && random.below(4) === 0
          const message = isAgain
            ? random.of(put)
            : { messageId: `m${step}`, source: random.of(SOURCES) }
          put.push(message)
          const user = random.of(USERS)
          const delivery = newDelivery({ ...message, destination, state: lane, user })
          await same('put', async (store) => {
            const ids = await store.put([delivery])
            return ids.map((id) => id !== undefined)
          })
        } else if (act < 7) {
          const how = random.below(4)
          const next =
            how === 0
              ? ({ state: 'dead', reason: 'refused' } as const)
              : how === 1
                ? ({ state: 'backlog', delayMs: random.below(500) } as const)
                : ({ state: 'done' } as const)
          await same('claim and settle', async (store) => {
            const claimed = await store.claim([{ destination, lane, limit: 1_000 }])
            expect(await store.settle(claimed.map((one) => settlement(one, next)))).toBe(0)
            return claimed.map(({ messageId, attempt }) => `${messageId} ${attempt}`).sort()
          })
        } else if (act === 7) {
          await same('replay', async (store) => {
            const ids = await matched(store, { destination, states: ['dead'] }, 3)
            return messagesOf(store, await store.replay(ids, false, 'bulk'))
          })
        } else if (act === 8) {
          const limit = 1 + random.below(7)
          const user = random.below(2) === 0 ? random.of(USERS) : undefined
          const messages = await same('find', (store) => found(store, { user }, limit))
          expect(new Set(messages).size, `SEED=${seed}`).toBe(messages.length)
          await same('match', async (store) =>
            messagesOf(store, await matched(store, { user }, limit)),
          )
          await same('deadGroups', (store) => deadOf(store, destination, limit))
        } else {
          await same('count', (store) => store.count())
          await same('due', async (store) =>
            (await store.due()).map(({ destination, lane }) => `${destination} ${lane}`).sort(),
          )
          const { messageId } = random.of([...put, { messageId: 'none' }])
          await same('trace', async (store) =>
            (await store.trace(messageId)).map((trace) => ({ ...trace, id: 0 })),
          )
        }
      }
      const user = random.of(USERS)
      await same('purge', async (store) => {
        let all = 0
        for (let from: number | undefined = 0; from !== undefined;) {
          const { purged, next }: { purged: number; next: number | undefined } =
            await store.purgeUser(user, from)
          all += purged
          from = next
        }
        return [all, await store.hasUser(user), await store.count()]
      })
      await same('discard', (store) => store.discard('crm', 5))
      subject.advance(1_000_000_000)
      await same('sweep', async (store) => {
        let all = 0
        for (let count = 3; count === 3; all += count) count = await store.sweep(1, 3)
        return [all, await store.count()]
      })
    } finally {
      await one.close()
      await subject.dispose()
    }
  },
  120_000,
)
