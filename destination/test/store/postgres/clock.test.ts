import { afterEach, expect, test, vi } from 'vitest'
import { ServerClock } from '../../../src/store/postgres/clock.js'
import { dice } from '../../simulation/chance.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))

afterEach(() => vi.restoreAllMocks())

/** A server whose clock is ahead of this process by so much, and queries that take as long as they take. */
function world() {
  let time = 5_000
  vi.spyOn(performance, 'now').mockImplementation(() => time)
  const clock = new ServerClock()
  const server = { aheadMs: 1_700_000_000_000, now: () => time + server.aheadMs }
  const ask = (thereMs: number, backMs: number) => {
    const askedAt = time
    time += thereMs
    const at = server.now()
    time += backMs
    clock.note(at, askedAt)
  }
  const pass = (ms: number) => (time += ms)
  return { clock, server, ask, pass }
}

test('the clock of the server is known from its answers, and goes on between them', () => {
  const { clock, server, ask, pass } = world()
  ask(2, 2)
  expect(clock.now()).toBe(server.now())
  pass(60_000)
  expect(clock.now()).toBe(server.now())
  expect(clock.wall()).toBe(clock.now())
})

test('slow answers make it no worse, and a clock of the server that was set is followed', () => {
  const { clock, server, ask } = world()
  ask(1, 1)
  ask(0, 3_000)
  ask(3_000, 0)
  expect(clock.now()).toBe(server.now())
  server.aheadMs -= 7_200_000
  ask(1, 1)
  expect(Math.abs(clock.now() - server.now())).toBeLessThanOrEqual(2)
})

test(`it is never further off than the fastest answer took: SEED=${seed}`, () => {
  const { chance, pick } = dice(seed)
  for (let round = 0; round < 200; round++) {
    const { clock, server, ask, pass } = world()
    let fastest = Infinity
    for (let step = 0; step < 20; step++) {
      const [there, back] = [pick([0, 1, 5, 400, 9_000]), pick([0, 1, 5, 400, 9_000])]
      ask(there, back)
      fastest = Math.min(fastest, there + back)
      expect(Math.abs(clock.now() - server.now()), `SEED=${seed}`).toBeLessThanOrEqual(fastest)
      if (chance(0.5)) pass(pick([1, 500, 86_400_000]))
    }
  }
})
