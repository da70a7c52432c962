import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addReadinessRoutes, Readiness } from '../../src/observe/readiness.js'
import { tellAll } from '../../src/observe/events.js'
import { createServer, type Server } from '../../src/http/server.js'
import { Dispatcher } from '../../src/deliver/dispatcher.js'
import { Breaker } from '../../src/deliver/breaker.js'
import { EndpointQueue } from '../../src/deliver/endpoint-queue.js'
import { Pace } from '../../src/deliver/pace.js'
import { DestinationQueue } from '../../src/deliver/destination-queue.js'
import { createEnqueue } from '../../src/enqueue/enqueue.js'
import { Settler } from '../../src/deliver/settler.js'
import { StoreError } from '../../src/store/store-error.js'
import type { Store } from '../../src/store/store.js'
import { destination, endpoint, post, settingsFor, start, track } from '../run.js'

const nothing = () => undefined
const never = () => new Promise<never>(nothing)

/** A dispatcher and a settler on a store that answers as it is told, behind HTTP. */
async function startParts(server: Server, store: Partial<Store>) {
  let elapsedMs = 0
  const now = () => elapsedMs
  const events = tellAll([])
  const all = {
    claim: () => Promise.resolve([]),
    due: () => Promise.resolve([{ destination: 'crm', lane: 'fresh' as const }]),
    settle: () => Promise.resolve(0),
    onSettled: nothing,
    ping: () => Promise.resolve(),
    ...store,
  }
  const settler = new Settler(all, events, now)
  const dispatcher = new Dispatcher({ store: all, settler, events, now, random: Math.random })
  const readiness = new Readiness({ dispatcher, settler, store: all, now })
  addReadinessRoutes(server.app, readiness)
  const url = await server.listen('127.0.0.1', 0)
  return {
    dispatcher,
    settler,
    readiness,
    /** The dispatcher has a destination, and asks for its messages. */
    use: () => {
      const endpoint = { url: 'http://127.0.0.1/', headers: {}, concurrency: 1 }
      const poster = { post: nothing, close: () => Promise.resolve() }
      const queue = new EndpointQueue(endpoint, new Breaker(1), new Pace(), poster, now)
      dispatcher.use([new DestinationQueue(destination([endpoint]), [queue], now)], [])
    },
    advance: (ms: number) => {
      elapsedMs += ms
    },
    get: async (path: string) => {
      const response = await fetch(url + path)
      return [response.status, (await response.json()) as unknown]
    },
    statusOf: async (path: string) => (await fetch(url + path)).status,
  }
}

describe('readiness', () => {
  let server: Server
  let stop: () => void = nothing

  const startWith = async (store: Partial<Store> = {}) => {
    const parts = await startParts(server, store)
    stop = () => {
      parts.dispatcher.stop()
    }
    return parts
  }

  beforeEach(() => {
    server = createServer({ warn: nothing, error: nothing }, '')
  })

  afterEach(async () => {
    stop()
    await server.close(0)
  })

  const reason = (code: string) => [
    503,
    { status: 'not ready', reasons: [{ code, message: expect.any(String) as string }] },
  ]

  test('is given by what runs, and by no more than that', async () => {
    const { get } = await startWith()
    expect(await get('/readyz')).toEqual([200, { status: 'ready' }])
    expect(await get('/healthz')).toEqual([200, { status: 'ok' }])
  })

  test('fails while a claim is not answered, though HTTP works, and comes back', async () => {
    let answer: (() => void) | undefined
    const claim = () =>
      new Promise<[]>((resolve) => {
        answer = () => {
          resolve([])
        }
      })
    const { get, statusOf, use, advance, settler, dispatcher } = await startWith({ claim })
    use()
    await wait(0) // the store says what is due, and the claim follows
    expect(settler.stalledMs()).toBe(0)
    advance(9_000)
    expect(await statusOf('/readyz')).toBe(200)
    advance(2_000)
    // Its timer moves on, every quarter of a second: what is stalled is the claim.
    await wait(600)
    expect(await get('/readyz')).toEqual(reason('dispatcher_stalled'))
    expect(await statusOf('/healthz')).toBe(200)
    dispatcher.stop()
    answer?.()
    await expect.poll(() => statusOf('/readyz')).toBe(200)
  })

  test('fails while a settlement is not answered', async () => {
    const { get, advance, settler } = await startWith({ settle: never })
    settler.add({ id: 1, attempt: 1, next: { state: 'done' }, refusedBy: [], log: [] })
    await expect
      .poll(() => {
        advance(1_000)
        return get('/readyz')
      })
      .toEqual(reason('dispatcher_stalled'))
  })

  test('fails while the store does', async () => {
    const ping = () => Promise.reject(new StoreError('failed', 'gone'))
    expect(await (await startWith({ ping })).get('/readyz')).toEqual(reason('store_unavailable'))
  })

  test('fails while the store is silent, and does not wait for it', async () => {
    expect(await (await startWith({ ping: never })).get('/readyz')).toEqual(
      reason('store_unavailable'),
    )
  })

  test('stays while one of several servers fails, which it names', async () => {
    const error = new StoreError('failed', 'gone', { server: 'b' })
    const states = [
      { name: 'a', error: undefined },
      { name: 'b', error },
    ]
    const servers = { list: () => states, onChange: nothing, directory: never, move: never }
    const { get, readiness } = await startWith({ servers })
    readiness.storeRefused(error)
    expect(await get('/readyz')).toEqual([200, { status: 'ready', away: ['b'] }])
  })

  test('fails for a while after calls were refused, even if no others come', async () => {
    const { get, statusOf, readiness, advance } = await startWith()
    readiness.storeRefused(new StoreError('full', 'no room'))
    expect(await get('/readyz')).toEqual(reason('store_unavailable'))
    advance(10_000)
    await expect.poll(() => statusOf('/readyz')).toBe(200)
  })

  test('comes back with the first call that the store takes, and not with one that it has already', async () => {
    let put = (): Promise<(number | undefined)[]> =>
      Promise.reject(new StoreError('full', 'no room'))
    const { dispatcher, get, statusOf, readiness } = await startWith()
    const events = tellAll([readiness])
    const enqueue = createEnqueue({ store: { put: () => put() }, dispatcher, events, now: () => 0 })
    const call = { messageId: 'm', source: 'web', destination: 'crm', user: 'u', body: '{}' }
    const calls = [{ ...call, type: 'track' as const }]
    await expect(enqueue(calls)).rejects.toThrow('no room')
    expect(await get('/readyz')).toEqual(reason('store_unavailable'))
    // Nothing had to be written for these, so they say nothing about the room on the disk.
    put = () => Promise.resolve([undefined])
    expect(await enqueue(calls)).toEqual([false])
    put = () => Promise.resolve([])
    expect(await enqueue([])).toEqual([])
    expect(await statusOf('/readyz')).toBe(503)
    expect(await readiness.isStoreUp()).toBe(false)
    put = () => Promise.resolve([7])
    expect(await enqueue(calls)).toEqual([true])
    expect(await statusOf('/readyz')).toBe(200)
    expect(await readiness.isStoreUp()).toBe(true)
  })

  test('fails once it is being stopped', async () => {
    const { get, readiness } = await startWith()
    readiness.stop()
    expect(await get('/readyz')).toEqual(reason('stopping'))
  })
})

test('a running destination is ready', async () => {
  const crm = await endpoint()
  const running = await start(settingsFor([destination([crm])]))
  await post(running, [track('m1')])
  await crm.has(1)
  expect((await fetch(`${running.url}/readyz`)).status).toBe(200)
  expect((await fetch(`${running.url}/healthz`)).status).toBe(200)
})
