import { WINDOW_MS } from '../../src/deliver/schedule.js'
import { decide, type EndpointOutcome } from '../../src/deliver/decide.js'
import type { Outcome } from '../../src/model/outcome.js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type AttemptLog,
  type Delivery,
  type Lane,
  type NewDelivery,
  type Settlement,
} from '../../src/model/delivery.js'
import { LANES } from '../../src/store/states.js'
import { LEASE_MS, RETRIED_MS, type Store } from '../../src/store/store.js'

/** A store under test, with a clock that the test moves. */
export interface Subject {
  store: Store
  /** The store's time: ms since the epoch. */
  now(): number
  /** Sets the store's clock forward. */
  advance(ms: number): void
  /** Closes the store and opens it again. */
  reopen(): Promise<Store>
  /** Closes the store and deletes it. */
  dispose(): Promise<void>
}

/**
 * Opens a store with a clock that stands still.
 *
 * @param open - Opens the store. Each call opens the same one.
 * @param clear - Deletes the store.
 */
export async function createSubject(
  open: (now: () => number) => Promise<Store>,
  clear: () => PromiseLike<void>,
): Promise<Subject> {
  let time = 1_700_000_000_000
  const now = () => time
  const subject: Subject = {
    store: await open(now),
    now,
    advance: (ms) => {
      time += ms
    },
    reopen: async () => {
      await subject.store.close()
      subject.store = await open(now)
      return subject.store
    },
    dispose: async () => {
      await subject.store.close()
      await clear()
    },
  }
  return subject
}

/** A new delivery. By default, each has a different message id. */
export function newDelivery(changes: Partial<NewDelivery> = {}): NewDelivery {
  return {
    messageId: crypto.randomUUID(),
    source: 'web',
    destination: 'crm',
    type: 'track',
    user: 'ann',
    body: '{"type":"track"}',
    state: 'fresh',
    ...changes,
  }
}

/** The settlement of a claimed delivery; by default, the delivery arrived. */
export function settlement(
  { id, attempt }: Pick<Delivery, 'id' | 'attempt'>,
  next: Settlement['next'] = { state: 'done' },
  changes: Partial<Settlement> = {},
): Settlement {
  return { id, attempt, next, refusedBy: [], log: [], ...changes }
}

/** The tests that every store passes, whatever its database is. */
export function storeContract(name: string, make: () => Promise<Subject>): void {
  describe(name, () => {
    let subject: Subject
    let store: Store

    beforeEach(async () => {
      subject = await make()
      store = subject.store
    })

    afterEach(async () => {
      await subject.dispose()
    })

    const reopen = async (): Promise<void> => {
      store = await subject.reopen()
    }

    const put = async (changes: Partial<NewDelivery> = {}): Promise<number> => {
      const [id] = await store.put([newDelivery(changes)])
      expect(id).toBeTypeOf('number')
      return id as number
    }

    const claim = (lane: Lane, limit = 10, destination = 'crm') =>
      store.claim([{ destination, lane, limit }])

    const claimOne = async (lane: Lane = 'fresh', destination = 'crm'): Promise<Delivery> => {
      const [delivery, ...others] = await claim(lane, 10, destination)
      expect(others).toEqual([])
      expect(delivery).toBeDefined()
      return delivery as Delivery
    }

    const idsOf = (deliveries: Delivery[]): number[] => deliveries.map(({ id }) => id)

    describe('due', () => {
      const due = async () =>
        (await store.due()).map(({ destination, lane }) => `${destination} ${lane}`).sort()

      test('names each lane with something due, and no other', async () => {
        expect(await due()).toEqual([])
        await put({ destination: 'crm', state: 'fresh' })
        await put({ destination: 'crm', state: 'fresh' })
        await put({ destination: 'crm', state: 'bulk' })
        await put({ destination: 'mail', state: 'backlog' })
        await put({ destination: 'skipped', state: 'skipped', reason: 'a test' })
        expect(await due()).toEqual(['crm bulk', 'crm fresh', 'mail backlog'])
        await claim('fresh', 1)
        expect(await due()).toContain('crm fresh')
        await claim('fresh', 1)
        expect(await due()).toEqual(['crm bulk', 'mail backlog'])
        await reopen()
        expect(await due()).toContain('mail backlog')
      })

      test('names a lane once a retry is due, or a lease has run out', async () => {
        await put()
        const delivery = await claimOne()
        await store.settle([settlement(delivery, { state: 'backlog', delayMs: 5_000 })])
        subject.advance(4_999)
        expect(await due()).toEqual([])
        subject.advance(1)
        expect(await due()).toEqual(['crm backlog'])
        await claimOne('backlog')
        subject.advance(LEASE_MS - 1)
        expect(await due()).toEqual([])
        subject.advance(1)
        expect(await due()).toEqual(['crm backlog'])
      })

      test('names no lane of dead letters', async () => {
        await put()
        await store.settle([settlement(await claimOne(), { state: 'dead', reason: 'a test' })])
        expect(await due()).toEqual([])
      })
    })

    describe('put', () => {
      test('gives each delivery an id of its own, in the order in which they were given', async () => {
        const ids = await store.put([
          newDelivery({ body: '{"n":1}' }),
          newDelivery({ body: '{"n":2}' }),
        ])
        expect(new Set(ids).size).toBe(2)
        const bodies = new Map((await claim('fresh')).map(({ id, body }) => [id, body]))
        expect(ids.map((id) => bodies.get(id as number))).toEqual(['{"n":1}', '{"n":2}'])
      })

      test('of nothing is answered with nothing', async () => {
        expect(await store.put([])).toEqual([])
      })

      test('a message that the destination has already gets no id, and is forwarded once', async () => {
        const first = await put({ messageId: 'm', body: '{"n":1}' })
        expect(await store.put([newDelivery({ messageId: 'm', body: '{"n":2}' })])).toEqual([
          undefined,
        ])
        expect(await claim('fresh')).toMatchObject([{ id: first, body: '{"n":1}' }])
      })

      test('a message that comes twice in one put is stored once', async () => {
        const twice = newDelivery()
        const [first, second, other] = await store.put([twice, twice, newDelivery()])
        expect(first).toBeTypeOf('number')
        expect(second).toBeUndefined()
        expect(other).toBeTypeOf('number')
      })

      test('a message is known after it has arrived, and after the store was opened again', async () => {
        const delivery = newDelivery()
        await store.put([delivery])
        await store.settle([settlement(await claimOne())])
        expect(await store.put([delivery])).toEqual([undefined])
        await reopen()
        expect(await store.put([delivery])).toEqual([undefined])
      })

      test('one message may go to several destinations, and come from several sources', async () => {
        const messageId = 'm'
        const ids = await store.put([
          newDelivery({ messageId, destination: 'crm' }),
          newDelivery({ messageId, destination: 'mail' }),
          newDelivery({ messageId, source: 'app' }),
        ])
        expect(new Set(ids).size).toBe(3)
        expect(await store.trace(messageId)).toMatchObject([
          { source: 'web', destination: 'crm' },
          { source: 'web', destination: 'mail' },
          { source: 'app', destination: 'crm' },
        ])
      })

      test('many callers at once each get their own ids', async () => {
        const calls = await Promise.all(
          Array.from({ length: 200 }, (_, n) =>
            store.put([newDelivery({ messageId: `${n}-a` }), newDelivery({ messageId: `${n}-b` })]),
          ),
        )
        expect(new Set(calls.flat()).size).toBe(400)
        for (const n of [0, 99, 199]) {
          expect(await store.trace(`${n}-a`)).toMatchObject([{ id: calls[n]?.[0] }])
          expect(await store.trace(`${n}-b`)).toMatchObject([{ id: calls[n]?.[1] }])
        }
      })

      test('the same message from many callers at once is stored for one of them', async () => {
        const delivery = newDelivery()
        const calls = await Promise.all(Array.from({ length: 50 }, () => store.put([delivery])))
        expect(calls.flat().filter((id) => id !== undefined)).toHaveLength(1)
      })

      test('what was put is there after the store was opened again', async () => {
        const id = await put({ messageId: 'm', body: '{"kept":true}' })
        await reopen()
        expect(await claim('fresh')).toMatchObject([{ id, messageId: 'm', body: '{"kept":true}' }])
      })

      test('what is put leased is in the first attempt of whoever put it', async () => {
        const id = await put({ messageId: 'm', state: 'leased' })
        expect(await claim('fresh')).toEqual([])
        expect(await claim('backlog')).toEqual([])
        expect(await store.trace('m')).toMatchObject([
          {
            state: 'leased',
            firstAttemptAt: subject.now(),
            dueAt: subject.now() + LEASE_MS,
          },
        ])
        expect(await store.settle([settlement({ id, attempt: 1 })])).toBe(0)
        expect(await store.trace('m')).toMatchObject([{ state: 'done' }])
      })

      test('what is skipped is for the log alone', async () => {
        await put({ messageId: 'm', destination: '', body: '', state: 'skipped', reason: 'off' })
        expect(await claim('fresh', 10, '')).toEqual([])
        expect(await claim('backlog', 10, '')).toEqual([])
        expect(await store.stats()).toEqual([])
        expect(await store.trace('m')).toMatchObject([
          { destination: '', body: '', state: 'skipped', reason: 'off', dueAt: null, attempts: [] },
        ])
      })
    })

    describe('claim', () => {
      test('gives all that was put', async () => {
        const delivery = newDelivery({ type: 'identify', body: '{"a":"é😀"}' })
        const [id] = await store.put([delivery])
        expect(await claim('fresh')).toEqual([
          {
            id,
            attempt: 1,
            attemptsBefore: 0,
            messageId: delivery.messageId,
            source: 'web',
            destination: 'crm',
            type: 'identify',
            body: '{"a":"é😀"}',
            lane: 'fresh',
            sinceFirstMs: 0,
            dueForMs: 0,
            refusedBy: [],
          },
        ])
      })

      test('gives nothing twice while the lease holds', async () => {
        await put()
        await claimOne()
        subject.advance(29_999)
        expect(await claim('fresh')).toEqual([])
        expect(await claim('backlog')).toEqual([])
      })

      test('gives each delivery to one of those that ask at once', async () => {
        await store.put(Array.from({ length: 20 }, () => newDelivery()))
        const claims = await Promise.all(Array.from({ length: 10 }, () => claim('fresh', 3)))
        const ids = idsOf(claims.flat())
        expect(ids).toHaveLength(20)
        expect(new Set(ids).size).toBe(20)
      })

      test.each(LANES)('gives the longest due of %s first', async (lane) => {
        const ids: number[] = []
        for (let n = 0; n < 3; n++) {
          ids.push(await put({ state: lane }))
          subject.advance(10)
        }
        expect(idsOf(await claim(lane, 2))).toEqual(ids.slice(0, 2))
        expect(idsOf(await claim(lane, 2))).toEqual(ids.slice(2))
      })

      test('what is due at the same time comes in the order in which it was put', async () => {
        const ids = await store.put(Array.from({ length: 50 }, () => newDelivery()))
        expect(idsOf(await claim('fresh', 50))).toEqual(ids)
      })

      test('goes by the time at which an attempt is due, not by age', async () => {
        const [older, newer] = await store.put([newDelivery(), newDelivery()])
        const claimed = await claim('fresh')
        await store.settle(
          claimed.map((delivery) =>
            settlement(delivery, { state: 'backlog', delayMs: delivery.id === older ? 200 : 100 }),
          ),
        )
        subject.advance(200)
        expect(idsOf(await claim('backlog'))).toEqual([newer, older])
      })

      describe('of untried deliveries', () => {
        const claimUntried = (limit = 1, destination = 'crm') =>
          store.claim([{ destination, lane: 'backlog', limit, isUntried: true }])

        test('takes the one that became due last, and leaves what was tried', async () => {
          const tried = await put({ state: 'backlog' })
          const claimed = await claim('backlog')
          const [older, newer] = [await put({ state: 'backlog' }), await put({ state: 'backlog' })]
          const mail = await put({ state: 'backlog', destination: 'mail' })
          await store.settle(
            claimed.map((delivery) => settlement(delivery, { state: 'backlog', delayMs: 10 })),
          )
          subject.advance(10)
          expect(idsOf(await claimUntried(1, 'mail'))).toEqual([mail])
          expect(idsOf(await claimUntried())).toEqual([newer])
          expect(idsOf(await claimUntried())).toEqual([older])
          expect(await claimUntried()).toEqual([])
          expect(idsOf(await claim('backlog'))).toEqual([tried])
        })

        test('takes the latest first', async () => {
          const ids: number[] = []
          for (let n = 0; n < 3; n++) {
            ids.push(await put({ state: 'backlog' }))
            subject.advance(1)
          }
          expect(idsOf(await claimUntried(2))).toEqual([ids[2], ids[1]])
        })

        test('takes them from the bulk lane, too', async () => {
          const tried = await put({ state: 'bulk' })
          const [delivery] = await claim('bulk')
          const untried = await put({ state: 'bulk' })
          await store.settle([settlement(delivery as Delivery, { state: 'bulk', delayMs: 0 })])
          const probe = { destination: 'crm', lane: 'bulk', limit: 2, isUntried: true } as const
          expect(idsOf(await store.claim([probe]))).toEqual([untried])
          expect(idsOf(await claim('bulk'))).toEqual([tried])
        })

        test('leases it: nobody else gets it, and it settles', async () => {
          await put({ state: 'backlog' })
          const [delivery] = await claimUntried()
          expect(delivery).toMatchObject({ attempt: 1, lane: 'backlog', sinceFirstMs: 0 })
          expect(await claimUntried()).toEqual([])
          expect(await claim('backlog')).toEqual([])
          if (delivery)
            expect(await store.settle([settlement(delivery, { state: 'done' })])).toBe(0)
        })

        test('takes from the fresh lane what came last', async () => {
          await put()
          subject.advance(1)
          const newer = await put()
          const found = await store.claim([
            { destination: 'crm', lane: 'fresh', limit: 1, isUntried: true },
          ])
          expect(idsOf(found)).toEqual([newer])
        })

        test('can be made beside other claims', async () => {
          const fresh = await put({ destination: 'mail' })
          const parked = await put({ state: 'backlog' })
          const claimed = await store.claim([
            { destination: 'mail', lane: 'fresh', limit: 5 },
            { destination: 'crm', lane: 'backlog', limit: 1, isUntried: true },
          ])
          expect(new Set(idsOf(claimed))).toEqual(new Set([fresh, parked]))
        })
      })

      test('keeps lanes and destinations apart', async () => {
        const fresh = await put()
        const backlog = await put({ state: 'backlog' })
        const bulk = await put({ state: 'bulk' })
        const other = await put({ destination: 'mail' })
        expect(idsOf(await claim('backlog'))).toEqual([backlog])
        expect(await claim('bulk')).toMatchObject([{ id: bulk, lane: 'bulk', attempt: 1 }])
        expect(idsOf(await claim('fresh', 10, 'mail'))).toEqual([other])
        expect(idsOf(await claim('fresh'))).toEqual([fresh])
        expect(await claim('fresh', 10, 'nobody')).toEqual([])
      })

      test('fulfils several wishes, each up to its own limit', async () => {
        await store.put([
          ...Array.from({ length: 3 }, () => newDelivery()),
          ...Array.from({ length: 3 }, () => newDelivery({ destination: 'mail' })),
        ])
        const claimed = await store.claim([
          { destination: 'crm', lane: 'fresh', limit: 1 },
          { destination: 'mail', lane: 'fresh', limit: 2 },
          { destination: 'crm', lane: 'backlog', limit: 5 },
        ])
        expect(claimed.map(({ destination }) => destination)).toEqual(['crm', 'mail', 'mail'])
      })

      test('a limit of 0 gives nothing', async () => {
        await put()
        expect(await claim('fresh', 0)).toEqual([])
      })

      test('what is not due yet stays', async () => {
        await put()
        const delivery = await claimOne()
        await store.settle([settlement(delivery, { state: 'backlog', delayMs: 5_000 })])
        subject.advance(4_999)
        expect(await claim('backlog')).toEqual([])
        subject.advance(1)
        expect(await claimOne('backlog')).toMatchObject({ attempt: 2, sinceFirstMs: 5_000 })
      })

      test('bulk work that failed stays bulk work, and is due after its delay', async () => {
        await put({ messageId: 'm', state: 'bulk' })
        const delivery = await claimOne('bulk')
        await store.settle([settlement(delivery, { state: 'bulk', delayMs: 5_000 })])
        const dueAt = subject.now() + 5_000
        expect(await store.trace('m')).toMatchObject([{ state: 'bulk', dueAt }])
        expect(await claim('bulk')).toEqual([])
        subject.advance(5_000)
        expect(await claim('backlog')).toEqual([])
        expect(await claimOne('bulk')).toMatchObject({ attempt: 2, lane: 'bulk' })
      })

      test.each(LANES)(
        'a lease of %s that ran out makes the delivery due in the backlog',
        async (lane) => {
          const id = await put({ state: lane })
          await claimOne(lane)
          subject.advance(30_000)
          expect(await claim('fresh')).toEqual([])
          expect(await claim('bulk')).toEqual([])
          expect(await claimOne('backlog')).toMatchObject({
            id,
            attempt: 2,
            lane: 'backlog',
            sinceFirstMs: 30_000,
          })
        },
      )

      test('attempts that were lost, or sent nothing, take none of the three that a late message gets', async () => {
        const lost = await put({ state: 'leased' })
        subject.advance(LEASE_MS)
        expect(await claimOne('backlog')).toMatchObject({ id: lost, attempt: 2, attemptsBefore: 1 })
        // The process ends, and another one opens the store.
        subject.advance(LEASE_MS)
        await reopen()
        const third = await claimOne('backlog')
        expect(third).toMatchObject({ attempt: 3, attemptsBefore: 2 })
        const at = 'https://a.example.com/'
        const outcome = (code: 'endpoint_down' | 'server_error') => [
          { url: at, outcome: { code, verdict: 'retry', ms: 1, response: '' } as Outcome },
        ]
        const decideOn = (delivery: Delivery, outcomes: EndpointOutcome[]) =>
          decide(delivery, 0, [at], outcomes, () => 0)
        await store.settle([decideOn(third, outcome('endpoint_down'))])
        subject.advance(4 * 3_600_000)

        const states: string[] = []
        while (states.at(-1) !== 'dead') {
          const delivery = await claimOne('backlog')
          const decision = decideOn(delivery, outcome('server_error'))
          await store.settle([decision])
          states.push(decision.next.state)
          subject.advance(60_000)
        }
        expect(states).toEqual(['backlog', 'backlog', 'dead'])
        expect((await store.get(lost))?.attempts.map(({ attempt }) => attempt)).toEqual([4, 5, 6])
      })

      test('a new message that was not sent goes back to the fresh lane, and its window has not begun', async () => {
        const id = await put({ state: 'leased' })
        const back = { state: 'fresh', delayMs: 0 } as const
        expect(await store.settle([settlement({ id, attempt: 1 }, back, { isUnsent: true })])).toBe(
          0,
        )
        expect(await store.due()).toEqual([{ destination: 'crm', lane: 'fresh' }])
        expect(await store.get(id)).toMatchObject({ state: 'fresh', firstAttemptAt: null })
        subject.advance(5_000)
        expect(await claimOne()).toMatchObject({
          ...{ id, attempt: 2, attemptsBefore: 1, sinceFirstMs: 0, lane: 'fresh' },
        })
      })

      test('a message that was not sent goes back to its place in the lane', async () => {
        const first = await put()
        subject.advance(1_000)
        const second = await put()
        subject.advance(1_000)
        const claimed = await claim('fresh', 1)
        expect(claimed).toMatchObject([{ id: first, dueForMs: 2_000 }])
        subject.advance(500)
        const back = { state: 'fresh', delayMs: -2_500 } as const
        await store.settle(claimed.map((one) => settlement(one, back, { isUnsent: true })))
        expect(await claim('fresh', 1)).toMatchObject([{ id: first, dueForMs: 2_500 }])
        expect(await claim('fresh', 1)).toMatchObject([{ id: second, dueForMs: 1_500 }])
      })

      test.each(['leased', 'fresh'] as const)(
        'a claim that sent nothing does not begin the window: %s',
        async (state) => {
          const id = await put({ state })
          const unsent = { isUnsent: true }
          const again = { state: 'backlog', delayMs: 0 } as const
          if (state === 'fresh') await claimOne()
          await store.settle([settlement({ id, attempt: 1 }, again, unsent)])
          expect((await store.get(id))?.firstAttemptAt).toBeNull()
          subject.advance(5 * 3_600_000)
          await store.settle([settlement(await claimOne('backlog'), again, unsent)])
          subject.advance(3_600_000)
          const third = await claimOne('backlog')
          expect(third).toMatchObject({ attempt: 3, attemptsBefore: 2, sinceFirstMs: 0 })
          await store.settle([settlement(third, again)])
          subject.advance(1_000)
          const fourth = await claimOne('backlog')
          expect(fourth).toMatchObject({ attempt: 4, attemptsBefore: 2, sinceFirstMs: 1_000 })
          await store.settle([settlement(fourth, again, unsent)])
          expect(await claimOne('backlog')).toMatchObject({ sinceFirstMs: 1_000 })
        },
      )

      test('leases that ran out take their place among the backlog by the time they were due', async () => {
        const lapsed = await put({ state: 'leased' })
        subject.advance(LEASE_MS - 1)
        const before = await put({ state: 'backlog' })
        subject.advance(2)
        const after = await put({ state: 'backlog' })
        expect(idsOf(await claim('backlog', 2))).toEqual([before, lapsed])
        expect(idsOf(await claim('backlog', 2))).toEqual([after])
      })
    })

    describe('settle', () => {
      const POSTS: AttemptLog[] = [
        {
          url: 'https://a.example.com/hook',
          code: 'server_error',
          status: 503,
          ms: 12.5,
          error: 'The endpoint answered 503.',
          response: 'busy',
        },
        {
          url: 'https://b.example.com/hook',
          code: 'timeout',
          status: null,
          ms: 5_000,
          error: 'No answer within 5 s.',
          response: '',
        },
      ]

      test('writes each POST of each attempt, in order, at the time at which the attempt began', async () => {
        await put({ messageId: 'm' })
        const startedAt = subject.now()
        const first = await claimOne()
        subject.advance(700)
        await store.settle([
          settlement(first, { state: 'backlog', delayMs: 2_000 }, { log: POSTS }),
        ])
        subject.advance(2_000)
        const second = await claimOne('backlog')
        const arrival: AttemptLog = {
          url: 'https://b.example.com/hook',
          code: 'delivered',
          status: 200,
          ms: 3,
          error: null,
          response: 'ok',
        }
        await store.settle([settlement(second, { state: 'done' }, { log: [arrival] })])
        const [trace] = await store.trace('m')
        expect(trace?.attempts).toEqual([
          ...POSTS.map((post) => ({ ...post, attempt: 1, at: startedAt })),
          { ...arrival, attempt: 2, at: startedAt + 2_700 },
        ])
      })

      test('done is the end', async () => {
        const id = await put({ messageId: 'm', user: 'ann', body: '{"a":1}' })
        const receivedAt = subject.now()
        subject.advance(50)
        await store.settle([settlement(await claimOne())])
        subject.advance(LEASE_MS * 2)
        expect(await claim('fresh')).toEqual([])
        expect(await claim('backlog')).toEqual([])
        expect(await store.trace('m')).toEqual([
          {
            id,
            messageId: 'm',
            source: 'web',
            destination: 'crm',
            event: '',
            type: 'track',
            user: 'ann',
            body: '{"a":1}',
            state: 'done',
            reason: null,
            receivedAt,
            firstAttemptAt: receivedAt + 50,
            dueAt: null,
            attempts: [],
          },
        ])
      })

      test('dead is the end, and has a reason', async () => {
        await put({ messageId: 'm' })
        const reason = 'refused by all of its endpoints'
        await store.settle([settlement(await claimOne(), { state: 'dead', reason })])
        subject.advance(LEASE_MS * 2)
        expect(await claim('backlog')).toEqual([])
        expect(await store.trace('m')).toMatchObject([{ state: 'dead', reason, dueAt: null }])
      })

      test('the backlog has it due after the delay', async () => {
        await put({ messageId: 'm' })
        const startedAt = subject.now()
        await store.settle([settlement(await claimOne(), { state: 'backlog', delayMs: 2_000.4 })])
        expect(await store.trace('m')).toMatchObject([
          { state: 'backlog', dueAt: startedAt + 2_000, firstAttemptAt: startedAt },
        ])
      })

      test('remembers who refused it, and replaces that by what the next attempt says', async () => {
        await put()
        const refusedBy = ['https://a.example.com/"hook"', 'https://b.example.com/é']
        const first = await claimOne()
        await store.settle([settlement(first, { state: 'backlog', delayMs: 0 }, { refusedBy })])
        const second = await claimOne('backlog')
        expect(second.refusedBy).toEqual(refusedBy)
        await store.settle([settlement(second, { state: 'backlog', delayMs: 0 })])
        expect((await claimOne('backlog')).refusedBy).toEqual([])
      })

      test('is refused if a newer claim has the delivery, and changes nothing then', async () => {
        await put({ messageId: 'm', state: 'backlog' })
        const late = await claimOne('backlog')
        subject.advance(LEASE_MS)
        const latest = await claimOne('backlog')
        expect(await store.settle([settlement(late, { state: 'done' }, { log: POSTS })])).toBe(1)
        expect(await store.trace('m')).toMatchObject([{ state: 'leased', attempts: [] }])
        expect(await store.settle([settlement(latest)])).toBe(0)
      })

      test('is taken after the lease ran out, as long as nobody has claimed the delivery', async () => {
        await put({ messageId: 'm' })
        const delivery = await claimOne()
        subject.advance(LEASE_MS * 2)
        expect(await store.settle([settlement(delivery)])).toBe(0)
        expect(await store.trace('m')).toMatchObject([{ state: 'done' }])
      })

      test.each<[string, Settlement['next']]>([
        ['done', { state: 'done' }],
        ['dead', { state: 'dead', reason: 'late' }],
        ['fresh', { state: 'fresh', delayMs: 0 }],
        ['backlog', { state: 'backlog', delayMs: 60_000 }],
        ['bulk', { state: 'bulk', delayMs: 60_000 }],
      ])('a second time is refused after %s', async (_, next) => {
        await put({ messageId: 'm' })
        const delivery = await claimOne()
        expect(await store.settle([settlement(delivery, next, { log: POSTS })])).toBe(0)
        const before = await store.trace('m')
        expect(await store.settle([settlement(delivery, { state: 'done' }, { log: POSTS })])).toBe(
          1,
        )
        expect(await store.trace('m')).toEqual(before)
      })

      test('twice in one call is taken once', async () => {
        await put()
        const delivery = await claimOne()
        expect(await store.settle([settlement(delivery), settlement(delivery)])).toBe(1)
      })

      test('of a delivery that the store does not have is refused', async () => {
        expect(await store.settle([settlement({ id: 4_711, attempt: 1 })])).toBe(1)
      })

      test('is told with the object that was given, once, if it is taken, and not if it is refused', async () => {
        const told: Settlement[] = []
        store.onSettled((settlements) => told.push(...settlements))
        await put()
        const claimed = await claimOne()
        const [taken, twice] = [settlement(claimed), settlement(claimed)]
        expect(await store.settle([settlement({ id: 4_711, attempt: 1 }), taken, twice])).toBe(2)
        expect(await store.settle([settlement(claimed)])).toBe(1)
        expect(told).toHaveLength(1)
        expect([taken, twice]).toContain(told[0])
      })

      test('that cannot be written is refused, and holds up no other', async () => {
        const told: Settlement[] = []
        store.onSettled((settlements) => told.push(...settlements))
        for (const messageId of ['m1', 'm2', 'm3']) await put({ messageId })
        const claimed = await claim('fresh')
        const never = { state: 'backlog', delayMs: Infinity } as const
        const settlements = claimed.map((delivery, i) =>
          i === 1 ? settlement(delivery, never) : settlement(delivery),
        )
        const [refused, [id]] = await Promise.all([
          store.settle(settlements),
          store.put([newDelivery({ messageId: 'm4' })]),
        ])
        expect([refused, id]).toEqual([1, expect.any(Number)])
        expect(told).toEqual([settlements[0], settlements[2]])
        expect(idsOf(await claim('fresh'))).toEqual([id])
        subject.advance(LEASE_MS)
        const again = [await claim('fresh'), await claim('backlog')].flat()
        expect(idsOf(again)).toContain(claimed[1]?.id)
        expect(await store.trace('m1')).toMatchObject([{ state: 'done' }])
      })

      test('of nothing refuses nothing', async () => {
        expect(await store.settle([])).toBe(0)
      })

      test('each caller is told of its own refusals', async () => {
        const [id] = await store.put([newDelivery({ state: 'leased' })])
        const delivery = { id: id as number, attempt: 1 }
        expect(
          await Promise.all([
            store.settle([settlement(delivery)]),
            store.settle([settlement(delivery), settlement(delivery)]),
            store.settle([settlement({ id: 4_711, attempt: 1 })]),
          ]),
        ).toEqual([0, 2, 1])
      })

      test('what was settled is there after the store was opened again', async () => {
        await put({ messageId: 'm' })
        await store.settle([settlement(await claimOne(), { state: 'done' }, { log: POSTS })])
        const before = await store.trace('m')
        await reopen()
        expect(await store.trace('m')).toEqual(before)
      })
    })

    describe('any text', () => {
      const TEXTS: [string, string][] = [
        ['quotes', `it's "quoted" \`and\` \\slashed\\ ; DROP TABLE deliveries --`],
        ['NUL', 'a\0b\0'],
        ['a control character', 'a\x1ab\x1a0000\x01'],
        ['accents and emoji', 'é̂ 😀 👩‍👩‍👧 日本語'],
        ['a lone surrogate', 'a\ud83db'],
        ['a lone surrogate the other way', '\ude00a\ud83d'],
        ['nothing', ''],
      ]

      test.each(TEXTS)('ids, names and logs with %s come back as they were', async (_, text) => {
        const delivery = newDelivery({
          messageId: text,
          source: text,
          destination: text,
          user: text,
          body: JSON.stringify({ text }),
        })
        await store.put([delivery])
        await reopen()
        const [claimed] = await claim('fresh', 1, text)
        expect(claimed).toMatchObject({
          messageId: text,
          source: text,
          destination: text,
          body: delivery.body,
        })
        const log: AttemptLog = {
          url: text,
          code: 'client_error',
          status: 400,
          ms: 1,
          error: text,
          response: text,
        }
        await store.settle([
          settlement(
            claimed as Delivery,
            { state: 'dead', reason: text },
            { refusedBy: [text], log: [log] },
          ),
        ])
        await reopen()
        expect(await store.trace(text)).toMatchObject([
          { messageId: text, user: text, reason: text, attempts: [log] },
        ])
        expect(await store.stats()).toMatchObject([{ destination: text, dead: 1 }])
      })

      test('texts that differ in what databases do not keep are different messages', async () => {
        const ids = ['a', 'a\0', 'a\0b', 'a\ud83d', 'a\ud83e', 'a\ufffd', 'a\x1a', 'a\x1ad83d']
        const put = await store.put(ids.map((messageId) => newDelivery({ messageId })))
        expect(new Set(put).size).toBe(ids.length)
        expect(put).not.toContain(undefined)
      })

      test('a body of 32 KB comes back as it was', async () => {
        const body = JSON.stringify({ text: 'é😀'.repeat(5_461) })
        expect(Buffer.byteLength(body)).toBeGreaterThan(32_000)
        await put({ messageId: 'm', body })
        expect((await claimOne()).body).toBe(body)
        expect(await store.trace('m')).toMatchObject([{ body }])
      })
    })

    describe('stats', () => {
      test('an empty store has none', async () => {
        expect(await store.stats()).toEqual([])
      })

      test('counts by destination and state, before and after the store was opened again', async () => {
        await store.put([
          ...Array.from({ length: 4 }, () => newDelivery()),
          newDelivery({ state: 'backlog' }),
          newDelivery({ destination: 'mail', state: 'backlog' }),
          newDelivery({ destination: 'mail', state: 'bulk' }),
          newDelivery({ destination: 'mail', state: 'bulk' }),
          newDelivery({ destination: 'list', state: 'bulk' }),
        ])
        subject.advance(100)
        const [one, two] = await claim('fresh', 2)
        await store.settle([
          settlement(one as Delivery, { state: 'dead', reason: 'refused' }),
          settlement(two as Delivery),
        ])
        const expected = [
          { destination: 'crm', fresh: 2, backlog: 1, bulk: 0, leased: 0, dead: 1, oldestMs: 100 },
          { destination: 'list', fresh: 0, backlog: 0, bulk: 1, leased: 0, dead: 0, oldestMs: 100 },
          { destination: 'mail', fresh: 0, backlog: 1, bulk: 2, leased: 0, dead: 0, oldestMs: 100 },
        ]
        const byName = (a: { destination: string }, b: { destination: string }) =>
          a.destination < b.destination ? -1 : 1
        expect((await store.stats()).sort(byName)).toEqual(expected)
        await reopen()
        expect((await store.stats()).sort(byName)).toEqual(expected)
      })

      test('what is leased counts as leased until it is settled', async () => {
        await put()
        const delivery = await claimOne()
        expect(await store.stats()).toMatchObject([{ fresh: 0, leased: 1 }])
        await store.settle([settlement(delivery, { state: 'backlog', delayMs: 1_000 })])
        expect(await store.stats()).toMatchObject([{ leased: 0, backlog: 1 }])
      })

      test('the oldest is the one that waits longest, retries included', async () => {
        await put()
        subject.advance(100)
        await put()
        subject.advance(100)
        const [oldest] = await claim('fresh', 1)
        await store.settle([settlement(oldest as Delivery, { state: 'backlog', delayMs: 60_000 })])
        expect(await store.stats()).toMatchObject([{ oldestMs: 200 }])
        subject.advance(60_000)
        await store.settle([settlement(await claimOne('backlog'))])
        expect(await store.stats()).toMatchObject([{ oldestMs: 60_100 }])
        await store.settle([settlement(await claimOne('fresh'))])
        expect(await store.stats()).toEqual([])
        await put()
        subject.advance(7)
        expect(await store.stats()).toMatchObject([{ oldestMs: 7 }])
      })
    })

    test('tells its clock', async () => {
      const { now, wall } = store.clock
      expect([now(), wall()]).toEqual([subject.now(), subject.now()])
      subject.advance(90_000)
      expect([now(), wall()]).toEqual([subject.now(), subject.now()])
      const reopened = await subject.reopen()
      expect(reopened.clock.now()).toBe(subject.now())
    })

    describe('deadCounts', () => {
      test('are those that died within a time and still are dead, whatever killed them', async () => {
        const HOUR = 3_600_000
        const die = async (destination: string) => {
          const id = await put({ destination })
          const next = { state: 'dead', reason: 'no' } as const
          await store.settle([settlement(await claimOne('fresh', destination), next)])
          return id
        }
        const counts = async (withinMs: number, most = 100) =>
          (await store.deadCounts(['crm', 'nobody', 'ads'], withinMs, most)).counts
        await put({ destination: 'ads', state: 'backlog' })
        await die('crm')
        subject.advance(20 * HOUR)
        await die('crm')
        const id = await die('crm')
        await die('ads')
        subject.advance(4 * HOUR + 1)
        await put({})
        expect(await counts(5 * HOUR)).toEqual([2, 0, 1])
        expect(await counts(4 * HOUR)).toEqual([0, 0, 0])
        expect(await counts(25 * HOUR)).toEqual([3, 0, 1])
        expect(await counts(25 * HOUR, 2)).toEqual([2, 0, 1])
        await store.sweep(24 * HOUR, 10)
        expect(await counts(5 * HOUR)).toEqual([2, 0, 2])
        await store.replay([id], false)
        expect(await counts(5 * HOUR)).toEqual([1, 0, 2])
        expect((await store.deadCounts([], HOUR, 1)).counts).toEqual([])
      })
    })

    describe('sweep', () => {
      const DAY = 86_400_000

      test('deletes what is settled and old with its log, and leaves the rest', async () => {
        const log: AttemptLog[] = [
          { url: 'https://a/', code: 'delivered', status: 200, ms: 1, error: null, response: '' },
        ]
        await put({ messageId: 'done' })
        await store.settle([settlement(await claimOne(), { state: 'done' }, { log })])
        await put({ messageId: 'skipped', state: 'skipped', reason: 'off' })
        subject.advance(DAY)
        await put({ messageId: 'recent' })
        await store.settle([settlement(await claimOne())])
        expect(await store.sweep(DAY, 10)).toBe(0)
        subject.advance(1)
        expect(await store.sweep(DAY, 10)).toBe(2)
        expect(await store.trace('done')).toEqual([])
        expect(await store.trace('skipped')).toEqual([])
        expect(await store.trace('recent')).toHaveLength(1)
        expect(await store.sweep(DAY, 10)).toBe(0)
      })

      test('a message that was deleted is new again', async () => {
        await put({ messageId: 'm' })
        await store.settle([settlement(await claimOne())])
        subject.advance(DAY + 1)
        await store.sweep(DAY, 10)
        await put({ messageId: 'm', body: '{"new":true}' })
        expect(await claimOne()).toMatchObject({ attempt: 1, body: '{"new":true}' })
        expect(await store.trace('m')).toMatchObject([{ attempts: [] }])
      })

      test.each([
        ['that arrived', false],
        ['that was replayed', true],
      ])(
        'leaves a message %s its attempts in the 4 hours after the first one',
        async (_, isReplayed) => {
          const HOUR = 3_600_000
          const id = await put({ state: 'backlog' })
          if (isReplayed) {
            const next = { state: 'dead', reason: 'refused' } as const
            await store.settle([settlement(await claimOne('backlog'), next)])
            await store.replay([id], false)
          }
          subject.advance(3 * HOUR)
          const retry = (delivery: Delivery, delayMs: number) =>
            store.settle([settlement(delivery, { state: 'backlog', delayMs })])
          await retry(await claimOne('backlog'), WINDOW_MS)
          subject.advance(WINDOW_MS)
          expect(await store.sweep(4 * HOUR, 10)).toBe(0)
          const last = await claimOne('backlog')
          expect(last).toMatchObject({ id, sinceFirstMs: WINDOW_MS })
          await retry(last, 0)
          subject.advance(RETRIED_MS - WINDOW_MS - 1)
          expect(await store.sweep(4 * HOUR, 10)).toBe(0)
          subject.advance(1)
          expect(await store.sweep(4 * HOUR, 10)).toBe(1)
          expect(await store.get(id)).toMatchObject({ state: 'dead' })
        },
      )

      test('makes dead letters of what waits and is old, and keeps those for as long again', async () => {
        await put({ messageId: 'fresh' })
        await put({ messageId: 'backlog', state: 'backlog' })
        await put({ messageId: 'bulk', state: 'bulk' })
        await put({ messageId: 'lapsed', state: 'leased' })
        subject.advance(DAY + 1)
        expect(await store.sweep(DAY, 10)).toBe(4)
        for (const messageId of ['fresh', 'backlog', 'bulk', 'lapsed']) {
          const [trace] = await store.trace(messageId)
          expect(trace).toMatchObject({ state: 'dead', dueAt: null })
          expect(trace?.reason).toMatch(/retention/)
        }
        expect(await claim('fresh')).toEqual([])
        expect(await claim('backlog')).toEqual([])
        expect(await claim('bulk')).toEqual([])
        const none = { fresh: 0, backlog: 0, bulk: 0, leased: 0 }
        expect(await store.stats()).toMatchObject([{ dead: 4, ...none }])
        expect(await store.sweep(DAY, 10)).toBe(0)
        subject.advance(DAY + 1)
        expect(await store.sweep(DAY, 10)).toBe(4)
        expect(await store.stats()).toEqual([])
      })

      test('tells for each destination how many it has made dead letters, and of nothing else', async () => {
        const told = new Map<string, number>()
        const sweep = (limit: number) =>
          store.sweep(DAY, limit, (name, count) => told.set(name, (told.get(name) ?? 0) + count))
        await put({ state: 'skipped' })
        await put({})
        await store.settle([settlement(await claimOne())])
        const replayed = await put({ destination: 'ads' })
        await store.settle([
          settlement(await claimOne('fresh', 'ads'), { state: 'dead', reason: 'no' }),
        ])
        await store.replay([replayed], false)
        for (const state of ['fresh', 'backlog', 'bulk', 'leased'] as const) await put({ state })
        await put({ destination: 'ads' })
        const name = 'ünïcode \u0000'
        await put({ destination: name })
        subject.advance(DAY + 1)
        while ((await sweep(2)) === 2);
        expect(Object.fromEntries(told)).toEqual({ crm: 4, ads: 2, [name]: 1 })
        told.clear()
        subject.advance(DAY + 1)
        while ((await sweep(2)) === 2);
        expect(Object.fromEntries(told)).toEqual({})
      })

      test('leaves what is being attempted, and has it once it is settled', async () => {
        await put({ messageId: 'leased' })
        await put({ messageId: 'waiting', state: 'backlog' })
        subject.advance(DAY + 1)
        const delivery = await claimOne()
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await store.trace('leased')).toMatchObject([{ state: 'leased' }])
        expect(await store.settle([settlement(delivery)])).toBe(0)
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await store.trace('leased')).toEqual([])
      })

      test('works in slices, the oldest first', async () => {
        for (let n = 0; n < 5; n++) {
          await put({ messageId: `${n}`, state: 'skipped' })
          subject.advance(1)
        }
        subject.advance(DAY)
        const left = async () =>
          (await Promise.all([0, 1, 2, 3, 4].map((n) => store.trace(`${n}`)))).map(
            ({ length }) => length,
          )
        expect(await store.sweep(DAY, 2)).toBe(2)
        expect(await left()).toEqual([0, 0, 1, 1, 1])
        expect(await store.sweep(DAY, 2)).toBe(2)
        expect(await store.sweep(DAY, 2)).toBe(1)
        expect(await left()).toEqual([0, 0, 0, 0, 0])
      })

      test('finds more than one slice of what has to stay before what may go', async () => {
        await store.put(Array.from({ length: 1_200 }, () => newDelivery()))
        await put({ messageId: 'last', state: 'skipped' })
        subject.advance(DAY + 1)
        const claimed = await claim('fresh', 1_200)
        expect(await store.sweep(DAY, 10)).toBe(1)
        expect(await store.trace('last')).toEqual([])
        await store.settle(claimed.map((delivery) => settlement(delivery)))
        expect(await store.sweep(DAY, 2_000)).toBe(1_200)
      })
    })

    describe('copies', () => {
      const LOG: AttemptLog = {
        url: 'https://a.example.com/',
        code: 'server_error',
        status: 500,
        ms: 12.5,
        error: 'broken \0 \ud800',
        response: 'oh no',
      }

      /** Deliveries of each state, with every column filled. */
      async function fill(): Promise<void> {
        await put({ messageId: 'done\0', user: '\x1a' })
        const arrived = await claimOne()
        await store.settle([settlement(arrived, undefined, { log: [LOG, { ...LOG, url: 'b' }] })])
        await put({ messageId: 'retried' })
        const failed = await claimOne()
        subject.advance(7)
        const refusedBy = ['https://b.example.com/']
        const later = { state: 'backlog', delayMs: 5_000 } as const
        await store.settle([settlement(failed, later, { refusedBy, log: [LOG] })])
        await put({ messageId: 'dead' })
        const lost = await claimOne()
        const dead = { state: 'dead', reason: 'rejected \ud800' } as const
        await store.settle([settlement(lost, dead, { refusedBy, log: [LOG] })])
        await put({ messageId: 'skipped', destination: '', state: 'skipped', reason: 'off' })
        await put({ messageId: 'leased', state: 'leased' })
        await put({ messageId: 'backlog', state: 'backlog' })
        await put({ messageId: 'bulk', state: 'bulk' })
        subject.advance(11)
        await put({ messageId: 'fresh', body: '{"a":"\ud83d\ude00"}' })
      }

      const STATES = ['done', 'backlog', 'dead', 'skipped', 'leased', 'backlog', 'bulk', 'fresh']

      test('say everything of each delivery, in the order in which they came', async () => {
        await fill()
        expect(await store.count()).toBe(8)
        const copies = await store.copyOut(0, 100)
        expect(copies.map(({ state }) => state)).toEqual(STATES)
        for (const copy of copies) {
          const [trace] = await store.trace(copy.messageId)
          expect({ ...copy, dueAt: null }).toMatchObject({ ...trace, dueAt: null })
        }
        expect(copies[1]).toMatchObject({
          messageId: 'retried',
          attempt: 1,
          refusedBy: ['https://b.example.com/'],
          dueAt: subject.now() - 11 + 5_000,
        })
        expect(copies[0]?.attempts).toHaveLength(2)
        const [first, second] = copies
        expect(await store.copyOut(first?.id ?? 0, 1)).toEqual([second])
        expect(await store.copiesOf(copies)).toEqual(copies)
      })

      test('of another store are added once, and go on as they would have there', async () => {
        await fill()
        const copies = (await store.copyOut(0, 100)).map((copy) => ({
          ...copy,
          destination: `${copy.destination}2`,
        }))
        const missing = copies.map(() => undefined)
        expect(await store.copiesOf(copies)).toEqual(missing)
        expect(await store.copyIn(copies)).toEqual(copies.map(() => true))
        const added = await store.copiesOf(copies)
        expect(added.map((copy) => ({ ...copy, id: 0 }))).toEqual(
          copies.map((copy) => ({ ...copy, id: 0 })),
        )
        expect(await store.copyIn(copies)).toEqual(copies.map(() => false))
        expect(await store.count()).toBe(16)

        // The store counts the copies, leases them, and settles the copy of a leased delivery.
        const [stats] = (await store.stats()).filter(({ destination }) => destination === 'crm2')
        expect(stats).toMatchObject({ fresh: 1, backlog: 2, bulk: 1, leased: 1, dead: 1 })
        const leased = added.find((copy) => copy?.state === 'leased')
        expect(leased && (await store.settle([settlement(leased)]))).toBe(0)
        subject.advance(5_000)
        const claimed = await store.claim([
          { destination: 'crm2', lane: 'fresh', limit: 10 },
          { destination: 'crm2', lane: 'backlog', limit: 10 },
          { destination: 'crm2', lane: 'bulk', limit: 10 },
        ])
        expect(claimed).toEqual([
          expect.objectContaining({ messageId: 'fresh', attempt: 1, sinceFirstMs: 0 }),
          expect.objectContaining({ messageId: 'backlog', attempt: 1, sinceFirstMs: 0 }),
          expect.objectContaining({
            messageId: 'retried',
            attempt: 2,
            sinceFirstMs: 5_018,
            refusedBy: ['https://b.example.com/'],
          }),
          expect.objectContaining({ messageId: 'bulk', attempt: 1, sinceFirstMs: 0 }),
        ])
        const again = newDelivery({ messageId: 'fresh', destination: 'crm2' })
        expect(await store.put([again, newDelivery()])).toEqual([undefined, expect.any(Number)])
        await reopen()
        expect(await store.count()).toBe(17)
      })

      test('that are old are swept, although younger messages came before them', async () => {
        const day = 86_400_000
        await put({ messageId: 'arrived', state: 'skipped' })
        await put({ messageId: 'waits' })
        const old = (await store.copyOut(0, 10)).map((copy) => ({ ...copy, destination: 'moved' }))
        subject.advance(day)
        await store.settle([settlement(await claimOne())])
        await put({ messageId: 'young', state: 'skipped' })
        await store.copyIn(old)
        subject.advance(1)
        await store.sweep(day, 10)
        await store.sweep(day, 10)
        expect(await store.trace('arrived')).toEqual([])
        expect(await store.trace('waits')).toMatchObject([{ state: 'dead' }])
        expect(await store.trace('young')).toHaveLength(1)
      })

      test('of which one can not be added are not added, none of them', async () => {
        await fill()
        const copies = (await store.copyOut(0, 100)).map((copy) => ({ ...copy, source: 'app' }))
        const broken = copies.map((copy, i) =>
          i === 5 ? { ...copy, attempt: null as never } : copy,
        )
        await expect(store.copyIn(broken)).rejects.toMatchObject({ name: 'StoreError' })
        expect(await store.count()).toBe(8)
        expect(await store.copyIn(copies)).toEqual(copies.map(() => true))
      })
    })

    describe('ping', () => {
      test('is answered by an empty store, and by one that has messages', async () => {
        await expect(store.ping()).resolves.toBeUndefined()
        await store.put([newDelivery()])
        await expect(store.ping()).resolves.toBeUndefined()
      })

      test('fails once the store is closed', async () => {
        await store.close()
        await expect(store.ping()).rejects.toMatchObject({ name: 'StoreError', code: 'failed' })
      })
    })

    describe('close', () => {
      test('ends what is under way first', async () => {
        const putting = store.put([newDelivery({ messageId: 'm' })])
        const closing = store.close()
        expect(await putting).toEqual([expect.any(Number)])
        await closing
        await reopen()
        expect(await store.trace('m')).toHaveLength(1)
      })

      test('nothing is taken after it, and a second one is the same', async () => {
        await store.close()
        await store.close()
        const error = expect.objectContaining({ name: 'StoreError', code: 'failed' }) as unknown
        await expect(store.put([newDelivery()])).rejects.toEqual(error)
        await expect(claim('fresh')).rejects.toEqual(error)
        await expect(store.stats()).rejects.toEqual(error)
      })
    })
  })
}
