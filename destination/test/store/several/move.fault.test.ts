// What a move of shares does to messages in each state, and to those who use the store meanwhile.
import { once, EventEmitter } from 'node:events'
import pg from 'pg'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import type { Claim } from '../../../src/model/delivery.js'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { openSeveral } from '../../../src/store/several/open.js'
import { openStore } from '../../../src/store/open.js'
import { serverOf } from '../../../src/store/server-ids.js'
import { balanced, shareOf, spread, SHARES } from '../../../src/store/shares.js'
import { EXPIRED } from '../../../src/store/states.js'
import { StoreError } from '../../../src/store/store-error.js'
import type { Directory, Servers } from '../../../src/store/servers.js'
import { LEASE_MS, type Store } from '../../../src/store/store.js'
import { newDelivery, settlement } from '../contract.js'
import { startServer } from '../postgres/server.js'
import { storeError } from '../postgres/stores.js'

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const opened: Store[] = []
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

/** A source of the home, and one of the other server, in a new store of two. */
const [OF_HOME, OF_OTHER] = [0, 1].map((number) => {
  const sources = Array.from({ length: 50 }, (_, i) => `source${i}`)
  return sources.find((source) => spread(2)[shareOf(source)] === number)
}) as [string, string]

const CLAIM: Claim = { destination: 'crm', lane: 'backlog', limit: 100 }
const claimAll = (store: Store) =>
  store.claim((['fresh', 'backlog', 'bulk'] as const).map((lane) => ({ ...CLAIM, lane })))

const ignore = () => undefined
const moveTo = (store: Store, to: string, ...sources: string[]): Promise<void> =>
  (store.servers as Servers).move(
    () => new Map(sources.map((source) => [shareOf(source), to])),
    ignore,
  )

/** A store on two servers, with a clock that a test sets. */
async function twoServers() {
  const urls = [await server.database(), await server.database()]
  let time = 1_700_000_000_000
  const open = async (parameters = '') => {
    const store = await openSeveral(
      ['a', 'b'].map((name, i) => ({
        name,
        open: () => openPostgres(`${urls[i]}${parameters}`, () => time, false, true),
      })),
      10_000,
    )
    opened.push(store)
    return store
  }
  return {
    urls,
    open,
    advance: (ms: number) => {
      time += ms
    },
  }
}

test('what waits goes to the new owner with all that is known of it, and the rest stays', async () => {
  const { open, advance, urls } = await twoServers()
  const store = await open()
  const put = (messageId: string, state: 'fresh' | 'bulk' | 'backlog' | 'skipped' = 'fresh') =>
    store.put([newDelivery({ source: OF_OTHER, messageId, state, body: `"${messageId}"` })])
  const failed = {
    log: [
      {
        url: 'https://crm.example/hook',
        code: 'server_error' as const,
        status: 500,
        ms: 5,
        error: 'HTTP 500',
        response: 'no',
      },
    ],
    refusedBy: ['https://crm.example/hook'],
  }

  for (const messageId of ['retried', 'dead', 'done']) await put(messageId)
  for (const one of await claimAll(store)) {
    const next = {
      retried: { state: 'backlog', delayMs: 60_000 },
      dead: { state: 'dead', reason: 'too old' },
      done: { state: 'done' },
    }[one.messageId] as Parameters<typeof settlement>[1]
    await store.settle([settlement(one, next, one.messageId === 'done' ? {} : failed)])
  }
  await put('skipped', 'skipped')
  await put('fresh')
  await put('bulk', 'bulk')
  // It is due, but its lease has run out.
  await put('lost')
  advance(1)
  await store.claim([{ ...CLAIM, lane: 'fresh', limit: 2 }])
  advance(LEASE_MS + 1)
  await put('waiting')
  const before = await store.trace('retried')
  const stayed = ['dead', 'done', 'skipped']
  const went = ['retried', 'fresh', 'bulk', 'lost', 'waiting']

  await moveTo(store, 'a', OF_OTHER)

  const places = async (messageId: string) =>
    (await store.trace(messageId)).map(({ id }) => serverOf(id))
  for (const messageId of stayed) expect(await places(messageId)).toEqual([1])
  for (const messageId of went) expect(await places(messageId)).toEqual([0])
  const [after] = await store.trace('retried')
  expect(after).toEqual({ ...before[0], id: after?.id })
  expect(after?.attempts).toHaveLength(1)
  const onB = 'SELECT count(*)::int AS count FROM hookline.deliveries'
  expect(await server.query(onB, [], urls[1])).toEqual([{ count: stayed.length }])

  // Whatever comes again is known, and what is new is stored at the new owner.
  for (const messageId of [...stayed, ...went]) expect(await put(messageId)).toEqual([undefined])
  const [id] = await put('new')
  expect(serverOf(id as number)).toBe(0)
  advance(60_000)
  const claimed = await claimAll(store)
  expect(claimed.map(({ messageId }) => messageId).sort()).toEqual([...went, 'new'].sort())
  const attempts = new Map(claimed.map((one) => [one.messageId, one]))
  expect(attempts.get('retried')).toMatchObject({ attempt: 2, refusedBy: failed.refusedBy })
  expect(attempts.get('lost')).toMatchObject({ attempt: 2, attemptsBefore: 1 })
  expect(attempts.get('waiting')).toMatchObject({ attempt: 1, attemptsBefore: 0 })
  expect(await store.settle(claimed.map((one) => settlement(one)))).toBe(0)
})

test('a message that is being sent is waited for, and moves if it has to be sent again', async () => {
  const { open } = await twoServers()
  const store = await open()
  for (const messageId of ['done', 'again']) {
    await store.put([newDelivery({ source: OF_OTHER, messageId })])
  }
  const claimed = await claimAll(store)
  const events = new EventEmitter()
  const isHeld = once(events, 'left')
  const moving = (store.servers as Servers).move(
    () => new Map([[shareOf(OF_OTHER), 'a']]),
    ({ left }) => events.emit('left', left),
  )
  expect(await isHeld).toEqual([2])
  // New messages are stored at the new owner meanwhile, and the others are recognized.
  const [id, same] = await store.put([
    newDelivery({ source: OF_OTHER, messageId: 'new' }),
    newDelivery({ source: OF_OTHER, messageId: 'again' }),
  ])
  expect([serverOf(id as number), same]).toEqual([0, undefined])
  const settlements = claimed.map((one) =>
    settlement(one, one.messageId === 'again' ? { state: 'backlog', delayMs: 0 } : undefined),
  )
  expect(await store.settle(settlements)).toBe(0)
  await moving
  const traces = [...(await store.trace('done')), ...(await store.trace('again'))]
  expect(traces.map((one) => [one.messageId, serverOf(one.id)])).toEqual([
    ['done', 1],
    ['again', 0],
  ])
})

test('a process moves no more messages once another one may have begun to', async () => {
  const { open, urls } = await twoServers()
  const store = await open()
  await store.put([newDelivery({ source: OF_OTHER, messageId: 'm' })])
  const [claimed] = await claimAll(store)
  const events = new EventEmitter()
  const isHeld = once(events, 'held')
  const moving = (store.servers as Servers).move(
    () => new Map([[shareOf(OF_OTHER), 'a']]),
    () => events.emit('held'),
  )
  const failed = expect(moving).rejects.toMatchObject({ name: 'StoreError' })
  await isHeld
  const text = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (
    SELECT oid FROM pg_database WHERE datname = current_database())`
  await server.query(text, [], urls[0])
  await store.settle(claimed ? [settlement(claimed, { state: 'backlog', delayMs: 0 })] : [])
  await failed
  expect((await store.trace('m')).map(({ id }) => serverOf(id))).toEqual([1])
})

test('a move that is stopped leaves nothing parked, and continues when it is called again', async () => {
  const { open, urls } = await twoServers()
  const store = await open()
  const deliveries = Array.from({ length: 700 }, (_, i) =>
    newDelivery({ source: OF_OTHER, messageId: `m${i}` }),
  )
  await store.put(deliveries)
  const parked = 'SELECT count(*)::int AS count FROM hookline.waiting WHERE due_at >= 2 ^ 42'
  const here = 'SELECT count(*)::int AS count FROM hookline.waiting'
  const stopped = new AbortController()
  const moving = (store.servers as Servers).move(
    () => new Map([[shareOf(OF_OTHER), 'a']]),
    () => {
      stopped.abort()
    },
    stopped.signal,
  )
  await expect(moving).rejects.toMatchObject({ name: 'AbortError' })
  expect(await server.query(parked, [], urls[1])).toEqual([{ count: 0 }])
  expect(await server.query(here, [], urls[1])).toEqual([{ count: 500 }])
  // They are still sent while nobody moves them.
  const claimed = await store.claim([{ ...CLAIM, lane: 'fresh', limit: 700 }])
  expect(claimed.map(({ id }) => serverOf(id)).filter((number) => number === 1)).toHaveLength(500)
  await store.settle(claimed.map((one) => settlement(one, { state: 'backlog', delayMs: 0 })))
  await moveTo(store, 'a', OF_OTHER)
  expect(await server.query(here, [], urls[1])).toEqual([{ count: 0 }])
  expect(await server.query(here, [], urls[0])).toEqual([{ count: 700 }])
})

test('what is parked when the new owner fails is no more than one slice', async () => {
  const { open, urls } = await twoServers()
  const store = await open()
  await store.put(Array.from({ length: 700 }, () => newDelivery({ source: OF_OTHER })))
  const former = await openPostgres(urls[1] as string, undefined, false, true)
  opened.push(former)
  const moved = former.asServer?.moving.moveSome([shareOf(OF_OTHER)], 0, () =>
    Promise.reject(new Error('away')),
  )
  await expect(moved).rejects.toThrow('away')
  const parked = 'SELECT count(*)::int AS count FROM hookline.waiting WHERE due_at >= 2 ^ 42'
  expect(await server.query(parked, [], urls[1])).toEqual([{ count: 200 }])
})

test('a message that was moved is as old as before, and does not hide newer ones in a search', async () => {
  const { open, advance } = await twoServers()
  const store = await open()
  const stays = Array.from({ length: 50 }, (_, i) => `staying${i}`).find(
    (one) => spread(2)[shareOf(one)] === 1 && shareOf(one) !== shareOf(OF_OTHER),
  )
  await store.put([newDelivery({ source: OF_OTHER, messageId: 'moved' })])
  advance(30_000)
  await store.put([newDelivery({ source: stays ?? '', messageId: 'of the former server' })])
  advance(30_000)
  await store.put([newDelivery({ source: OF_HOME, messageId: 'newest' })])
  await moveTo(store, 'a', OF_OTHER)
  expect(await store.stats()).toMatchObject([{ fresh: 3, oldestMs: 60_000 }])
  // It stands at the time of its move.
  const { deliveries } = await store.find({}, undefined, 3)
  expect(deliveries.map(({ messageId }) => messageId)).toEqual([
    'moved',
    'newest',
    'of the former server',
  ])
})

test('what was moved ends with the retention although younger messages came before it', async () => {
  const { open, advance } = await twoServers()
  const store = await open()
  const day = 86_400_000
  const old = { source: OF_OTHER, destination: 'paused' }
  await store.put([
    newDelivery({ source: OF_OTHER, messageId: 'sent' }),
    newDelivery({ ...old, messageId: 'waiting' }),
  ])
  advance(6 * day)
  // More than one query of a sweep reads.
  const young = (destination: string) =>
    Array.from({ length: 600 }, () => newDelivery({ source: OF_HOME, destination }))
  await store.put([...young('crm'), ...young('paused')])
  await moveTo(store, 'a', OF_OTHER)
  const claimed = await store.claim([{ ...CLAIM, lane: 'fresh', limit: 1_000 }])
  await store.settle(claimed.map((one) => settlement(one)))
  advance(1.5 * day)
  while ((await store.sweep(7 * day, 100)) > 0);
  expect(await store.trace('sent')).toEqual([])
  expect(await store.trace('waiting')).toMatchObject([{ state: 'dead', reason: EXPIRED }])
  expect(await store.stats()).toMatchObject([{ destination: 'paused', fresh: 600, dead: 1 }])
})

test('old messages behind more younger ones than a sweep reads end some at a time', async () => {
  const { open, advance } = await twoServers()
  const store = await open()
  const day = 86_400_000
  const put = (count: number) =>
    store.put(Array.from({ length: count }, () => newDelivery({ source: OF_HOME })))
  for (let i = 0; i < 5; i++) await put(2_120)
  advance(-8 * day)
  await put(120)
  advance(8 * day)
  // The first sweep reads 10,000 rows, and each of the others has room for 50.
  for (let i = 0; i < 5; i++) await store.sweep(7 * day, 50)
  expect(await store.stats()).toMatchObject([{ fresh: 10_600, dead: 120 }])
})

test('one process moves, another is told so, and all processes follow', async () => {
  const { open } = await twoServers()
  const stores = await Promise.all([open(), open(), open()])
  const [one, two, third] = stores
  await one.put([newDelivery({ source: OF_OTHER })])
  const claimed = await claimAll(one)
  const events = new EventEmitter()
  const isHeld = once(events, 'held')
  const moving = (one.servers as Servers).move(
    () => new Map([[shareOf(OF_OTHER), 'a']]),
    () => events.emit('held'),
  )
  await isHeld
  await expect(moveTo(two, 'a', OF_OTHER)).rejects.toEqual(
    storeError('locked', /another process moves shares now/),
  )
  const [id] = await third.put([newDelivery({ source: OF_OTHER })])
  expect(serverOf(id as number)).toBe(0)
  await one.settle(claimed.map((delivery) => settlement(delivery)))
  await moving
  // To a server that does not exist, and back.
  await expect(moveTo(two, 'x', OF_OTHER)).rejects.toEqual(
    storeError('unsupported', /there is no server "x" in the settings/),
  )
  await moveTo(two, 'b', OF_OTHER)
  const [back] = await third.put([newDelivery({ source: OF_OTHER })])
  expect(serverOf(back as number)).toBe(1)
})

test('whoever stores a message completes a move that ended just after the share was taken away', async () => {
  const { open, urls } = await twoServers()
  const stores = await Promise.all([open(), open()])
  const [store, other] = stores
  const share = shareOf(OF_OTHER)
  await store.put([newDelivery({ source: OF_OTHER, messageId: 'm' })])
  // The state that a process leaves that is killed there.
  const [a, b] = urls as [string, string]
  await server.query('UPDATE hookline.shares SET next = 0 WHERE share = $1', [share], a)
  await server.query('INSERT INTO hookline.own_shares VALUES ($1, 2)', [share], a)
  await server.query('DELETE FROM hookline.own_shares WHERE share = $1', [share], b)
  const puts = await Promise.all(
    [store, other].map((one) =>
      one.put([
        newDelivery({ source: OF_OTHER }),
        newDelivery({ source: OF_OTHER, messageId: 'm' }),
      ]),
    ),
  )
  for (const [id, same] of puts) expect([serverOf(id as number), same]).toEqual([0, undefined])
  // The messages are still there, and go with the next move, whatever that moves.
  expect((await store.trace('m')).map(({ id }) => serverOf(id))).toEqual([1])
  await moveTo(other, 'a', OF_HOME)
  expect((await store.trace('m')).map(({ id }) => serverOf(id))).toEqual([0])
})

test('a deletion finds messages that move from a server whose turn comes later', async () => {
  const { open } = await twoServers()
  const store = await open()
  await store.put([newDelivery({ source: OF_OTHER, user: 'bob' })])
  await store.put([newDelivery({ source: OF_HOME, user: 'bob' })])
  let { purged, next } = await store.purgeUser('bob', 0)
  expect(purged).toBe(1)
  await moveTo(store, 'a', OF_OTHER)
  while (next !== undefined) {
    const step: typeof next = next
    const result = await store.purgeUser('bob', step)
    purged += result.purged
    next = result.next
  }
  expect(purged).toBe(2)
  expect(await store.hasUser('bob')).toBe(false)
})

test('a former owner is asked until the retention is over, and then forgotten', async () => {
  const { open, advance } = await twoServers()
  const store = await open()
  const delivery = newDelivery({ source: OF_OTHER })
  await store.put([delivery])
  await store.settle((await claimAll(store)).map((one) => settlement(one)))
  await moveTo(store, 'a', OF_OTHER)
  const former = async () =>
    (await (store.servers as Servers).directory()).shares[shareOf(OF_OTHER)]?.former
  await store.sweep(60_000, 100)
  expect(await former()).toEqual([{ server: 1, isMoving: false }])
  expect(await store.put([delivery])).toEqual([undefined])
  advance(60_001)
  await store.sweep(60_000, 100)
  expect(await former()).toEqual([])
  expect(await store.put([delivery])).toEqual([expect.any(Number)])
})

test('a message is taken although a former owner of its share is locked', async () => {
  const { open, urls } = await twoServers()
  await moveTo(await open(), 'a', OF_OTHER)
  const store = await open('?statement_timeout=1500')
  const locking = new pg.Client(urls[1])
  await locking.connect()
  try {
    await locking.query('BEGIN; LOCK TABLE hookline.deliveries')
    const [id] = await store.put([newDelivery({ source: OF_OTHER })])
    expect(serverOf(id as number)).toBe(0)
  } finally {
    await locking.end()
  }
})

test('a message that comes again is recognized although the connection to a former owner is cut', async () => {
  const { open, urls } = await twoServers()
  const before = await open()
  const delivery = newDelivery({ source: OF_OTHER })
  await before.put([delivery])
  await before.settle((await claimAll(before)).map((one) => settlement(one)))
  await moveTo(before, 'a', OF_OTHER)
  const store = await open()
  const locking = new pg.Client(urls[1])
  await locking.connect()
  try {
    await locking.query('BEGIN; LOCK TABLE hookline.deliveries')
    const again = store.put([delivery])
    const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()`
    await vi.waitUntil(async () => (await locking.query(cut)).rowCount === 1)
    await locking.query('COMMIT')
    expect(await again).toEqual([undefined])
  } finally {
    await locking.end()
  }
})

test('a server that is lost keeps no other move from being made, and can be removed', async () => {
  const { urls } = await twoServers()
  urls.push(await server.database())
  const lost = new StoreError('failed', 'store: it is lost', { isUnreachable: true })
  const openThree = async (isLost: boolean) => {
    const store = await openSeveral(
      ['a', 'b', 'c'].map((name, i) => ({
        name,
        open: () =>
          isLost && name === 'c'
            ? Promise.reject(lost)
            : openPostgres(urls[i] ?? '', undefined, false, true),
      })),
      10_000,
    )
    opened.push(store)
    return store
  }
  const [a = '', b = ''] = urls
  await (await openStore(['a', 'b'].map((name, i) => ({ name, url: urls[i] ?? '' })))).close()
  await (await openThree(false)).close()
  const store = await openThree(true)
  const placeOf = async (source: string) =>
    (await (store.servers as Servers).directory()).shares[shareOf(source)]
  await expect(moveTo(store, 'c', OF_OTHER)).rejects.toMatchObject({ server: 'c' })
  expect(await placeOf(OF_OTHER)).toMatchObject({ server: 1, next: null })

  // Moves to it that were interrupted: one before the share was taken away from its owner, and one after that.
  const shares = [OF_OTHER, OF_HOME].map(shareOf)
  const text = 'UPDATE hookline.shares SET next = 2 WHERE share = ANY ($1::int[])'
  await server.query(text, [shares], a)
  await expect(moveTo(store, 'a', OF_OTHER)).rejects.toMatchObject({ server: 'c' })
  expect(await placeOf(OF_OTHER)).toMatchObject({ server: 0, next: null })
  expect(await placeOf(OF_HOME)).toMatchObject({ server: 0, next: null })
  await server.query(text, [shares.slice(0, 1)], a)
  await server.query('DELETE FROM hookline.own_shares WHERE share = $1', shares.slice(0, 1), a)
  await expect(moveTo(store, 'b', OF_HOME)).rejects.toMatchObject({ server: 'c' })
  expect(await placeOf(OF_OTHER)).toMatchObject({ server: 0, next: 2 })
  expect(await placeOf(OF_HOME)).toMatchObject({ server: 1, next: null })

  const back = await openThree(false)
  await moveTo(back, 'c', OF_HOME)
  const ids = await back.put([OF_OTHER, OF_HOME].map((source) => newDelivery({ source })))
  expect(ids.map((id) => serverOf(id as number))).toEqual([2, 2])
  await moveTo(back, 'b', OF_OTHER, OF_HOME)
  await (
    await openStore([
      { name: 'a', url: a },
      { name: 'b', url: b },
    ])
  ).close()
})

test('once the home has all shares, it can be used alone', async () => {
  const { open, urls } = await twoServers()
  const store = await open()
  await store.put([newDelivery({ source: OF_OTHER, messageId: 'm' })])
  const all = ({ shares }: Directory) => new Map(shares.map((_, share) => [share, 'a']))
  await (store.servers as Servers).move(all, ignore)
  await store.close()
  const single = await openStore(urls[0] ?? '')
  opened.push(single)
  expect(await single.trace('m')).toHaveLength(1)
  expect(single.formerServers).toEqual(['b'])
})

test('shares are spread evenly with the fewest moves', () => {
  for (const [from, to] of [
    [['a'], ['a', 'b']],
    [
      ['a', 'b'],
      ['a', 'b', 'c'],
    ],
    [
      ['a', 'b', 'c'],
      ['a', 'c'],
    ],
    [
      ['a', 'b', 'c', 'd', 'e'],
      ['e', 'x', 'a'],
    ],
  ] as const) {
    const owners: string[] = spread(from.length).map((number) => from[number] ?? '')
    const moves = balanced(owners, to)
    const counts = (list: readonly string[]) =>
      to.map((name) => list.filter((owner) => owner === name).length)
    const after = owners.map((owner, share) => moves.get(share) ?? owner)
    const spreadOut = counts(after)
    expect(spreadOut.reduce((sum, count) => sum + count, 0)).toBe(SHARES)
    expect(Math.max(...spreadOut) - Math.min(...spreadOut)).toBeLessThanOrEqual(1)
    const gained = counts(after).map((count, i) => Math.max(0, count - (counts(owners)[i] ?? 0)))
    expect(moves.size).toBe(gained.reduce((sum, count) => sum + count, 0))
    expect(balanced(after, to).size).toBe(0)
  }
})
