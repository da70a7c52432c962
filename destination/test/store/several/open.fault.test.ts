import { createServer, type AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { Waiting } from '../../../src/enqueue/waiting.js'
import type { Delivery } from '../../../src/model/delivery.js'
import type { Destination } from '../../../src/settings/settings.js'
import { openStore } from '../../../src/store/open.js'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { openSeveral } from '../../../src/store/several/open.js'
import type { Store } from '../../../src/store/store.js'
import { ceilingOf, floorOf, serverOf } from '../../../src/store/server-ids.js'
import { shareOf, spread } from '../../../src/store/shares.js'
import { newDelivery, settlement } from '../contract.js'
import { startServer } from '../postgres/server.js'
import { storeError } from '../postgres/stores.js'

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const place = async (name: string) => ({ name, url: await server.database() })

/** Sources in shares that the first and the second of two servers of a new store have. */
const [OF_HOME, OF_SECOND] = [0, 1].map((number) =>
  Array.from({ length: 50 }, (_, i) => `source${i}`).find(
    (source) => spread(2)[shareOf(source)] === number,
  ),
) as [string, string]

/** How many sessions of a database wait for a lock. */
async function waitingFor(url: string): Promise<number | undefined> {
  const text = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
  return (await server.query<{ count: number }>(text, [], url))[0]?.count
}

async function purgeAll(store: Store, user: string): Promise<void> {
  let next: number | undefined = 0
  while (next !== undefined) ({ next } = await store.purgeUser(user, next))
}

test('the ids of all servers are numbers of JSON, and those of the first begin at 1', () => {
  expect(floorOf(0)).toBe(0)
  expect(ceilingOf(127)).toBe(2 ** 53)
  for (const number of [0, 1, 127]) {
    expect(serverOf(floorOf(number) + 1)).toBe(number)
    expect(serverOf(ceilingOf(number) - 1)).toBe(number)
  }
})

test('the share of a source never changes', () => {
  // As `sha256sum` computes them.
  expect(['web', 'shop', 'app', 'audience:vip', 'é'].map(shareOf)).toEqual([75, 141, 161, 156, 74])
})

test('a process starts though another one made the store after it had looked at the home', async () => {
  const places = [await place('a'), await place('b')] as const
  let made: (() => void) | undefined
  const isMade = new Promise<void>((resolve) => (made = resolve))
  const openHome = async () => {
    const home = await openPostgres(places[0].url, undefined, false, true)
    const { asServer } = home
    if (!asServer) throw new Error('no server')
    const identity = async () => {
      const found = await asServer.identity()
      if (found === undefined) {
        await (await openStore([...places])).close()
        made?.()
      }
      return found
    }
    return Object.assign(home, { asServer: { ...asServer, identity } })
  }
  const openOther = async () => {
    await isMade
    return openPostgres(places[1].url, undefined, false, true)
  }
  const store = await openSeveral([
    { name: 'a', open: openHome },
    { name: 'b', open: openOther },
  ])
  expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
  await store.close()
})

test('a new store is spread evenly', async () => {
  const places = [await place('a'), await place('b'), await place('c')]
  await (await openStore(places)).close()
  const counts = await Promise.all(
    places.map(async ({ url }) => {
      const text = 'SELECT count(*)::int AS count FROM hookline.own_shares'
      return (await server.query<{ count: number }>(text, [], url))[0]?.count
    }),
  )
  expect(counts).toEqual([86, 85, 85])
})

test('a single server grows: what it has stays, with its ids, and comes again as a duplicate', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const single = await openStore(a.url)
  const delivery = newDelivery({ source: OF_SECOND })
  const [id] = await single.put([delivery])
  await single.close()

  const both = await openStore([a, b])
  expect(await both.put([delivery])).toEqual([undefined])
  expect(await both.get(id as number)).toMatchObject({ messageId: delivery.messageId })
  const [next] = await both.put([newDelivery({ source: OF_SECOND })])
  expect(next).toBeLessThan(ceilingOf(0))
  const claimed = await both.claim([{ destination: 'crm', lane: 'fresh', limit: 5 }])
  expect(await both.settle(claimed.map((one) => settlement(one)))).toBe(0)
  expect(claimed).toHaveLength(2)
  await both.close()

  // All shares are still its own, so it can be used alone again.
  const again = await openStore(a.url)
  expect(await again.count()).toBe(2)
  await again.close()
})

test('the order of the list does not matter, once the home is known, and a server can be added', async () => {
  const [a, b, c] = [await place('a'), await place('b'), await place('c')]
  const first = await openStore([a, b])
  const [id] = await first.put([newDelivery({ source: OF_SECOND })])
  expect(serverOf(id as number)).toBe(1)
  await first.writeRecords([{ kind: 'k', name: 'n', version: 0, body: 'x' }])
  await first.close()

  const later = await openStore([c, b, a])
  expect(later.servers?.list().map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  expect((await later.records(0, 10)).records).toMatchObject([{ name: 'n', body: 'x' }])
  const ids = await later.put(
    Array.from({ length: 100 }, (_, i) => newDelivery({ source: `source${i}` })),
  )
  expect(new Set(ids.map((one) => serverOf(one as number)))).toEqual(new Set([0, 1]))
  await later.close()

  // The third server has no share, so it may be left out. The second may not.
  await (await openStore([a, b])).close()
  await expect(openStore([a, c])).rejects.toEqual(
    storeError('unsupported', /the server b has 128 of 256 shares: add it to "store"/),
  )
  await expect(openStore([b, c])).rejects.toEqual(
    storeError('unsupported', /the home of the servers is missing/),
  )
})

/** On a busy machine, a claim may wait for its server in vain. The next one gets what came late. */
async function claimOne(store: Store): Promise<Delivery> {
  let claimed: Delivery[] = []
  const claim = async () =>
    (claimed = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 1 }]))
  await expect.poll(claim).toHaveLength(1)
  return claimed[0] as Delivery
}

test('a server whose settlements fail is not claimed from, and nobody is told to claim there', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const store = await openStore([a, b])
  const told: string[] = []
  store.shared?.onPut((destination, lane) => told.push(`${destination} ${lane}`))
  const put = newDelivery({ source: OF_SECOND })
  await store.put([put, newDelivery({ source: OF_SECOND })])
  const first = await claimOne(store)
  await server.query('ALTER TABLE hookline.done RENAME TO away', [], b.url)
  await store.settle([settlement(first)])
  await expect.poll(() => store.servers?.list()[1]?.error?.message).toMatch(/hookline\.done/)
  expect(await store.due()).toEqual([{ destination: 'crm', lane: 'fresh' }])
  told.length = 0
  expect(await store.claim([{ destination: 'crm', lane: 'fresh', limit: 5 }])).toEqual([])
  expect(told).toEqual([])

  await server.query('ALTER TABLE hookline.away RENAME TO done', [], b.url)
  await expect
    .poll(() => store.claim([{ destination: 'crm', lane: 'fresh', limit: 5 }]))
    .toHaveLength(1)
  await store.close()
})

test('a server that does not take results is not used while it is asked again whether it does', async () => {
  const [a, b] = [await place('a'), await place('b')]
  await (await openStore([a, b])).close()
  const store = await openStore([a, { ...b, url: `${b.url}?statement_timeout=1500` }])
  const put = () => store.put([newDelivery({ source: OF_SECOND })])
  const claim = (limit: number) => store.claim([{ destination: 'crm', lane: 'fresh', limit }])
  for (let i = 0; i < 2; i++) await put()
  const first = await claimOne(store)
  const locking = new pg.Client(b.url)
  await locking.connect()
  try {
    // Results wait for this lock until they give up. Puts and claims do not need the table.
    await locking.query('BEGIN; LOCK TABLE hookline.done')
    await store.settle([settlement(first)])
    await expect.poll(() => store.servers?.list()[1]?.error?.message).toMatch(/holds locks/)
    // The next attempt to store the result is under way.
    await expect.poll(() => waitingFor(b.url)).toBe(1)
    await expect(put()).rejects.toMatchObject({ server: 'b' })
    expect(await claim(5)).toEqual([])
    await locking.query('ROLLBACK')
    await expect.poll(() => claim(5)).toHaveLength(1)
    expect(await put()).toEqual([expect.any(Number)])
  } finally {
    await locking.end()
    await store.close()
  }
})

test.each([
  ['the home', 0],
  ['another server', 1],
])('the others are swept, and all their messages are found, while %s fails', async (_, number) => {
  const places = [await place('a'), await place('b')]
  const failing = places[number]?.url ?? ''
  await (await openStore(places)).close()
  const store = await openStore(
    places.map(({ name, url }) => ({ name, url: `${url}?statement_timeout=1500` })),
  )
  const sources = [OF_HOME, OF_SECOND]
  for (const source of sources) await store.put([newDelivery({ source, messageId: source })])
  const kept = sources[1 - number] ?? ''
  await server.query('ALTER TABLE hookline.waiting RENAME TO away', [], failing)
  // The first sweep ends what waits too long, the second one deletes it.
  for (let i = 0; i < 2; i++) {
    const sweeping = store.sweep(-60_000, 10)
    await expect(sweeping).rejects.toMatchObject({ server: places[number]?.name })
  }
  await server.query('ALTER TABLE hookline.away RENAME TO waiting', [], failing)
  expect(await store.trace(kept)).toEqual([])

  await store.put([newDelivery({ source: kept, messageId: kept })])
  const locking = new pg.Client(failing)
  await locking.connect()
  try {
    await locking.query('BEGIN; LOCK TABLE hookline.deliveries, hookline.waiting')
    const away = [places[number]?.name]
    const [found, matched] = await Promise.all([
      store.find({}, undefined, 10),
      store.match({}, undefined, 10),
      expect(store.trace(sources[number] ?? '')).rejects.toMatchObject({ server: away[0] }),
    ])
    expect(found).toMatchObject({ deliveries: [{ source: kept }], away })
    const next = matched.next === undefined ? undefined : await store.match({}, matched.next, 10)
    expect([matched, next]).toContainEqual(expect.objectContaining({ away }))
    expect([...matched.matches, ...(next?.matches ?? [])]).toHaveLength(1)
    expect(await store.trace(kept)).toHaveLength(1)
  } finally {
    await locking.end()
    await store.close()
  }
})

test('a quota counts what has come since a server was counted, and what waits at one that fails', async () => {
  const [a, b] = [await place('a'), await place('b')]
  await (await openStore([a, b])).close()
  const open = () => openStore([a, { ...b, url: `${b.url}?statement_timeout=1500` }])
  const [store, other] = await Promise.all([open(), open()])
  const put = () => store.put([newDelivery({ source: OF_SECOND })])
  const waiting = new Waiting(() => store.stats())
  waiting.use({
    tenants: [{ name: 'acme', quotas: { waiting: 3 }, portal: { editUrls: false } }],
    destinations: [{ name: 'crm', tenant: 'acme' } as Destination],
  })
  const locking = new pg.Client(b.url)
  await locking.connect()
  try {
    await put()
    // A count that takes so long is used for a while.
    await locking.query('BEGIN; LOCK TABLE hookline.waiting')
    const asking = waiting.ask()
    await locking.query('SELECT pg_sleep(0.1); ROLLBACK')
    await asking
    for (let i = 0; i < 2; i++) await put()
    waiting.add('crm', 2)
    await waiting.ask()
    expect(waiting.overLimit('acme')).toEqual({ count: 3, limit: 3 })
    expect(await other.stats()).toMatchObject([{ fresh: 3 }])
    await locking.query('BEGIN; LOCK TABLE hookline.waiting')
    expect(await other.stats()).toMatchObject([{ fresh: 3 }])
  } finally {
    await locking.end()
    await Promise.all([store.close(), other.close()])
  }
})

test('a server is refused that is not the one that its name says', async () => {
  const [a, b, c] = [await place('a'), await place('b'), await place('c')]
  await (await openStore([a, b])).close()
  await expect(
    openStore([
      { name: 'a', url: b.url },
      { name: 'b', url: a.url },
    ]),
  ).rejects.toEqual(storeError('unsupported', /is that of the server [ab] \(number [01]\)/))
  await expect(openStore([c, { name: 'd', url: b.url }])).rejects.toEqual(
    storeError('unsupported', /the home of the servers is missing/),
  )
  for (const { name, url } of [a, b]) {
    await expect(openStore(url)).rejects.toEqual(
      storeError('unsupported', new RegExp(`the server ${name} of a store with several servers`)),
    )
  }
})

test('one who may change no tables opens servers whose tables are up to date, and may create them once', async () => {
  const places = [await place('a'), await place('b')]
  for (const { url } of places) await (await openStore(url)).close()
  await server.query(`CREATE ROLE worker LOGIN PASSWORD 'w'`)
  const grants = `
    GRANT USAGE ON SCHEMA hookline TO worker; GRANT ALL ON ALL TABLES IN SCHEMA hookline TO worker;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA hookline TO worker`
  const inAll = async (text: string) => {
    for (const { url } of places) await server.query(text, undefined, url)
  }
  const open = () =>
    openStore(
      places.map(({ name, url }) => ({ name, url: url.replace('hookline:secret', 'worker:w') })),
    )
  await inAll(grants)
  await expect(open()).rejects.toEqual(
    storeError('failed', /permission denied for schema.*GRANT USAGE, CREATE ON SCHEMA/),
  )
  await inAll('GRANT CREATE ON SCHEMA hookline TO worker')
  await (await open()).close()
  await inAll('REVOKE CREATE ON SCHEMA hookline FROM worker')
  const store = await open()
  await store.servers?.move(
    () => new Map([[shareOf(OF_SECOND), 'a']]),
    () => undefined,
  )
  expect(await store.put([newDelivery({ source: OF_SECOND })])).toEqual([expect.any(Number)])
  await store.close()
})

test('a server that has messages can be the first one only', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const single = await openStore(b.url)
  await single.put([newDelivery()])
  await single.close()
  await expect(openStore([a, b])).rejects.toEqual(
    storeError('unsupported', /b has messages already: expected an empty database/),
  )
})

test('a put that waits for a share that is just being taken away stores nothing', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const store = await openStore([a, b])
  const other = new pg.Client(b.url)
  await other.connect()
  try {
    // The first put prepares the statement, so that the second one is not planned after it has waited.
    await store.put([newDelivery({ source: OF_SECOND })])
    await other.query('BEGIN')
    await other.query('LOCK TABLE hookline.own_shares IN ACCESS EXCLUSIVE MODE')
    const waiting = store.put([newDelivery({ source: OF_SECOND })]).then(
      () => 'stored',
      () => 'refused',
    )
    await expect.poll(() => waitingFor(b.url)).toBe(1)
    await other.query('DELETE FROM hookline.own_shares WHERE share = $1', [shareOf(OF_SECOND)])
    await other.query('COMMIT')
    expect(await waiting).toBe('refused')
    expect(await store.count()).toBe(1)
  } finally {
    await other.end()
    await store.close()
  }
})

test('a process that knows a former directory stores nothing by it', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const store = await openStore([a, b])
  const share = shareOf(OF_SECOND)
  // The share moves to the home.
  await server.query('DELETE FROM hookline.own_shares WHERE share = $1', [share], b.url)
  const gone = store.put([newDelivery({ source: OF_SECOND })])
  await expect(gone).rejects.toMatchObject({ server: 'b' })
  await server.query('INSERT INTO hookline.own_shares VALUES ($1, 2)', [share], a.url)
  await server.query(
    'UPDATE hookline.shares SET server = 0, epoch = 2 WHERE share = $1',
    [share],
    a.url,
  )
  const [id] = await store.put([newDelivery({ source: OF_SECOND })])
  expect(serverOf(id as number)).toBe(0)
  expect(await store.count()).toBe(1)
  await store.close()
})

test('an empty database is refused under the name of a server that had messages', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const store = await openStore([a, b])
  const delivery = newDelivery({ source: OF_SECOND })
  await store.put([delivery])
  await store.close()
  const empty = { name: 'b', url: await server.database() }
  await expect(openStore([a, empty])).rejects.toEqual(
    storeError('unsupported', /the database of b is not the one that b had before.*Check the URL/),
  )
  const again = await openStore([a, b])
  expect(await again.put([delivery])).toEqual([undefined])
  await again.close()
})

test('a first list that is refused leaves nothing behind', async () => {
  const [a, b, c] = [await place('a'), await place('b'), await place('c')]
  const twice = { name: 'bb', url: a.url.replace('127.0.0.1', 'localhost') }
  await expect(openStore([a, twice])).rejects.toEqual(
    storeError('unsupported', /the database of bb is that of the server a/),
  )
  const store = await openStore([a, b, c])
  const { names, shares } = (await store.servers?.directory()) ?? expect.fail()
  expect(names).toEqual(['a', 'b', 'c'])
  expect(shares.map((one) => one.server)).toEqual(spread(3))
  await store.close()
})

test('a start that fails does not go on trying a server that is away', async () => {
  const a = await place('a')
  // The first start ended before it spread the shares, for which all servers have to be there.
  const home = await openPostgres(a.url, undefined, false, true)
  await home.asServer?.found(['a', 'b'])
  await home.close()
  let connections = 0
  const away = createServer((socket) => {
    connections++
    socket.destroy()
  })
  await new Promise<void>((resolve) => away.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = away.address() as AddressInfo
    const b = { name: 'b', url: `postgres://hookline@127.0.0.1:${port}/b` }
    await expect(openStore([a, b])).rejects.toMatchObject({ isUnreachable: true, server: 'b' })
    connections = 0
    await setTimeout(2_500)
    expect(connections).toBe(0)
  } finally {
    away.close()
  }
})

test('a trace does not leave out what a server has that is away', async () => {
  const [a, b] = [await place('a'), await place('b')]
  const store = await openStore([a, b])
  const ofOne = (destination: string) =>
    newDelivery({ source: OF_SECOND, messageId: 'm', destination })
  await store.put([ofOne('crm'), ofOne('erp')])
  const [done] = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 1 }])
  await store.settle([settlement(done as Delivery)])
  await store.servers?.move(
    () => new Map([[shareOf(OF_SECOND), 'a']]),
    () => undefined,
  )
  await store.put([newDelivery({ source: OF_HOME, messageId: 'other' })])
  expect(await store.trace('m')).toHaveLength(2)
  await store.close()

  // What was delivered stays at the former server.
  const gone = { ...b, url: b.url.replace(/:\d+\//, ':1/') }
  const partly = await openStore([a, gone])
  await expect(partly.trace('m')).rejects.toEqual(
    storeError('failed', /b can't be reached, so the answer would not be complete/),
  )
  // The share of this one has never been there.
  expect(await partly.trace('other')).toHaveLength(1)
  expect(await partly.stats()).toHaveLength(2)
  await expect(partly.completeStats()).rejects.toMatchObject({ server: 'b', isUnreachable: true })
  await partly.close()
})

test('a process that does not know the new owner of a share says so', async () => {
  const [a, b, c] = [await place('a'), await place('b'), await place('c')]
  const old = await openStore([a, b])
  const heard: string[] = []
  old.servers?.onChange(({ name, error }) =>
    heard.push(`${name} ${error ? error.message : 'works'}`),
  )
  const [done] = await old.put([
    newDelivery({ source: OF_SECOND, messageId: 'm0', state: 'leased' }),
  ])
  await old.settle([settlement({ id: done as number, attempt: 1 })])
  const present = await openStore([a, b, c])
  await present.servers?.move(
    () => new Map([[shareOf(OF_SECOND), 'c']]),
    () => undefined,
  )
  const [id] = await present.put([newDelivery({ source: OF_SECOND, messageId: 'm1' })])
  expect(serverOf(id as number)).toBe(2)

  const unknown = storeError('failed', /c can't be reached, so the answer would not be complete/)
  // What was done stays at the former server, but the new one may have it for another destination.
  await expect(old.trace('m0')).rejects.toEqual(unknown)
  // A put that fails for this reason is no failure of the whole store.
  const refused = old.put([newDelivery({ source: OF_SECOND })])
  await expect(refused).rejects.toMatchObject({ server: 'c' })
  await expect(old.trace('m1')).rejects.toEqual(unknown)
  await expect(old.get(id as number)).rejects.toEqual(unknown)
  await expect(old.replay([id as number], true)).rejects.toEqual(unknown)
  await expect(purgeAll(old, 'nobody')).rejects.toEqual(unknown)
  await expect(old.discard('crm', 10)).rejects.toEqual(unknown)
  await expect(old.completeStats()).rejects.toEqual(unknown)
  const incomplete = { away: ['c'] }
  expect(await old.find({}, undefined, 10)).toMatchObject(incomplete)
  expect(await old.match({}, undefined, 10)).toMatchObject(incomplete)
  expect(await old.deadGroups('crm', undefined, 10)).toMatchObject(incomplete)
  expect(old.servers?.list().find(({ name }) => name === 'c')?.error?.message).toMatch(
    /does not know the server c: start it again with the present settings/,
  )
  expect(heard).toEqual([expect.stringMatching(/^c this process does not know the server c/)])
  await present.servers?.move(
    () => new Map([[shareOf(OF_SECOND), 'b']]),
    () => undefined,
  )
  await old.sweep(60_000, 10)
  expect(heard.slice(1)).toEqual(['c works'])
  await Promise.all([old.close(), present.close()])
})

test.each([[['a']], [['a', 'b', 'a']]])(
  'servers that were restored to a time before moves to %s refuse calls of the share, until it is moved again',
  async (moves) => {
    const [a, b] = [await place('a'), await place('b')]
    const share = shareOf(OF_SECOND)
    const moveTo = (name: string) =>
      store.servers?.move(
        () => new Map([[share, name]]),
        () => undefined,
      )
    let store = await openStore([a, b])
    const before = await server.query<{ server: number; epoch: string }>(
      'SELECT server, epoch FROM hookline.shares WHERE share = $1',
      [share],
      a.url,
    )
    for (const name of moves) await moveTo(name)
    await store.put([newDelivery({ source: OF_SECOND, messageId: 'm1' })])
    await server.query(
      `WITH former AS (DELETE FROM hookline.former_shares WHERE share = $1)
     UPDATE hookline.shares SET server = $2, epoch = $3 WHERE share = $1`,
      [share, before[0]?.server, before[0]?.epoch],
      a.url,
    )
    await store.close()
    store = await openStore([a, b])
    await expect(store.put([newDelivery({ source: OF_SECOND })])).rejects.toMatchObject({
      server: 'b',
    })
    await moveTo('a')
    const ids = await store.put([
      newDelivery({ source: OF_SECOND, messageId: 'm1' }),
      newDelivery({ source: OF_SECOND }),
    ])
    expect(ids).toEqual([undefined, expect.any(Number)])

    // The new owner is restored to a time before it got the share.
    await server.query('DELETE FROM hookline.own_shares WHERE share = $1', [share], a.url)
    const refused = store.put([newDelivery({ source: OF_SECOND })])
    await expect(refused).rejects.toMatchObject({ server: 'a' })
    await moveTo('b')
    const [id] = await store.put([newDelivery({ source: OF_SECOND })])
    expect(serverOf(id as number)).toBe(1)
    await store.close()
  },
)
