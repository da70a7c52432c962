import { describe, expect, test } from 'vitest'
import { Gate, type Health } from '../../src/deliver/breaker.js'

/** A gate with a clock at hand, without jitter. */
function setUp(cap = 64) {
  const gate = new Gate(cap, () => 0)
  let now = 0
  return {
    gate,
    room: () => gate.room(now),
    wait: (ms: number) => {
      now += ms
    },
    /** One request after the other. */
    send: (health: Health, times = 1, retryAfterMs = 0) => {
      for (let i = 0; i < times; i++) gate.leave(gate.enter(), health, retryAfterMs, now)
    },
    /** Starts a request that is under way until the answer is given. */
    start: () => {
      const pass = gate.enter()
      return (health: Health) => {
        gate.leave(pass, health, 0, now)
      }
    },
  }
}

describe('a closed gate', () => {
  test('lets as many through at once as the endpoint takes', () => {
    const { room, start } = setUp(3)
    const answers = [start(), start()]
    expect(room()).toBe(1)
    answers.push(start())
    expect(room()).toBe(0)
    for (const answer of answers) answer('well')
    expect(room()).toBe(3)
  })

  test('stays so through failures that successes interrupt', () => {
    const { gate, send } = setUp()
    for (let i = 0; i < 20; i++) {
      send('ill', 4)
      send('well')
    }
    expect(gate.state).toBe('closed')
  })

  test('opens after five failures in a row, whatever its cap', () => {
    for (const cap of [1, 64]) {
      const { gate, send, room } = setUp(cap)
      send('ill', 4)
      expect(gate.state).toBe('closed')
      send('ill')
      expect(gate.state).toBe('open')
      expect(room()).toBe(0)
    }
  })

  test('opens at once when the endpoint asks for it, for as long as it asks', () => {
    const { gate, send, wait, room } = setUp()
    send('throttled', 1, 20_000)
    expect(gate.state).toBe('open')
    wait(19_999)
    expect(room()).toBe(0)
    wait(1)
    expect(room()).toBe(1)
  })

  test('an endpoint that asks for a day is asked again after five minutes', () => {
    const { send, wait, room } = setUp()
    send('ill', 1, 24 * 3_600_000)
    wait(300_000)
    expect(room()).toBe(1)
  })
})

describe('an open gate', () => {
  test('lets one probe through after a second, and no other while it is under way', () => {
    const { gate, send, wait, room, start } = setUp()
    send('ill', 5)
    wait(999)
    expect(room()).toBe(0)
    wait(1)
    expect(room()).toBe(1)
    start()
    expect(gate.state).toBe('probe')
    expect(room()).toBe(0)
  })

  test('waits twice as long after each probe that fails, up to 30 s', () => {
    const { send, wait, room } = setUp()
    send('ill', 5)
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      wait(seconds * 1_000 - 1)
      expect(room()).toBe(0)
      wait(1)
      expect(room()).toBe(1)
      send('ill')
    }
  })

  test('adds up to a fifth to its wait', () => {
    const gate = new Gate(8, () => 1)
    for (let i = 0; i < 5; i++) gate.leave(gate.enter(), 'ill', 0, 0)
    expect(gate.room(1_199)).toBe(0)
    expect(gate.room(1_200)).toBe(1)
  })

  test('heeds no answer to what was sent before it opened', () => {
    const { gate, send, start } = setUp()
    const late = [start(), start()]
    send('ill', 5)
    for (const answer of late) answer('well')
    expect(gate.state).toBe('open')
    expect(gate.inFlight).toBe(0)
  })

  test('a late failure does not end the probe of a gate that is past it', () => {
    const { gate, send, wait, start } = setUp()
    const late = start()
    send('ill', 5)
    wait(1_000)
    send('well')
    late('ill')
    expect(gate.state).toBe('ramp')
  })
})

describe('after a probe that succeeds', () => {
  test('the room doubles with each round of successes until it is the cap', () => {
    const { gate, send, wait, room } = setUp(16)
    send('ill', 5)
    wait(1_000)
    send('well')
    for (const limit of [2, 4, 8]) {
      expect(gate.state).toBe('ramp')
      expect(room()).toBe(limit)
      send('well', limit)
    }
    expect(gate.state).toBe('closed')
    expect(room()).toBe(16)
  })

  test('an endpoint that takes one at a time is well at once', () => {
    const { gate, send, wait } = setUp(1)
    send('ill', 5)
    wait(1_000)
    send('well')
    expect(gate.state).toBe('closed')
  })

  test('failures in a row open it again, and the wait goes on from where it was', () => {
    const { gate, send, wait, room } = setUp(16)
    send('ill', 5)
    wait(1_000)
    send('well')
    send('ill')
    expect(gate.state).toBe('ramp')
    send('ill')
    expect(gate.state).toBe('open')
    wait(1_999)
    expect(room()).toBe(0)
    wait(1)
    expect(room()).toBe(1)
  })

  test('once closed, the next wait is a second again', () => {
    const { send, wait, room } = setUp(2)
    send('ill', 5)
    wait(1_000)
    send('ill')
    wait(2_000)
    send('well')
    send('ill', 5)
    wait(1_000)
    expect(room()).toBe(1)
  })
})

describe('a gate among those of other workers', () => {
  test('has its part of the cap, and 1 at least', () => {
    const { gate, room } = setUp(10)
    for (const [workers, share] of [
      [3, 3],
      [1, 10],
      [11, 1],
    ] as const) {
      gate.share(workers)
      expect(room()).toBe(share)
    }
  })

  test('ramps up to its part of the cap', () => {
    const { gate, send, wait, room } = setUp(10)
    gate.share(2)
    send('ill', 5)
    wait(1_000)
    gate.grant(Infinity)
    send('well')
    expect([gate.state, room()]).toEqual(['ramp', 2])
    send('well', 2)
    send('well', 4)
    expect([gate.state, room()]).toEqual(['closed', 5])
  })

  test('sends one probe for each leave, and none without or after it', () => {
    const { gate, send, wait, room } = setUp()
    gate.share(2)
    send('ill', 5)
    expect(gate.isToAsk(999)).toBe(false)
    wait(1_000)
    expect([gate.isToAsk(1_000), room()]).toEqual([true, 0])
    gate.grant(2_000)
    expect([gate.isToAsk(1_999), room()]).toEqual([false, 1])
    wait(1_000)
    expect([gate.isToAsk(2_000), room()]).toEqual([true, 0])
    gate.grant(3_000)
    send('ill')
    wait(60_000)
    expect([gate.isToAsk(62_000), room()]).toEqual([true, 0])
  })
})
