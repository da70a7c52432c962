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
