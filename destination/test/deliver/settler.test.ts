import { expect, test } from 'vitest'
import { Settler } from '../../src/deliver/settler.js'
import type { Delivery, Settlement } from '../../src/model/delivery.js'

const settlement = (id: number, next: Settlement['next'] = { state: 'done' }): Settlement => ({
  ...{ id, attempt: 1, next, refusedBy: [], log: [] },
  delivery: { id } as Delivery,
})

/** A store that answers when the test tells it to. */
function setUp() {
  const rounds: { ids: number[]; answer: (refused: number | Error) => void }[] = []
  const told: string[] = []
  let take: (settlements: readonly Settlement[]) => void = () => undefined
  const store = {
    onSettled: (listener: typeof take) => {
      take = listener
    },
    settle: (settlements: Settlement[]) =>
      new Promise<number>((resolve, reject) => {
        const answer = (refused: number | Error) => {
          if (typeof refused === 'number') resolve(refused)
          else reject(refused)
        }
        rounds.push({ ids: settlements.map(({ id }) => id), answer })
      }),
  }
  const settler = new Settler(store, {
    settleFailed: (error) => told.push(String(error)),
    settleRecovered: () => told.push('recovered'),
    settlementsRefused: (count) => told.push(`refused ${count}`),
    messagesEnded: (messages) =>
      told.push(messages.map(({ delivery, next }) => `${delivery.id} ${next.state}`).join()),
  })
  const round = async (n: number) => {
    await expect.poll(() => rounds.length).toBe(n + 1)
    return rounds[n] ?? expect.fail()
  }
  return {
    settler,
    told,
    round,
    take: (given: Settlement[]) => {
      take(given)
    },
  }
}

test('those of one turn are settled together, those of the meantime after them', async () => {
  const { settler, round } = setUp()
  settler.add(settlement(1))
  settler.add(settlement(2))
  const first = await round(0)
  expect(first.ids).toEqual([1, 2])
  settler.add(settlement(3))
  settler.add(settlement(4))
  first.answer(0)
  const second = await round(1)
  expect(second.ids).toEqual([3, 4])
  second.answer(0)
  await settler.drain()
})

test('what the store could not take is given again, before what came later', async () => {
  const { settler, told, round } = setUp()
  settler.add(settlement(1))
  const first = await round(0)
  settler.add(settlement(2))
  first.answer(new Error('disk full'))
  const second = await round(1)
  expect(settler.isFailing).toBe(true)
  expect(second.ids).toEqual([1, 2])
  second.answer(new Error('disk full'))
  const third = await round(2)
  third.answer(0)
  await settler.drain()
  expect(settler.isFailing).toBe(false)
  expect(told).toEqual(['Error: disk full', 'recovered'])
})

test('late ones are told of', async () => {
  const { settler, told, round } = setUp()
  settler.add(settlement(1))
  const first = await round(0)
  first.answer(1)
  await settler.drain()
  expect(told).toEqual(['refused 1'])
})

test('what has become of messages is told once the store has taken it, and only of those that have ended', async () => {
  const { settler, told, round, take } = setUp()
  const dead = settlement(2, { state: 'dead', reason: 'no' })
  const all = [settlement(1), dead, settlement(3, { state: 'backlog', delayMs: 5_000 })]
  const givenBack: Settlement = { ...settlement(4, { state: 'fresh', delayMs: 0 }), isUnsent: true }
  for (const one of [...all, givenBack]) settler.add(one)
  const first = await round(0)
  first.answer(new Error('disk full'))
  const second = await round(1)
  expect(told).toEqual(['Error: disk full'])
  take([...all, givenBack])
  second.answer(0)
  await settler.drain()
  expect(told).toEqual(['Error: disk full', '1 done,2 dead', 'recovered'])
})

test('without anything to settle it is drained', async () => {
  await expect(setUp().settler.drain()).resolves.toBeUndefined()
})
