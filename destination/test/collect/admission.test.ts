import { describe, expect, onTestFinished, test } from 'vitest'
import { Admission } from '../../src/collect/admission.js'

/** An admission whose clock goes on only while calls are read, as that of a process that does nothing else. */
function setUp() {
  let time = 0
  let behind = 0
  let busy = 1
  const read: string[] = []
  const later = () => new Promise((resolve) => setTimeout(resolve, 0))
  const admission = new Admission({
    now: () => time,
    behind: () => behind,
    utilization: () => ({ idle: 0, active: 0, utilization: busy }),
  })
  // What still waits would keep a timer for ever, because the clock stands still after the test.
  onTestFinished(() => {
    admission.close()
  })
  return {
    ...{ read, admission, later },
    /** Reads the calls of a request, which takes `ms`. */
    request: (source: string, ms = 1) =>
      admission.run(source, () => {
        time += ms
        read.push(source)
        return Promise.resolve(source)
      }),
    wait: (ms: number) => {
      time += ms
    },
    set: (next: { behind?: number; busy?: number }) => {
      behind = next.behind ?? behind
      busy = next.busy ?? busy
    },
    /** The share of the time that is read in so many ms, while requests wait all the time. */
    share: async (forMs: number) => {
      const from = time
      const before = read.length
      const waiting = new Set<Promise<unknown>>()
      while (time < from + forMs) {
        while (waiting.size < 50) {
          const one = admission.run('busy', () => {
            time += 0.5
            read.push('busy')
            return Promise.resolve()
          })
          waiting.add(one)
          void one.catch(() => undefined).finally(() => waiting.delete(one))
        }
        // Deliveries and everything else take this.
        time += 1
        await later()
      }
      return ((read.length - before) * 0.5) / (time - from)
    },
  }
}

describe('the calls of requests', () => {
  test('are read at once while nothing waits', () => {
    const { request, read } = setUp()
    void request('web')
    expect(read).toEqual(['web'])
  })

  test('are read in turns of their sources, and those of a source in their order', async () => {
    const { request, read } = setUp()
    const all = [
      ...Array.from({ length: 5 }, () => request('flood', 3)),
      ...Array.from({ length: 2 }, () => request('other', 3)),
    ]
    await Promise.all(all)
    expect(read.slice(0, 2)).toEqual(['flood', 'other'])
    expect(read.slice(2, 5).filter((source) => source === 'other')).toHaveLength(1)
    expect(read).toHaveLength(7)
  })

  test('leave the turn of the event loop to others after some ms', async () => {
    const { request, read } = setUp()
    const all = Array.from({ length: 20 }, () => request('flood'))
    expect(read.length).toBeLessThanOrEqual(3)
    await Promise.all(all)
    expect(read).toHaveLength(20)
  })

  test('of a source that sends little do not wait for a flood', async () => {
    const { request, read } = setUp()
    const flood = Array.from({ length: 30 }, () => request('flood'))
    const quiet = request('quiet', 0.1)
    expect(read.at(-1)).toBe('quiet')
    await Promise.all([...flood, quiet])
  })

  test('of a source that sends little do not wait for large bodies either', async () => {
    const { request, read, set, wait, later } = setUp()
    set({ behind: 10_000 })
    const flood = new Set<Promise<unknown>>()
    let quiet = 0
    for (let round = 0; round < 300; round++) {
      while (flood.size < 10) {
        const one = request('flood', 100)
        flood.add(one)
        void one.catch(() => undefined).finally(() => flood.delete(one))
      }
      wait(50)
      void request('quiet', 0.3)
      quiet++
      expect(read.at(-1)).toBe('quiet')
      expect(read.filter((source) => source === 'quiet')).toHaveLength(quiet)
      await later()
    }
    // The flood gets its share all the same, a twentieth, and no more than that. On a busy machine it has fewer turns.
    const floodMs = (read.length - quiet) * 100
    expect(floodMs).toBeGreaterThan(250)
    expect(floodMs).toBeLessThan(300 * 50)
  })

  test('of many sources that send little do wait, if they are too many together', async () => {
    const { request, read } = setUp()
    const all = Array.from({ length: 200 }, (_, i) => request(`source-${i}`))
    expect(read.length).toBeLessThan(60)
    await Promise.all(all)
    expect(read).toHaveLength(200)
  })

  test('get less of the time while messages wait for this process, and all of it afterwards', async () => {
    const { share, set } = setUp()
    set({ behind: 2_001 })
    await share(2_000)
    const low = await share(1_000)
    expect(low).toBeLessThan(0.1)
    expect(low).toBeGreaterThan(0)
    set({ behind: 0 })
    await share(3_000)
    expect(await share(500)).toBeGreaterThan(0.3)
  })

  test('get all of the time while the process has time left, or few messages wait', async () => {
    const idle = setUp()
    idle.set({ behind: 10_000, busy: 0.5 })
    expect(await idle.share(1_000)).toBeGreaterThan(0.3)
    const few = setUp()
    few.set({ behind: 2_000 })
    await few.share(2_000)
    expect(await few.share(1_000)).toBeGreaterThan(0.3)
  })

  test('are read or refused within two seconds when the process ends', async () => {
    const { request, read, set, wait, admission, later } = setUp()
    set({ behind: 10_000 })
    const all = Array.from({ length: 100 }, () => request('flood', 100))
    let settled = 0
    for (const one of all) {
      const end = () => settled++
      one.then(end, end)
    }
    wait(500)
    await later()
    admission.close()
    for (let turn = 0; turn < 1_000 && settled < all.length; turn++) {
      wait(1)
      await later()
    }
    const refused = (await Promise.allSettled(all)).filter(({ status }) => status === 'rejected')
    expect(read.length + refused.length).toBe(100)
    expect(read.length).toBeGreaterThanOrEqual(15)
    expect(read.length).toBeLessThanOrEqual(30)
  })

  test('that waited for 5 s are refused, and none of them is read', async () => {
    const { request, read, wait } = setUp()
    const all = Array.from({ length: 10 }, () => request('flood', 3))
    wait(5_001)
    const refused = (await Promise.allSettled(all)).filter(({ status }) => status === 'rejected')
    expect(refused).toHaveLength(9)
    expect(read).toHaveLength(1)
    expect(refused[0]).toMatchObject({ reason: { status: 503, code: 'overloaded' } })
  })
})
