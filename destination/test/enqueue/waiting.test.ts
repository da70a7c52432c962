import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Waiting } from '../../src/enqueue/waiting.js'
import type { Delivery, Stats } from '../../src/model/delivery.js'
import { destination } from '../run.js'
import { dice } from '../simulation/chance.js'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const stateOf = (name: string, fresh: number): Stats => ({
  ...{ destination: name, fresh, backlog: 0, bulk: 0, leased: 0, dead: 7, oldestMs: 0 },
})
const tenant = (name: string, waiting?: number) => ({
  ...{ name, portal: { editUrls: false } },
  ...(waiting !== undefined && { quotas: { waiting } }),
})
const owned = (name: string, of: string) => destination([], { name, tenant: of })
const settled = (name: string) => ({ destination: name }) as Delivery

/** A quota of 1: so the count is told whenever something waits. */
const SETTINGS = {
  tenants: [tenant('acme', 1), tenant('b', 1), tenant('free')],
  destinations: [owned('a1', 'acme'), owned('a2', 'acme'), owned('b1', 'b'), owned('f1', 'free')],
}

describe('the count of a tenant', () => {
  test('is that of the store, and of all that this process has done since', async () => {
    const seed = Date.now() % 1_000_000
    const { between, pick, chance } = dice(seed)
    const names = ['a1', 'a2', 'b1', 'f1', 'own']
    const stored = new Map(names.map((name) => [name, 0]))
    const countOf = (some: string[]) => some.reduce((sum, name) => sum + (stored.get(name) ?? 0), 0)
    let answers = 0
    const waiting = new Waiting(() => {
      answers++
      return Promise.resolve(Array.from(stored, ([name, count]) => stateOf(name, count)))
    })
    waiting.use(SETTINGS)
    await waiting.ask()
    waiting.start()
    /** What others have done to each tenant since the store was asked. */
    const unseen = { acme: 0, b: 0 }
    const tenantOf = (name: string) => (name.startsWith('a') ? 'acme' : 'b')
    const change = (name: string, by: number) => stored.set(name, (stored.get(name) ?? 0) + by)
    for (let i = 0; i < 2_000; i++) {
      const name = pick(names)
      const count = between(1, 5)
      const act = pick(['accept', 'accept', 'fail', 'deliver', 'foreign', 'ask', 'reload'] as const)
      if (act === 'accept') {
        waiting.add(name, count)
        change(name, count)
      } else if (act === 'fail') {
        waiting.add(name, count)
        waiting.add(name, -count)
      } else if (act === 'deliver' && (stored.get(name) ?? 0) > 0) {
        change(name, -1)
        waiting.messagesEnded([{ delivery: settled(name), next: { state: 'done' } }])
      } else if (act === 'foreign') {
        const by = chance(0.5) ? count : -Math.min(count, stored.get(name) ?? 0)
        change(name, by)
        if (name !== 'own' && name !== 'f1') unseen[tenantOf(name)] += by
      } else if (act === 'ask' && chance(0.2)) {
        await vi.advanceTimersByTimeAsync(1_000)
        Object.assign(unseen, { acme: 0, b: 0 })
      } else if (act === 'reload') waiting.use(SETTINGS)
      const told = (name: string) => waiting.overLimit(name)?.count ?? 0
      const which = `seed ${seed}, step ${i}`
      expect(told('acme'), which).toBe(Math.max(0, countOf(['a1', 'a2']) - unseen.acme))
      expect(told('b'), which).toBe(Math.max(0, countOf(['b1']) - unseen.b))
      expect(waiting.overLimit('free'), which).toBeUndefined()
    }
    expect(answers).toBeGreaterThan(10)
    waiting.stop()
    const before = answers
    await vi.advanceTimersByTimeAsync(5_000)
    expect(answers).toBe(before)
  })

  test('has what was accepted while the store answered', async () => {
    let answer: (stats: Stats[]) => void = () => undefined
    const waiting = new Waiting(() => new Promise((resolve) => (answer = resolve)))
    waiting.use(SETTINGS)
    const asked = waiting.ask()
    waiting.add('a1', 5)
    answer([stateOf('a1', 10)])
    await asked
    expect(waiting.overLimit('acme')).toEqual({ count: 15, limit: 1 })
  })

  test('stays as it is while the store gives no new answer', async () => {
    const answer = [stateOf('a1', 10)]
    let next = () => Promise.resolve(answer)
    const waiting = new Waiting(() => next())
    waiting.use(SETTINGS)
    await waiting.ask()
    waiting.add('a1', 5)
    // As PostgreSQL does with a large backlog: the same answer again.
    await waiting.ask()
    expect(waiting.overLimit('acme')?.count).toBe(15)
    next = () => Promise.reject(new Error('closed'))
    await waiting.ask()
    expect(waiting.overLimit('acme')?.count).toBe(15)
  })

  test('is the same after a change of settings, also if the store gives no new answer', async () => {
    const answer = [stateOf('a1', 10), stateOf('f1', 3)]
    const waiting = new Waiting(() => Promise.resolve(answer))
    waiting.use(SETTINGS)
    await waiting.ask()
    waiting.add('a1', 5)
    for (let i = 0; i < 3; i++) {
      waiting.use({ ...SETTINGS, tenants: [tenant('acme', 2), tenant('free', 1)] })
      await waiting.ask()
      expect(waiting.overLimit('acme')).toEqual({ count: 15, limit: 2 })
      // The quota is new.
      expect(waiting.overLimit('free')).toEqual({ count: 3, limit: 1 })
    }
  })

  test('goes to another tenant with the destination', async () => {
    const waiting = new Waiting(() => Promise.resolve([stateOf('a1', 10), stateOf('a2', 1)]))
    waiting.use(SETTINGS)
    await waiting.ask()
    waiting.use({ ...SETTINGS, destinations: [owned('a1', 'b'), owned('a2', 'acme')] })
    expect(waiting.overLimit('acme')?.count).toBe(1)
    expect(waiting.overLimit('b')?.count).toBe(10)
  })

  test('of a new quota is not doubled by an answer that is on its way', async () => {
    const answers: ((stats: Stats[]) => void)[] = []
    const waiting = new Waiting(() => new Promise((resolve) => answers.push(resolve)))
    waiting.use({ ...SETTINGS, tenants: [tenant('b', 1)] })
    const first = waiting.ask()
    answers[0]?.([stateOf('a1', 10)])
    await first
    const second = waiting.ask()
    waiting.use(SETTINGS)
    waiting.add('a1', 2)
    expect(waiting.overLimit('acme')?.count).toBe(12)
    answers[1]?.([stateOf('a1', 11)])
    await second
    expect(waiting.overLimit('acme')?.count).toBe(13)
  })

  test('has no answer from before a time without quotas', async () => {
    let answer = [stateOf('a1', 10)]
    const waiting = new Waiting(() => Promise.resolve(answer))
    waiting.use(SETTINGS)
    await waiting.ask()
    waiting.use({ ...SETTINGS, tenants: [] })
    await waiting.ask()
    answer = [stateOf('a1', 0)]
    waiting.use(SETTINGS)
    expect(waiting.overLimit('acme')).toBeUndefined()
    await waiting.ask()
    expect(waiting.overLimit('acme')).toBeUndefined()
  })

  test('costs the store nothing without the quota', async () => {
    const stats = vi.fn(() => Promise.resolve([]))
    const waiting = new Waiting(stats)
    waiting.use({ tenants: [tenant('free')], destinations: SETTINGS.destinations })
    await waiting.ask()
    waiting.start()
    await vi.advanceTimersByTimeAsync(3_000)
    expect(stats).not.toHaveBeenCalled()
    waiting.stop()
  })
})
