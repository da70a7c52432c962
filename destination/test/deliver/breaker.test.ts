import { describe, expect, test } from 'vitest'
import { Breaker, type Signal } from '../../src/deliver/breaker.js'

/** What an endpoint does with a message. `same failure`: a message that failed before fails again. */
type Reaction = 'success' | 'failure' | 'same failure'

function signal(reaction: Reaction, retryAfterMs = 0): Signal {
  return {
    isHealthy: reaction === 'success',
    retryAfterMs,
    wasTried: reaction === 'same failure',
  }
}

/** A breaker without jitter whose clock the test sets. */
function setUp(cap = 64) {
  const breaker = new Breaker(cap, () => 0)
  let now = 0
  return {
    breaker,
    room: () => breaker.room(now),
    wait: (ms: number) => {
      now += ms
    },
    /** Makes requests one after the other. */
    send: (reaction: Reaction, times = 1, retryAfterMs = 0) => {
      for (let i = 0; i < times; i++) {
        breaker.end(breaker.start(), signal(reaction, retryAfterMs), now)
      }
    },
    /** Starts a request. The test ends it by calling the returned function. */
    start: () => {
      const period = breaker.start()
      return (reaction: Reaction) => {
        breaker.end(period, signal(reaction), now)
      }
    },
  }
}

describe('a closed breaker', () => {
  test('lets as many through at once as the endpoint takes', () => {
    const { room, start } = setUp(3)
    const answers = [start(), start()]
    expect(room()).toBe(1)
    answers.push(start())
    expect(room()).toBe(0)
    for (const answer of answers) answer('success')
    expect(room()).toBe(3)
  })

  test('stays so through failures that successes interrupt', () => {
    const { breaker, send } = setUp()
    for (let i = 0; i < 20; i++) {
      send('failure', 4)
      send('success')
    }
    expect(breaker.state).toBe('closed')
  })

  test('opens after five failures in a row, whatever its cap', () => {
    for (const cap of [1, 64]) {
      const { breaker, send, room } = setUp(cap)
      send('failure', 4)
      expect(breaker.state).toBe('closed')
      send('failure')
      expect(breaker.state).toBe('open')
      expect(room()).toBe(0)
    }
  })

  test('opens at once when the endpoint asks for it, for as long as it asks', () => {
    const { breaker, send, wait, room } = setUp()
    send('failure', 1, 20_000)
    expect(breaker.state).toBe('open')
    wait(19_999)
    expect(room()).toBe(0)
    wait(1)
    expect(room()).toBe(1)
  })
})

describe('an open breaker', () => {
  test('lets one probe through after a second, and no other while it is under way', () => {
    const { breaker, send, wait, room, start } = setUp()
    send('failure', 5)
    wait(999)
    expect(room()).toBe(0)
    wait(1)
    expect(room()).toBe(1)
    start()
    expect(breaker.state).toBe('open')
    expect(room()).toBe(0)
  })

  test('waits twice as long after each probe that fails, up to 30 s', () => {
    const { send, wait, room } = setUp()
    send('failure', 5)
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      wait(seconds * 1_000 - 1)
      expect(room()).toBe(0)
      wait(1)
      expect(room()).toBe(1)
      send('failure')
    }
  })

  test('adds up to a fifth to its wait', () => {
    const breaker = new Breaker(8, () => 1)
    for (let i = 0; i < 5; i++) breaker.end(breaker.start(), signal('failure'), 0)
    expect(breaker.room(1_199)).toBe(0)
    expect(breaker.room(1_200)).toBe(1)
  })

  test('heeds no answer to what was sent before it opened', () => {
    const { breaker, send, start } = setUp()
    const late = [start(), start()]
    send('failure', 5)
    for (const answer of late) answer('success')
    expect(breaker.state).toBe('open')
    expect(breaker.inFlight).toBe(0)
  })

  test('a late failure does not end the probe of a breaker that is past it', () => {
    const { breaker, send, wait, start } = setUp()
    const late = start()
    send('failure', 5)
    wait(1_000)
    send('success')
    late('failure')
    expect(breaker.state).toBe('half-open')
  })
})

describe('after a probe that succeeds', () => {
  test('the room doubles with each round of successes until it is the cap', () => {
    const { breaker, send, wait, room } = setUp(16)
    send('failure', 5)
    wait(1_000)
    send('success')
    for (const limit of [2, 4, 8]) {
      expect(breaker.state).toBe('half-open')
      expect(room()).toBe(limit)
      send('success', limit)
    }
    expect(breaker.state).toBe('closed')
    expect(room()).toBe(16)
  })

  test('an endpoint that takes one request at a time is healthy at once', () => {
    const { breaker, send, wait } = setUp(1)
    send('failure', 5)
    wait(1_000)
    send('success')
    expect(breaker.state).toBe('closed')
  })

  test('failures in a row open it again, and the wait goes on from where it was', () => {
    const { breaker, send, wait, room } = setUp(16)
    send('failure', 5)
    wait(1_000)
    send('success')
    send('failure')
    expect(breaker.state).toBe('half-open')
    send('failure')
    expect(breaker.state).toBe('open')
    wait(1_999)
    expect(room()).toBe(0)
    wait(1)
    expect(room()).toBe(1)
  })

  test('once closed, the next wait is a second again', () => {
    const { send, wait, room } = setUp(2)
    send('failure', 5)
    wait(1_000)
    send('failure')
    wait(2_000)
    send('success')
    send('failure', 5)
    wait(1_000)
    expect(room()).toBe(1)
  })
})

describe('messages that fail at a healthy endpoint', () => {
  test('do not open the breaker when they fail again, while others get through', () => {
    const { breaker, send, wait } = setUp()
    for (let i = 0; i < 20; i++) {
      send('success')
      send('same failure', 50)
      wait(9_000)
    }
    expect(breaker.state).toBe('closed')
  })

  test('open it once nothing got through for 10 s', () => {
    const { breaker, send, wait } = setUp()
    send('success')
    wait(9_999)
    send('same failure', 5)
    expect(breaker.state).toBe('closed')
    wait(1)
    send('same failure', 5)
    expect(breaker.state).toBe('open')
  })

  test('open it if 200 in a row fail again', () => {
    const { breaker, send } = setUp()
    send('success')
    send('same failure', 200)
    expect(breaker.state).toBe('closed')
    send('same failure', 5)
    expect(breaker.state).toBe('open')
  })

  test('keep it open when a probe is one of them', () => {
    const { breaker, send, wait, room } = setUp()
    send('success')
    send('failure', 5)
    wait(1_000)
    send('same failure')
    expect(breaker.state).toBe('open')
    wait(1_999)
    expect(room()).toBe(0)
  })

  test('must be twice as many each time that a probe shows that it opened by mistake', () => {
    const { breaker, send, wait } = setUp()
    const needed: number[] = []
    for (let i = 0; i < 7; i++) {
      let failures = 0
      for (; !breaker.isOpen; failures++) send('failure')
      needed.push(failures)
      wait(2_000)
      send('success')
    }
    expect(needed).toEqual([5, 2, 4, 8, 16, 16, 16])
  })

  test('must be as many as at first five minutes after it has recovered', () => {
    const { breaker, send, wait } = setUp(1)
    for (let i = 0; i < 3; i++) {
      while (!breaker.isOpen) send('failure')
      wait(2_000)
      send('success')
    }
    wait(300_000)
    send('failure', 5)
    expect(breaker.state).toBe('open')
  })

  test('are told from an endpoint that is down by how many probes fail', () => {
    const { breaker, send, wait } = setUp(1)
    for (let i = 0; i < 5; i++) {
      send('failure', 5)
      expect(breaker.state).toBe('open')
      for (const seconds of [2, 4, 8, 16]) {
        wait(seconds * 1_000)
        send('failure')
      }
      wait(30_000)
      send('success')
    }
  })
})

describe('a breaker whose cap changes', () => {
  test('counts the requests that have started before', () => {
    const { breaker, start, room } = setUp(4)
    const ends = [start(), start(), start()]
    breaker.cap = 2
    expect(room()).toBe(0)
    for (const end of ends.splice(0, 2)) end('success')
    expect(room()).toBe(1)
    breaker.cap = 10
    expect(room()).toBe(9)
  })

  test('stays open, and recovers up to the new cap', () => {
    const { breaker, send, wait, room } = setUp(64)
    send('failure', 5)
    breaker.cap = 4
    expect([breaker.state, room()]).toEqual(['open', 0])
    wait(1_000)
    send('success')
    send('success', 2)
    expect([breaker.state, room()]).toEqual(['closed', 4])
  })

  test('divides the new cap among the workers', () => {
    const { breaker, room } = setUp(10)
    breaker.shareAmong(2)
    breaker.cap = 6
    expect(room()).toBe(3)
  })
})

describe('a breaker that is shared with other workers', () => {
  test('has its part of the cap, and 1 at least', () => {
    const { breaker, room } = setUp(10)
    for (const [workers, share] of [
      [3, 3],
      [1, 10],
      [11, 1],
    ] as const) {
      breaker.shareAmong(workers)
      expect(room()).toBe(share)
    }
  })

  test('recovers up to its part of the cap', () => {
    const { breaker, send, wait, room } = setUp(10)
    breaker.shareAmong(2)
    send('failure', 5)
    wait(1_000)
    breaker.permitProbe(Infinity)
    send('success')
    expect([breaker.state, room()]).toEqual(['half-open', 2])
    send('success', 2)
    send('success', 4)
    expect([breaker.state, room()]).toEqual(['closed', 5])
  })

  test('sends one probe for each permission, and none without or after it', () => {
    const { breaker, send, wait, room } = setUp()
    breaker.shareAmong(2)
    send('failure', 5)
    expect(breaker.needsPermission(999)).toBe(false)
    wait(1_000)
    expect([breaker.needsPermission(1_000), room()]).toEqual([true, 0])
    breaker.permitProbe(2_000)
    expect([breaker.needsPermission(1_999), room()]).toEqual([false, 1])
    wait(1_000)
    expect([breaker.needsPermission(2_000), room()]).toEqual([true, 0])
    breaker.permitProbe(3_000)
    send('failure')
    wait(60_000)
    expect([breaker.needsPermission(62_000), room()]).toEqual([true, 0])
  })

  test('opens if the others have found the endpoint down, for the rest of their wait, unless it knows that itself', () => {
    const { breaker, send, wait, room } = setUp()
    breaker.shareAmong(2)
    breaker.expectDown(4_000, 0)
    expect([breaker.state, room()]).toEqual(['open', 0])
    expect(breaker.needsPermission(3_999)).toBe(false)
    wait(4_000)
    expect([breaker.needsPermission(4_000), room()]).toEqual([true, 0])
    breaker.permitProbe(5_000)
    send('success')
    expect(breaker.state).toBe('half-open')
    breaker.expectDown(4_000, 4_000)
    expect(breaker.state).toBe('half-open')
  })

  test('recovers step by step if the others have found the endpoint healthy, up to its part of the cap of now', () => {
    const { breaker, send, room } = setUp(1)
    breaker.shareAmong(2)
    breaker.expectDown(1_000, 0)
    breaker.cap = 32
    breaker.shareAmong(8)
    breaker.shareAmong(4)
    breaker.expectUp()
    for (const limit of [2, 4]) {
      expect([breaker.state, room()]).toEqual(['half-open', limit])
      send('success', limit)
    }
    expect([breaker.state, room()]).toEqual(['closed', 8])
  })

  test('recovers without requests of its own for as long as the others find the endpoint healthy', () => {
    const { breaker, send, start, room } = setUp(16)
    breaker.shareAmong(2)
    breaker.expectDown(1_000, 0)
    breaker.expectUp()
    breaker.expectUp()
    expect([breaker.state, room()]).toEqual(['half-open', 4])
    const end = start()
    breaker.expectUp()
    expect(room()).toBe(3)
    end('failure')
    breaker.expectUp()
    expect([breaker.state, room()]).toEqual(['half-open', 4])
    send('success')
    breaker.expectUp()
    expect([breaker.state, room()]).toEqual(['closed', 8])
  })

  test('is closed at once if its part of the cap is no more than a recovery begins with', () => {
    const { breaker, room } = setUp(4)
    breaker.shareAmong(2)
    breaker.expectDown(1_000, 0)
    breaker.expectUp()
    expect([breaker.state, room()]).toEqual(['closed', 2])
  })

  test('believes its own probe that is under way, and not the others', () => {
    const { breaker, wait, start } = setUp()
    breaker.shareAmong(2)
    breaker.expectDown(1_000, 0)
    wait(1_000)
    breaker.permitProbe(Infinity)
    const end = start()
    breaker.expectUp()
    expect(breaker.state).toBe('open')
    end('failure')
    expect(breaker.state).toBe('open')
  })
})
