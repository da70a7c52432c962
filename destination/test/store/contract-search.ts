import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type {
  AttemptLog,
  DeadPlace,
  Delivery,
  DeliveryId,
  Filter,
  Lane,
  NewDelivery,
  SearchPlace,
  Settlement,
  State,
  Summary,
} from '../../src/model/delivery.js'
import type { HistoryCounts, HistoryRow } from '../../src/model/history.js'
import type { Store } from '../../src/store/store.js'
import { newDelivery, settlement, type Subject } from './contract.js'

const DAY = 86_400_000

/** One POST that failed. */
const FAILED: AttemptLog = {
  url: 'https://a.example.com/',
  code: 'server_error',
  status: 500,
  ms: 3,
  error: 'The endpoint answered 500.',
  response: 'no',
}

/** The tests that every store passes for searches and replays. */
export function searchContract(name: string, make: () => Promise<Subject>): void {
  let subject: Subject
  let store: Store

  const open = async (): Promise<void> => {
    subject = await make()
    store = subject.store
  }

  const dispose = () => subject.dispose()

  const put = async (changes: Partial<NewDelivery> = {}): Promise<DeliveryId> => {
    const [id] = await store.put([newDelivery(changes)])
    return id as DeliveryId
  }

  /** Puts a delivery and settles its first attempt. */
  const settled = async (
    changes: Partial<NewDelivery>,
    next: Settlement['next'],
    log: AttemptLog[] = [],
  ): Promise<DeliveryId> => {
    const id = await put({ ...changes, state: 'leased' })
    expect(await store.settle([settlement({ id, attempt: 1 }, next, { log })])).toBe(0)
    return id
  }

  const died = (changes: Partial<NewDelivery> = {}): Promise<DeliveryId> =>
    settled(changes, { state: 'dead', reason: 'refused' }, [FAILED])

  const claim = (lane: Lane = 'backlog', limit = 10): Promise<Delivery[]> =>
    store.claim([{ destination: 'crm', lane, limit }])

  /** Everything that a search finds in all its slices. */
  const find = async (filter: Filter = {}, limit = 100): Promise<Summary[]> => {
    const all: Summary[] = []
    let before: SearchPlace | undefined
    do {
      const { deliveries, next } = await store.find(filter, before, limit)
      expect(deliveries.length).toBeLessThanOrEqual(limit)
      all.push(...deliveries)
      before = next
    } while (before !== undefined)
    return all
  }

  /** Every delivery that matches a search in all its slices, the newest first. */
  const matchedIds = async (filter: Filter, limit: number): Promise<DeliveryId[]> => {
    const all: DeliveryId[] = []
    let before: DeliveryId | undefined
    do {
      const { matches, next } = await store.match(filter, before, limit)
      const ids = matches.flatMap((match) => match.ids)
      expect(ids.length).toBeLessThanOrEqual(limit)
      for (const { destination, ids } of matches) {
        for (const id of ids) expect((await store.get(id))?.destination).toBe(destination)
      }
      all.push(...ids)
      before = next
    } while (before !== undefined)
    return all.sort((a, b) => b - a)
  }

  const foundIds = async (filter: Filter = {}, limit = 100): Promise<DeliveryId[]> =>
    (await find(filter, limit)).map(({ id }) => id)

  describe(`${name}: the search`, () => {
    beforeEach(open)
    afterEach(dispose)

    describe('find by prefix and by the latest outcome', () => {
      test('for the ids alone finds the same, whatever is searched for', async () => {
        for (let n = 0; n < 24; n++) {
          const changes = {
            destination: ['crm', 'erp', 'café\0'][n % 3] ?? 'crm',
            source: n % 2 === 0 ? 'web' : 'app',
            user: `User ${n % 4}`,
            event: n % 5 === 0 ? 'Order Completed' : 'order started',
            messageId: `m${n}`,
          }
          if (n % 4 === 0) await put(changes)
          else if (n % 4 === 1) await settled(changes, { state: 'done' })
          else await died(changes)
        }
        const filters: Filter[] = [
          {},
          { states: ['dead'] },
          { states: ['dead', 'done'], destination: 'erp' },
          { destination: 'café\0' },
          { destination: 'nobody' },
          { destinations: ['erp', 'café\0'], states: ['dead'] },
          { source: 'app', type: 'track' },
          { user: 'User 2' },
          { user: 'user', isPrefix: true },
          { event: 'ORDER c', isPrefix: true, states: ['dead'] },
          { messageId: 'm7' },
          { messageId: 'm7', user: 'User 1' },
          { code: 'server_error' },
          { status: { from: 500, to: 599 }, endpoint: 'https://a.example.com/' },
          { cause: (await find({ states: ['dead'] }))[0]?.cause ?? 'none' },
        ]
        for (const filter of filters) {
          const expected = await foundIds(filter)
          for (const limit of [1, 3, 100]) {
            expect([filter, await matchedIds(filter, limit)]).toEqual([filter, expected])
          }
        }
        expect(await matchedIds({ states: ['dead'] }, 5)).toHaveLength(12)
      })

      test('finds texts that start with the wanted one, in upper or lower case', async () => {
        const order = await put({ event: 'Order Completed', user: 'Ann', messageId: 'ÄB-1' })
        const cart = await put({ event: 'Cart_Opened', user: 'bob', messageId: 'x%y' })
        const matches = (filter: Filter) => foundIds({ ...filter, isPrefix: true })
        expect(await matches({ event: 'order' })).toEqual([order])
        expect(await matches({ user: 'AN' })).toEqual([order])
        expect(await matches({ messageId: 'äb' })).toEqual([order])
        expect(await matches({ messageId: 'X%' })).toEqual([cart])
        expect(await matches({ event: 'cart_' })).toEqual([cart])
        expect(await matches({ event: 'cartX' })).toEqual([])
        expect(await matches({ event: 'pleted' })).toEqual([])
        expect(await foundIds({ event: 'order' })).toEqual([])
      })

      test('finds what starts with a text that is longer than the patterns of a database', async () => {
        const text = 'x'.repeat(60_000)
        const id = await put({ event: `${text}yz` })
        await put({ event: `${text}z` })
        expect(await foundIds({ event: `${text}Y`, isPrefix: true })).toEqual([id])
        expect(await foundIds({ user: text, isPrefix: true })).toEqual([])
      })

      test('finds deliveries by what their latest attempt came to, not by earlier ones', async () => {
        const url = 'https://a.example.com/hook?key=secret'
        const refusal = '{"error":{"message":"Unknown event type","id":"12345"}}'
        const refused = await settled({}, { state: 'dead', reason: 'refused' }, [
          { ...FAILED, url, code: 'client_error', status: 422, response: refusal },
        ])
        const id = await put({ state: 'leased' })
        const later = { state: 'backlog', delayMs: 0 } as const
        await store.settle([settlement({ id, attempt: 1 }, later, { log: [FAILED] })])
        await claim()
        const log = [{ ...FAILED, code: 'delivered', status: 204, error: null } as const]
        await store.settle([settlement({ id, attempt: 2 }, { state: 'done' }, { log })])
        expect(await foundIds({ code: 'client_error' })).toEqual([refused])
        expect(await foundIds({ code: 'server_error' })).toEqual([])
        expect(await foundIds({ code: 'never_seen' })).toEqual([])
        expect(await foundIds({ status: { from: 400, to: 499 } })).toEqual([refused])
        expect(await foundIds({ status: { from: 200, to: 299 } })).toEqual([id])
        expect(await foundIds({ status: { from: 500, to: 500 } })).toEqual([])
        expect(await foundIds({ endpoint: 'https://a.example.com/hook' })).toEqual([refused])
        expect(await foundIds({ endpoint: 'https://a.example.com/other' })).toEqual([])
        expect(await foundIds({ cause: 'Unknown event type' })).toEqual([refused])
        expect(await foundIds({ cause: 'Unknown event' })).toEqual([])
        expect((await find({ states: ['dead'] }))[0]?.cause).toBe('Unknown event type')
      })

      test('goes by the last endpoint of an attempt, also if that gave no answer', async () => {
        const noAnswer = {
          ...FAILED,
          url: 'https://b.example.com/',
          code: 'timeout',
          status: null,
          error: 'The endpoint gave no answer.',
          response: '',
        } as const
        const next = { state: 'dead', reason: 'refused' } as const
        const id = await settled({}, next, [FAILED, noAnswer])
        const [group] = (await store.deadGroups('crm', undefined, 10)).groups
        expect(group).toMatchObject({ code: 'timeout', status: null, cause: noAnswer.error })
        expect(await find()).toMatchObject([
          { lastCode: 'timeout', lastStatus: null, cause: noAnswer.error },
        ])
        expect(await foundIds({ code: 'timeout', cause: noAnswer.error })).toEqual([id])
        expect(await foundIds({ code: 'server_error' })).toEqual([])
        expect(await foundIds({ status: { from: 500, to: 599 } })).toEqual([])
        expect(await foundIds({ endpoint: noAnswer.url })).toEqual([id])
        expect(await foundIds({ endpoint: FAILED.url })).toEqual([])
      })

      test('keeps the headers of an answer that was a failure', async () => {
        const headers = 'content-type: text/plain\nretry-after: 5'
        const id = await settled({}, { state: 'dead', reason: 'refused' }, [
          { ...FAILED, headers },
          FAILED,
        ])
        const attempts = (await store.get(id))?.attempts ?? []
        expect(attempts.map((attempt) => attempt.headers)).toEqual([headers, undefined])
      })
    })

    describe('deadGroups', () => {
      const dies = (response: string, changes: Partial<NewDelivery> = {}, status = 422) =>
        settled(changes, { state: 'dead', reason: 'refused' }, [
          { ...FAILED, code: 'client_error', status, response },
        ])

      test('are the dead letters by destination, outcome and cause, without the ids in the answers', async () => {
        for (const id of [100_001, 100_002, 100_003]) await dies(`No user ${id}`)
        await dies('Unknown event type')
        await dies('Unknown event type', { destination: 'ads' })
        await dies('Unknown event type', {}, 400)
        await settled({}, { state: 'done' })
        const { groups, next } = await store.deadGroups('crm', undefined, 100)
        expect(next).toBeUndefined()
        expect(groups[0]).toEqual({
          destination: 'crm',
          code: 'client_error',
          status: 422,
          cause: 'No user …',
          count: 3,
          firstAt: subject.now(),
          lastAt: subject.now(),
        })
        const others = groups.slice(1).map(({ status, cause }) => `${String(status)} ${cause}`)
        expect(others.sort()).toEqual(['400 Unknown event type', '422 Unknown event type'])
        expect((await store.deadGroups('ads', undefined, 100)).groups).toMatchObject([
          { destination: 'ads', cause: 'Unknown event type', count: 1 },
        ])
        expect((await store.deadGroups('nobody', undefined, 100)).groups).toEqual([])
      })

      test('are read slice by slice, each dead letter once, also of those that died together', async () => {
        for (let n = 0; n < 5; n++) {
          await dies('no')
          if (n === 2) subject.advance(1)
        }
        const counts: number[] = []
        let before: DeadPlace | undefined
        do {
          const { groups, next } = await store.deadGroups('crm', before, 2)
          counts.push(...groups.map(({ count }) => count))
          before = next
        } while (before)
        expect(counts).toEqual([2, 2, 1])
      })

      test('have the reason as the cause where there was no attempt', async () => {
        await put()
        subject.advance(DAY)
        await store.sweep(DAY / 2, 10)
        const [group] = (await store.deadGroups('crm', undefined, 10)).groups
        expect(group).toMatchObject({ code: null, status: null, cause: 'older than the retention' })
        expect(await foundIds({ cause: group?.cause, states: ['dead'] })).toHaveLength(1)
      })
    })

    describe('the history', () => {
      const MINUTE = 60_000
      const counts = (changes: Partial<HistoryCounts> = {}): HistoryCounts => ({
        destination: 'crm',
        url: 'https://a.example.com/',
        delivered: 2,
        failed: 1,
        busy: 0,
        breaker: 'closed',
        bins: [0, 3],
        ...changes,
      })

      test('adds up what is told within a minute, a quarter of an hour and an hour', async () => {
        subject.advance(3_600_000 - (subject.now() % 3_600_000))
        const start = subject.now()
        await store.addHistory([counts(), counts({ url: 'https://b.example.com/' })])
        await store.addHistory([counts({ breaker: 'open', bins: [1, 0, 4], busy: 5 })])
        subject.advance(MINUTE)
        await store.addHistory([counts({ breaker: 'half-open' })])
        const rows = (await store.history('1h', start, undefined, 10)).filter(({ url }) =>
          url.includes('a.exa'),
        )
        const both = { delivered: 4, failed: 2, busy: 5, breaker: 'open', bins: [1, 3, 4] }
        expect(rows).toEqual([
          { ...counts(both as Partial<HistoryCounts>), at: start },
          { ...counts({ breaker: 'half-open' }), at: start + MINUTE },
        ])
        for (const span of ['24h', '7d'] as const) {
          const [row] = await store.history(span, start, undefined, 10)
          expect(row).toMatchObject({ at: start, delivered: 6, failed: 3, breaker: 'open' })
        }
        expect(await store.history('1h', start + 1, undefined, 10)).toHaveLength(1)
      })

      test('is read a few rows at a time', async () => {
        const urls = Array.from({ length: 7 }, (_, i) => `https://${i}.example.com/`)
        for (const destination of ['ads', 'crm']) {
          await store.addHistory(urls.map((url) => counts({ destination, url })))
        }
        subject.advance(MINUTE)
        await store.addHistory([counts({ url: 'a name with \0 in it' })])
        const whole = await store.history('1h', 0, undefined, 100)
        const read: HistoryRow[] = []
        for (let slice = [...whole]; slice.length > 0;) {
          slice = await store.history('1h', 0, read.at(-1), 4)
          read.push(...slice)
        }
        expect(whole).toHaveLength(15)
        expect(read).toEqual(whole)
      })

      test.each([
        ['1h', MINUTE, 60],
        ['24h', 15 * MINUTE, 96],
        ['7d', 60 * MINUTE, 168],
      ] as const)('of %s has one bucket more than its chart', async (span, bucketMs, buckets) => {
        subject.advance(3_600_000 - (subject.now() % 3_600_000))
        const first = subject.now()
        const addAndCount = async (laterMs: number) => {
          subject.advance(laterMs)
          await store.addHistory([counts()])
          const rows = await store.history(span, first, undefined, 10)
          return rows.filter(({ at }) => at === first).length
        }
        expect(await addAndCount(0)).toBe(1)
        expect(await addAndCount((buckets + 1) * bucketMs - 1)).toBe(1)
        expect(await addAndCount(2)).toBe(0)
      })

      test('forgets what no chart shows any more', async () => {
        await store.addHistory([counts()])
        subject.advance(2 * 3_600_000)
        await store.addHistory([counts({ destination: 'ads' })])
        expect(await store.history('1h', 0, undefined, 10)).toMatchObject([{ destination: 'ads' }])
        expect(await store.history('24h', 0, undefined, 10)).toHaveLength(2)
        subject.advance(8 * DAY)
        await store.addHistory([counts({ destination: 'late' })])
        expect(await store.history('7d', 0, undefined, 10)).toMatchObject([{ destination: 'late' }])
      })
    })

    describe('find', () => {
      test('of an empty store finds nothing', async () => {
        expect(await store.find({}, undefined, 10)).toEqual({ deliveries: [], next: undefined })
        for (const filter of [{ user: 'ann' }, { messageId: 'm' }, { states: ['dead'] }] as const) {
          expect(await find(filter)).toEqual([])
        }
      })

      test('says what a list shows, of each state', async () => {
        const done = await settled({ event: 'Signed Up' }, { state: 'done' }, [
          { ...FAILED, code: 'delivered', status: 204, error: null },
          FAILED,
        ])
        subject.advance(5)
        const dead = await died({ user: '\0\ud800', event: '\ud800' })
        const later = { state: 'backlog', delayMs: 1_000 } as const
        const backlog = await settled({ type: 'page' }, later, [FAILED])
        const skipped = await put({ destination: '', state: 'skipped', reason: 'off' })
        const leased = await put({ state: 'leased' })
        const fresh = await put({ source: 'app' })
        const now = subject.now()
        const found = await find()
        expect(found.map(({ id }) => id)).toEqual([fresh, leased, skipped, backlog, dead, done])
        const [isFresh, isLeased, isSkipped, isBacklog, isDead, isDone] = found
        expect(isDone).toEqual({
          id: done,
          messageId: expect.any(String) as string,
          source: 'web',
          destination: 'crm',
          type: 'track',
          event: 'Signed Up',
          user: 'ann',
          state: 'done',
          reason: null,
          attempt: 1,
          receivedAt: now - 5,
          dueAt: null,
          lastCode: 'delivered',
          lastStatus: 204,
          cause: null,
        } satisfies Summary)
        expect(isDead).toMatchObject({
          user: '\0\ud800',
          event: '\ud800',
          state: 'dead',
          reason: 'refused',
          dueAt: null,
          lastCode: 'server_error',
          lastStatus: 500,
        })
        expect(isBacklog).toMatchObject({ type: 'page', state: 'backlog', dueAt: now + 1_000 })
        expect(isSkipped).toMatchObject({
          state: 'skipped',
          reason: 'off',
          dueAt: null,
          attempt: 0,
        })
        expect(isLeased).toMatchObject({ state: 'leased', attempt: 1, lastCode: null })
        expect(isFresh).toMatchObject({ source: 'app', state: 'fresh', attempt: 0, dueAt: now })
      })

      test('goes on where it left, past what has come since', async () => {
        const ids = await store.put(Array.from({ length: 5 }, () => newDelivery()))
        const first = await store.find({}, undefined, 2)
        expect(first.deliveries.map(({ id }) => id)).toEqual([ids[4], ids[3]])
        await put()
        const second = await store.find({}, first.next, 2)
        expect(second.deliveries.map(({ id }) => id)).toEqual([ids[2], ids[1]])
        const third = await store.find({}, second.next, 2)
        expect(third.deliveries.map(({ id }) => id)).toEqual([ids[0]])
        expect(third.next).toBeUndefined()
      })
    })

    describe('get', () => {
      test('says of one delivery what its trace says', async () => {
        const id = await died({ messageId: 'm', event: 'A' })
        const trace = await store.get(id)
        expect([trace]).toEqual(await store.trace('m'))
        expect(trace).toMatchObject({ id, event: 'A', attempts: [FAILED] })
      })

      test('of what there is not says so', async () => {
        await put()
        expect(await store.get(987_654_321)).toBeUndefined()
      })
    })

    describe('replay', () => {
      test('leaves dead letters in the lane that is named', async () => {
        const id = await died()
        const arrived = await settled({}, { state: 'done' })
        expect(await store.replay([id, arrived], true, 'bulk')).toHaveLength(2)
        expect(await store.stats()).toMatchObject([{ bulk: 2, backlog: 0, dead: 0 }])
        expect(await claim('backlog')).toEqual([])
        expect(await claim('bulk')).toMatchObject([{ lane: 'bulk' }, { lane: 'bulk' }])
      })

      test('makes a dead letter due at once, in a window of its own, for all endpoints', async () => {
        const id = await put({ state: 'leased', messageId: 'm', body: '{"a":1}' })
        const refusedBy = ['https://b.example.com/']
        const dead = { state: 'dead', reason: 'refused' } as const
        subject.advance(DAY)
        await store.settle([settlement({ id, attempt: 1 }, dead, { refusedBy, log: [FAILED] })])
        expect(await store.replay([id], false)).toEqual([id])
        expect(await store.get(id)).toMatchObject({
          state: 'backlog',
          reason: null,
          firstAttemptAt: null,
          dueAt: subject.now(),
          attempts: [{ attempt: 1 }],
        })
        const [delivery] = await claim()
        expect(delivery).toMatchObject({
          id,
          attempt: 2,
          attemptsBefore: 1,
          sinceFirstMs: 0,
          refusedBy: [],
          body: '{"a":1}',
        })
        subject.advance(1_000)
        const later = { state: 'backlog', delayMs: 0 } as const
        await store.settle([settlement(delivery as Delivery, later)])
        const [again] = await claim()
        expect(again).toMatchObject({ attempt: 3, attemptsBefore: 1, sinceFirstMs: 1_000 })
        await store.settle([settlement(again as Delivery, dead)])
        await store.replay([id], false)
        expect(await claim()).toMatchObject([{ attempt: 4, attemptsBefore: 3, sinceFirstMs: 0 }])
      })

      test('leaves alone what is no dead letter, and what there is not', async () => {
        const ids = [
          await put(),
          await put({ state: 'leased' }),
          await put({ state: 'skipped', destination: '', reason: 'off' }),
          await settled({}, { state: 'done' }),
          987_654_321,
        ]
        const before = await find()
        expect(await store.replay(ids, false)).toEqual([])
        expect(await store.replay([], true)).toEqual([])
        expect(await find()).toEqual(before)
      })

      test('of the same again does nothing, and holds after the store was opened again', async () => {
        const ids = [await died(), await died(), await died()]
        const few = await store.replay(ids.slice(0, 2), false)
        expect(few.sort()).toEqual(ids.slice(0, 2).sort())
        store = await subject.reopen()
        expect(await store.replay(ids, false)).toEqual(ids.slice(2))
        expect(await store.replay(ids, false)).toEqual([])
        expect(await store.stats()).toMatchObject([{ backlog: 3, dead: 0 }])
        expect(await claim()).toHaveLength(3)
      })

      test('takes what has arrived if it is asked for, and what was skipped never', async () => {
        const arrived = await settled({}, { state: 'done' }, [FAILED])
        const skipped = await put({ state: 'skipped', destination: '', reason: 'off' })
        expect(await store.replay([arrived, skipped], true)).toEqual([arrived])
        const [delivery] = await claim()
        expect(delivery).toMatchObject({ id: arrived, attempt: 2, attemptsBefore: 1 })
        // The settlement of an attempt from before the replay is refused.
        expect(await store.settle([settlement({ id: arrived, attempt: 1 })])).toBe(1)
        expect(await store.settle([settlement(delivery as Delivery)])).toBe(0)
        expect(await store.replay([arrived], true)).toEqual([arrived])
        expect(await claim()).toMatchObject([{ attempt: 3, attemptsBefore: 2 }])
      })

      test('as of a time finds and takes only what was settled then, and once', async () => {
        const dead = await died({ messageId: 'dead' })
        const arrived = await settled({ messageId: 'arrived' }, { state: 'done' }, [FAILED])
        const asOf = subject.now()
        subject.advance(1_000)
        const later = [await died(), await settled({}, { state: 'done' })]
        const ids = [dead, arrived, ...later]
        const both = { states: ['dead', 'done'], asOf } as const
        expect(await matchedIds(both, 10)).toEqual([arrived, dead])
        expect(await foundIds({ ...both, messageId: 'dead' })).toEqual([dead])
        expect((await store.replay(ids, true, 'backlog', asOf)).sort()).toEqual(
          [dead, arrived].sort(),
        )
        for (const state of ['dead', 'done'] as const) {
          const [delivery] = await claim('backlog', 1)
          const next = state === 'dead' ? ({ state, reason: 'refused' } as const) : { state }
          await store.settle([settlement(delivery as Delivery, next, { log: [FAILED] })])
        }
        // They are settled again, but not as they were.
        expect(await matchedIds(both, 10)).toEqual([])
        expect(await store.replay(ids, true, 'backlog', asOf)).toEqual([])
      })

      test('by several at once is made once', async () => {
        const ids = await Promise.all(Array.from({ length: 20 }, () => died()))
        const replayed = await Promise.all([1, 2, 3].map(() => store.replay(ids, false)))
        expect(replayed.flat().sort()).toEqual(ids.sort())
      })

      test('counts for the sweep: what was dead because it was old is not old at once', async () => {
        const id = await put({ messageId: 'm' })
        subject.advance(DAY + 1)
        expect(await store.sweep(DAY, 10)).toBe(1)
        await store.replay([id], false)
        const states = async (): Promise<(State | undefined)[]> => {
          const trace = await store.get(id)
          return [trace?.state]
        }
        expect(await store.sweep(DAY, 10)).toBe(0)
        expect(await states()).toEqual(['backlog'])
        const [delivery] = await claim()
        subject.advance(DAY)
        expect(await store.sweep(DAY, 10)).toBe(0)
        await store.settle([settlement(delivery as Delivery, { state: 'backlog', delayMs: 0 })])
        subject.advance(1)
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await store.get(id)).toMatchObject({ state: 'dead', reason: /retention/ })
        subject.advance(DAY + 1)
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await states()).toEqual([undefined])
      })

      test('of what dies again, it is kept for as long as any other from then on', async () => {
        const id = await died()
        await store.replay([id], false)
        const [delivery] = await claim()
        subject.advance(DAY)
        await store.settle([settlement(delivery as Delivery, { state: 'dead', reason: 'again' })])
        subject.advance(DAY)
        expect(await store.sweep(DAY, 10)).toBe(0)
        subject.advance(1)
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await store.get(id)).toBeUndefined()
      })

      test('and what arrives then, is swept once that is older too', async () => {
        const id = await died()
        await store.replay([id], false)
        await store.settle((await claim()).map((delivery) => settlement(delivery)))
        subject.advance(DAY + 1)
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await store.get(id)).toBeUndefined()
      })

      test('and what arrives then, is kept for as long as any other from the replay on', async () => {
        const id = await put()
        subject.advance(DAY + 1)
        expect(await store.sweep(DAY, 10)).toBe(1)
        await store.replay([id], false)
        await store.settle((await claim()).map((delivery) => settlement(delivery)))
        const copies = (await store.copyOut(0, 10)).map((copy) => ({ ...copy, destination: 'b' }))
        expect(copies).toMatchObject([{ state: 'done' }])
        await store.copyIn(copies)
        store = await subject.reopen()
        subject.advance(DAY)
        expect(await store.sweep(DAY, 10)).toBe(0)
        expect(await find({ states: ['done'] })).toHaveLength(2)
        subject.advance(1)
        expect(await store.sweep(DAY, 10)).toBe(2)
        expect(await find()).toEqual([])
      })

      test('goes along to another store', async () => {
        const traceParent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
        const id = await died({ event: 'A', traceParent })
        await store.replay([id], false)
        const copies = (await store.copyOut(0, 10)).map((copy) => ({ ...copy, destination: 'b' }))
        expect(copies).toMatchObject([
          { event: 'A', traceParent, attempt: 1, attemptsBefore: 1, replayedAt: subject.now() },
        ])
        await store.copyIn(copies)
        expect(await store.claim([{ destination: 'b', lane: 'backlog', limit: 1 }])).toMatchObject([
          { attempt: 2, attemptsBefore: 1, sinceFirstMs: 0, traceParent },
        ])
      })
    })

    describe('discard', () => {
      const all = async () =>
        (await find({})).map(({ messageId, state }) => `${messageId} ${state}`)
      const find = async (filter: Filter) => (await store.find(filter, undefined, 200)).deliveries

      test('deletes what waits for one destination, and neither what is sent nor what is settled', async () => {
        await store.put([newDelivery({ messageId: 'done' }), newDelivery({ messageId: 'retried' })])
        const [done, retried] = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 2 }])
        const log = [
          {
            url: 'u',
            code: 'server_error' as const,
            status: 503,
            ms: 1,
            error: null,
            response: '',
          },
        ]
        await store.settle([
          ...(done ? [settlement(done)] : []),
          ...(retried ? [settlement(retried, { state: 'backlog', delayMs: 9 }, { log })] : []),
        ])
        await store.put([
          newDelivery({ messageId: 'fresh' }),
          newDelivery({ messageId: 'bulk', state: 'bulk' }),
          newDelivery({ messageId: 'leased', state: 'leased' }),
          newDelivery({ messageId: 'skipped', state: 'skipped' }),
          newDelivery({ messageId: 'other', destination: 'mail' }),
        ])
        expect(await store.discard('none', 9)).toBe(0)
        expect(await store.discard('crm', 2)).toBe(2)
        expect(await store.discard('crm', 2)).toBe(1)
        expect(await store.discard('crm', 2)).toBe(0)
        expect(await all()).toEqual([
          'other fresh',
          'skipped skipped',
          'leased leased',
          'done done',
        ])
        expect(await store.stats()).toMatchObject([
          { destination: 'crm', fresh: 0, backlog: 0, bulk: 0, leased: 1 },
          { destination: 'mail', fresh: 1 },
        ])
        expect(await store.trace('retried')).toEqual([])
        // A message that was discarded may come again.
        expect(await store.put([newDelivery({ messageId: 'fresh' })])).toEqual([expect.any(Number)])
      })
    })

    test('the trace that a message belongs to is there at each claim', async () => {
      const traceParent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
      await put({ traceParent })
      await put()
      const claimed = await claim('fresh')
      expect(claimed.map((delivery) => delivery.traceParent)).toEqual([traceParent, undefined])
    })
  })

  // The tests of the next two only read, so they share a store.
  describe(`${name}: the search by`, () => {
    let ids: Record<string, DeliveryId>

    beforeAll(async () => {
      await open()
      const one = await put({ user: 'bob', event: 'A', messageId: 'm' })
      subject.advance(10)
      const two = await died({ source: 'app', user: 'bob', event: 'B', messageId: 'm' })
      subject.advance(10)
      const three = await put({ destination: 'mail', type: 'page', event: 'A' })
      const four = await settled({ user: 'bob' }, { state: 'done' })
      ids = { one, two, three, four }
    })

    afterAll(dispose)

    const rows: [string, (now: number) => Filter, string[]][] = [
      ['nothing', () => ({}), ['four', 'three', 'two', 'one']],
      ['destination', () => ({ destination: 'mail' }), ['three']],
      ['a destination that is none', () => ({ destination: 'none' }), []],
      ['destinations', () => ({ destinations: ['none', 'mail'] }), ['three']],
      [
        'all destinations',
        () => ({ destinations: ['mail', 'crm'] }),
        ['four', 'three', 'two', 'one'],
      ],
      ['destinations that are none', () => ({ destinations: ['none'] }), []],
      ['no destinations at all', () => ({ destinations: [] }), []],
      ['one of other destinations', () => ({ destination: 'crm', destinations: ['mail'] }), []],
      [
        'one of the destinations',
        () => ({ destination: 'mail', destinations: ['mail'] }),
        ['three'],
      ],
      ['message and destinations', () => ({ messageId: 'm', destinations: ['mail'] }), []],
      ['user and destinations', () => ({ user: 'bob', destinations: ['mail'] }), []],
      [
        'prefix and destinations',
        () => ({ event: 'a', isPrefix: true, destinations: ['mail'] }),
        ['three'],
      ],
      ['source', () => ({ source: 'app' }), ['two']],
      ['type', () => ({ type: 'page' }), ['three']],
      ['event', () => ({ event: 'A' }), ['three', 'one']],
      ['user', () => ({ user: 'bob' }), ['four', 'two', 'one']],
      ['a user that is none', () => ({ user: 'bo' }), []],
      ['message', () => ({ messageId: 'm' }), ['two', 'one']],
      ['message and source', () => ({ messageId: 'm', source: 'web' }), ['one']],
      ['message and user', () => ({ messageId: 'm', user: 'ann' }), []],
      ['user and event', () => ({ user: 'bob', event: 'A' }), ['one']],
      ['user and state', () => ({ user: 'bob', states: ['fresh'] }), ['one']],
      ['a state', () => ({ states: ['dead'] }), ['two']],
      ['states', () => ({ states: ['dead', 'done'] }), ['four', 'two']],
      ['states that wait', () => ({ states: ['fresh', 'backlog', 'leased'] }), ['three', 'one']],
      ['state and destination', () => ({ states: ['fresh'], destination: 'mail' }), ['three']],
      ['a state of which there is none', () => ({ states: ['leased'] }), []],
      ['no state at all', () => ({ states: [] }), []],
      ['since', (now) => ({ since: now - 10 }), ['four', 'three', 'two']],
      ['until', (now) => ({ until: now }), ['two', 'one']],
      ['since and until', (now) => ({ since: now - 10, until: now }), ['two']],
    ]

    test.each(rows)('%s', async (_, filter, expected) => {
      const wanted = expected.map((each) => ids[each])
      expect(await foundIds(filter(subject.now()))).toEqual(wanted)
      expect(await foundIds(filter(subject.now()), 1)).toEqual(wanted)
    })
  })

  describe(`${name}: the search among many`, () => {
    let needle: DeliveryId

    beforeAll(async () => {
      await open()
      needle = await died({ user: 'needle', event: 'needle' })
      const hay = () => Array.from({ length: 2_000 }, () => newDelivery({ body: '' }))
      for (let n = 0; n < 6; n++) await store.put(hay())
    })

    afterAll(dispose)

    test.each([
      ['user', { user: 'needle' }],
      ['event', { event: 'needle' }],
      ['state', { states: ['dead' as const] }],
    ] satisfies [string, Filter][])(
      'finds one among many by its %s, however many slices it takes',
      async (_, filter) => {
        expect(await foundIds(filter)).toEqual([needle])
      },
    )
  })
}
