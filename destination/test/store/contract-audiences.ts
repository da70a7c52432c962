import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { MemberMessage, Store, Sync } from '../../src/store/store.js'
import { newDelivery, settlement, type Subject } from './contract.js'
import { rounds } from '../rounds.js'

const message = (destination = 'crm', text = 'true'): MemberMessage => ({
  source: 'audience:vip',
  destination,
  before: '{"userId":',
  after: `,"vip":${text}}`,
})

const CRM = [{ name: 'crm', enabled: true }]

/** The tests that every store passes for audiences, and for purging a user. */
export function audiencesContract(name: string, make: () => Promise<Subject>): void {
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

    const claimAll = async (destination = 'crm') =>
      await store.claim([
        { destination, lane: 'fresh', limit: 10_000 },
        { destination, lane: 'backlog', limit: 10_000 },
        { destination, lane: 'bulk', limit: 10_000 },
      ])

    /** The waiting messages of a destination, in the order in which they were put. */
    const inOrder = async (destination: string) =>
      (await claimAll(destination)).sort((a, b) => a.id - b.id)

    const bodies = async (destination = 'crm') =>
      (await claimAll(destination)).map(({ body }) => body)

    const leaveAll = async (sync: Sync, limit = 1_000): Promise<number> => {
      let all = 0
      for (let from: string | undefined = ''; from !== undefined;) {
        const { left, next }: Awaited<ReturnType<Store['leave']>> = await store.leave(
          sync,
          from,
          limit,
          [message('crm', 'false')],
        )
        all += left
        from = next
      }
      return all
    }

    /** Applies a whole list to the audience. */
    const list = async (members: string[]): Promise<[joined: number, left: number]> => {
      const sync = await store.beginSync('vip', CRM)
      const joined = await store.join(sync, members, [message()])
      return [joined, await leaveAll(sync)]
    }

    /** Applies a list, and tells destinations what they missed, with `limit` changes at once. */
    const sync = async (
      members: string[],
      destinations: Record<string, boolean>,
      limit = 1_000,
      pages = Infinity,
    ): Promise<number> => {
      const all = Object.entries(destinations).map(([name, enabled]) => ({ name, enabled }))
      const enabled = all.filter((one) => one.enabled)
      const arrivals = enabled.map(({ name }) => message(name))
      const departures = enabled.map(({ name }) => message(name, 'false'))
      let left = pages
      const begun = await store.beginSync('vip', all)
      for (let i = 0; i < members.length && left-- > 0; i += limit) {
        await store.join(begun, members.slice(i, i + limit), arrivals)
      }
      for (let from: string | undefined = ''; from !== undefined && left-- > 0;) {
        from = (await store.leave(begun, from, limit, departures)).next
      }
      let caughtUp = 0
      for (let isDone = false; !isDone && left-- > 0;) {
        const page = await store.catchUp(begun, limit, arrivals, departures)
        expect(page.caughtUp).toBeLessThanOrEqual(limit)
        caughtUp += page.caughtUp
        isDone = page.isDone
      }
      return caughtUp
    }

    /** What a destination is told next, such as `a true`, sorted. */
    const news = async (destination = 'crm') =>
      (await bodies(destination))
        .map((body) => JSON.parse(body) as { userId: string; vip: boolean })
        .map(({ userId, vip }) => `${userId} ${vip}`)
        .sort()

    const purge = async (user: string): Promise<number> => {
      let all = 0
      for (let from: number | undefined = 0; from !== undefined;) {
        const { purged, next }: Awaited<ReturnType<Store['purgeUser']>> = await store.purgeUser(
          user,
          from,
        )
        all += purged
        from = next
      }
      return all
    }

    describe('an audience', () => {
      test('tells of everyone at first, and then of who joined or left', async () => {
        expect(await list(['a', 'b', 'c'])).toEqual([3, 0])
        expect((await bodies()).sort()).toEqual([
          '{"userId":"a","vip":true}',
          '{"userId":"b","vip":true}',
          '{"userId":"c","vip":true}',
        ])
        expect(await list(['b', 'c', 'd'])).toEqual([1, 1])
        expect((await bodies()).sort()).toEqual([
          '{"userId":"a","vip":false}',
          '{"userId":"d","vip":true}',
        ])
        expect(await list(['d', 'c', 'b'])).toEqual([0, 0])
        expect(await bodies()).toEqual([])
      })

      test('is as it was after the store was opened again', async () => {
        await list(['a', 'b'])
        store = await subject.reopen()
        expect(await list(['a'])).toEqual([0, 1])
      })

      test('has each user once, however often the list has them', async () => {
        expect(await list(['a', 'a', 'b', 'a'])).toEqual([2, 0])
        expect(await bodies()).toHaveLength(2)
      })

      test('may be emptied, and filled again', async () => {
        await list(['a'])
        expect(await list([])).toEqual([0, 1])
        expect(await list(['a'])).toEqual([1, 0])
        expect(await bodies()).toHaveLength(3)
      })

      test('is told of to each destination, as messages of their own', async () => {
        const mail = { name: 'mail', enabled: true }
        const sync = await store.beginSync('vip', [...CRM, mail])
        await store.join(sync, ['a'], [message('crm'), message('mail')])
        const [crm] = await claimAll('crm')
        const [other] = await claimAll('mail')
        expect(crm).toMatchObject({ source: 'audience:vip', type: 'identify', lane: 'bulk' })
        expect(other?.body).toBe(crm?.body)
        expect(await store.trace(crm?.messageId ?? '')).toMatchObject([{ user: 'a' }])
      })

      test('without a destination is known all the same', async () => {
        const sync = await store.beginSync('vip', [])
        expect(await store.join(sync, ['a'], [])).toBe(1)
        expect(await list(['a'])).toEqual([0, 0])
      })

      test('that broke off goes on where it was: nobody is told twice, nobody forgotten', async () => {
        await list(['a', 'b', 'x', 'y'])
        await store.settle((await claimAll()).map((delivery) => settlement(delivery)))
        const sync = await store.beginSync('vip', CRM)
        await store.join(sync, ['a', 'c'], [message()])
        store = await subject.reopen()
        expect(await list(['a', 'b', 'c', 'd'])).toEqual([1, 2])
        expect((await bodies()).sort()).toEqual([
          '{"userId":"c","vip":true}',
          '{"userId":"d","vip":true}',
          '{"userId":"x","vip":false}',
          '{"userId":"y","vip":false}',
        ])
      })

      test('counts the newest list: an older one changes nothing any more', async () => {
        await list(['a'])
        const old = await store.beginSync('vip', CRM)
        const other = await store.beginSync('other', [])
        expect(await list(['a', 'b'])).toEqual([1, 0])
        const superseded = expect.objectContaining({ code: 'superseded' }) as Error
        await expect(store.join(old, ['c'], [message()])).rejects.toThrow(superseded)
        await expect(store.leave(old, '', 10, [message()])).rejects.toThrow(superseded)
        expect(await store.join(other, ['a'], [])).toBe(1)
        expect(await list(['a', 'b'])).toEqual([0, 0])
      })

      test('lets everyone go in slices of any size', async () => {
        const members = Array.from({ length: 25 }, (_, i) => `user ${i}`)
        await list(members)
        const sync = await store.beginSync('vip', CRM)
        await store.join(sync, members.slice(0, 5), [])
        expect(await leaveAll(sync, 7)).toBe(20)
        expect(await list(members.slice(0, 5))).toEqual([0, 0])
      })

      test('is told of to a destination that missed a list, once it is enabled again', async () => {
        await sync(['a', 'b', 'c'], { crm: true, mail: true })
        await sync(['b', 'd'], { crm: true, mail: false })
        expect(await news('mail')).toEqual(['a true', 'b true', 'c true'])
        expect(await sync(['b', 'd', 'e'], { crm: true, mail: true })).toBe(3)
        expect(await news('mail')).toEqual(['a false', 'c false', 'd true', 'e true'])
        expect(await sync(['b', 'd', 'e'], { crm: true, mail: true })).toBe(0)
        expect(await news('mail')).toEqual([])
        expect(await news('crm')).toHaveLength(3 + 3 + 1)
      })

      test('tells nothing of a user who left and joined again while the destination was off', async () => {
        await sync(['a', 'b'], { crm: true })
        await news()
        await sync(['b'], { crm: false })
        await sync(['b', 'a', 'x'], { crm: false })
        await sync(['b', 'a'], { crm: true })
        expect(await news()).toEqual([])
        await sync(['b'], { crm: false })
        await sync(['b', 'a'], { crm: true })
        expect(await news()).toEqual([])
      })

      test('is told of to a new destination as everyone who is in it then', async () => {
        await sync(['a', 'b', 'c'], { crm: true, mail: false })
        expect(await sync(['b', 'c', 'd'], { crm: true, mail: true }, 2)).toBe(3)
        expect(await news('mail')).toEqual(['b true', 'c true', 'd true'])
        await sync(['c'], { crm: true, mail: true }, 2)
        expect(await news('mail')).toEqual(['b false', 'd false'])
      })

      test.each([
        ['\uffee', '🎉'], // in this order as UTF-8, and in the other order as UTF-16
        ['a', 'b'],
      ])('tells a new destination of %j or %j, breaks off, and goes on there', async (a, b) => {
        await sync([a, b], { crm: true })
        expect(await sync([a, b], { crm: true, mail: true }, 1, 2 + 3 + 1)).toBe(1)
        const [first = ''] = await news('mail')
        expect([`${a} true`, `${b} true`]).toContain(first)
        await sync([], { crm: true, mail: true })
        expect(await news('mail')).toEqual([first.replace('true', 'false')])
      })

      test('is forgotten for a destination that the settings no longer have', async () => {
        await sync(['a', 'b', 'c'], { crm: true, mail: true })
        await sync(['c'], { crm: true, mail: false })
        await news('mail')
        await sync(['c'], { crm: true }, 1)
        expect(await store.hasUser('a')).toBe(true) // the messages about the user
        await purge('a')
        expect(await sync(['c'], { crm: true, mail: true })).toBe(1)
        expect(await news('mail')).toEqual(['c true'])
      })

      test('is told of to a destination that was forgotten as to a new one, from the next list on', async () => {
        await sync(['a', 'b'], { crm: true, mail: true })
        await sync(['a'], { crm: true, mail: false })
        await news('mail')
        await store.forgetDestinations(['mail', 'never'])
        expect(await sync(['a', 'c'], { crm: true, mail: true })).toBe(2)
        expect(await news('mail')).toEqual(['a true', 'c true'])

        const begun = await store.beginSync('vip', [...CRM, { name: 'mail', enabled: true }])
        const messages = [message('crm'), message('mail')]
        await store.join(begun, ['a', 'c', 'd'], messages)
        await store.forgetDestinations(['mail'])
        await store.join(begun, ['e'], messages)
        expect(await news('mail')).toEqual(['d true'])
        expect(await sync(['d', 'e'], { crm: true, mail: true }, 1)).toBe(2)
        expect(await news('mail')).toEqual(['d true', 'e true'])
        const all = ['a true', 'b true', 'b false', 'c true', 'd true', 'e true']
        expect(await news('crm')).toEqual([...all, 'a false', 'c false'].sort())
      })

      test('forgets a user who is purged, also for a destination that missed it', async () => {
        await sync(['a'], { crm: true })
        await store.settle((await claimAll()).map((delivery) => settlement(delivery)))
        await store.sweep(-1, 1_000)
        await sync([], { crm: false })
        expect(await store.hasUser('a')).toBe(true)
        await purge('a')
        expect(await store.hasUser('a')).toBe(false)
        expect(await sync([], { crm: true })).toBe(0)
      })

      test('is known to each enabled destination after a whole list, and nothing is told twice', async () => {
        const users = ['a', 'b', 'c', 'ü', '🎉', '\ud800', '\uffee']
        const destinations = ['crm', 'mail']
        const step = fc.record({
          members: fc.subarray(users),
          states: fc.tuple(
            fc.constantFrom(true, true, false, undefined),
            fc.constantFrom(true, true, false, undefined),
          ),
          limit: fc.integer({ min: 1, max: 4 }),
          pages: fc.oneof(fc.constant(Infinity), fc.nat(8)),
        })
        let round = 0
        await fc.assert(
          fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
            round++
            const inRound = (name: string) => `${name}-${round}`
            const told = new Map<string, Map<string, boolean>>()
            // Each round begins without members, and with destinations of its own.
            await sync([], {})
            for (const { members, states, limit, pages } of steps) {
              const settings = destinations.flatMap((name, i) =>
                states[i] === undefined ? [] : [[inRound(name), states[i]] as const],
              )
              await sync(members, Object.fromEntries(settings), limit, pages)
              for (const name of destinations.map(inRound)) {
                const state = settings.find(([one]) => one === name)?.[1]
                if (state === undefined) told.delete(name)
                const known = told.get(name) ?? new Map<string, boolean>()
                if (state !== undefined) told.set(name, known)
                for (const { body } of await inOrder(name)) {
                  const { userId, vip } = JSON.parse(body) as { userId: string; vip: boolean }
                  expect(known.get(userId) ?? false, `${name}: ${userId}`).toBe(!vip)
                  known.set(userId, vip)
                }
                if (state !== true || pages !== Infinity) continue
                const now = users.filter((user) => known.get(user))
                expect(now.sort(), name).toEqual([...members].sort())
              }
            }
          }),
          { numRuns: rounds(15) },
        )
      }, 60_000)

      test('keeps ids as they are, whatever they are made of', async () => {
        const odd = ['"quoted"', 'a\0b', '\ud800', '\x1a0000', 'ü', 'ΩΩ', ' ', "'; DROP TABLE x"]
        expect(await list(odd)).toEqual([odd.length, 0])
        const users = (await bodies()).map(
          (body) => (JSON.parse(body) as { userId: string }).userId,
        )
        expect(users.sort()).toEqual([...odd].sort())
        expect(await list(odd)).toEqual([0, 0])
        expect(await list([])).toEqual([0, odd.length])
      })
    })

    describe('a user', () => {
      test('is purged: messages in every state, their attempts, and memberships', async () => {
        const messages = ['fresh', 'backlog', 'bulk', 'leased', 'skipped'] as const
        await store.put(messages.map((state) => newDelivery({ state, messageId: state })))
        await store.put([newDelivery({ messageId: 'dead', destination: 'mail' })])
        const [dead] = await claimAll('mail')
        if (!dead) throw new Error('nothing was claimed')
        const log = [
          {
            url: 'u',
            code: 'client_error',
            status: 400,
            ms: 1,
            error: 'no',
            response: '',
          } as const,
        ]
        await store.settle([settlement(dead, { state: 'dead', reason: 'no' }, { log })])
        await list(['ann', 'ben'])
        expect(await store.hasUser('ann')).toBe(true)
        // Six messages, a membership, and the message about the membership.
        expect(await purge('ann')).toBe(8)
        expect(await store.hasUser('ann')).toBe(false)
        for (const messageId of [...messages, 'dead']) {
          expect(await store.trace(messageId), messageId).toEqual([])
        }
        expect(await bodies()).toEqual(['{"userId":"ben","vip":true}'])
        expect(await store.stats()).toMatchObject([{ destination: 'crm', leased: 1, dead: 0 }])
        expect(await list(['ann', 'ben'])).toEqual([1, 0])
      })

      test('that is purged leaves the others alone, and deletions', async () => {
        await store.put([
          newDelivery({ user: 'ben', messageId: 'ben' }),
          newDelivery({ user: 'ann', messageId: 'delete', type: 'delete' }),
          newDelivery({ user: 'an', messageId: 'an' }),
        ])
        expect(await store.hasUser('ann')).toBe(false)
        expect(await purge('ann')).toBe(0)
        expect(await claimAll()).toHaveLength(3)
      })

      test('of whom nothing is stored is purged of nothing', async () => {
        expect(await store.hasUser('nobody')).toBe(false)
        expect(await purge('nobody')).toBe(0)
      })

      test('may be purged while a message is attempted: what comes of it is refused', async () => {
        await store.put([newDelivery()])
        const [delivery] = await claimAll()
        await purge('ann')
        expect(await store.settle(delivery ? [settlement(delivery)] : [])).toBe(1)
        expect(await store.stats()).toEqual([])
      })

      test('is purged with word of what was leased, and of nothing else', async () => {
        const removed: number[] = []
        store.onRemoved((ids) => removed.push(...ids))
        await store.put([newDelivery(), newDelivery({ user: 'ben', messageId: 'ben' })])
        const claimed = (await claimAll()).find(({ messageId }) => messageId !== 'ben')
        const leased = await store.put([
          newDelivery({ state: 'leased' }),
          newDelivery({ user: 'ben', state: 'leased' }),
        ])
        await store.put([newDelivery(), newDelivery({ state: 'skipped', reason: 'no' })])
        await purge('ann')
        expect(removed.sort((a, b) => a - b)).toEqual([claimed?.id, leased[0]])
        const all = [claimed?.id, ...leased].flatMap((id) => id ?? [])
        const gone = await store.shared?.gone(all)
        expect(gone?.sort((a, b) => a - b) ?? removed).toEqual(removed)
      })

      test('of whom there is much is purged in slices, and all of it', async () => {
        const many = Array.from({ length: 5_000 }, (_, i) =>
          newDelivery({ user: i % 2 === 0 ? 'ann' : 'ben' }),
        )
        await store.put(many)
        const { purged, next } = await store.purgeUser('ann', 0)
        expect(purged).toBeLessThan(2_500)
        expect(next).toBeDefined()
        expect(purged + (await purge('ann'))).toBe(2_500)
        expect(await store.stats()).toMatchObject([{ fresh: 2_500 }])
      })
    })
  })
}
