// A process that uses one server alone, and was not started again when that became one of several.
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, afterEach, expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { serverOf } from '../../../src/store/server-ids.js'
import { shareOf, spread } from '../../../src/store/shares.js'
import type { Directory, Servers } from '../../../src/store/servers.js'
import type { Store } from '../../../src/store/store.js'
import type { Settings } from '../../../src/settings/settings.js'
import { destination, settingsFor, silent, start } from '../../run.js'
import { newDelivery } from '../contract.js'
import { startServer } from '../postgres/server.js'
import { storeError } from '../postgres/stores.js'

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const opened: Store[] = []
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

const open = async (place: Parameters<typeof openStore>[0]) => {
  const store = await openStore(place)
  opened.push(store)
  return store
}

/** A source that a new store of two gives to the second server. */
const OF_OTHER = Array.from({ length: 50 }, (_, i) => `source${i}`).find(
  (source) => spread(2)[shareOf(source)] === 1,
) as string

const places = async () => [
  { name: 'a', url: await server.database() },
  { name: 'b', url: await server.database() },
]

const moveTo = (store: Store, to: string, chosen: (share: number) => boolean): Promise<void> =>
  (store.servers as Servers).move(
    ({ shares }: Directory) =>
      new Map(
        [...shares.keys()].flatMap((share): [number, string][] =>
          chosen(share) ? [[share, to]] : [],
        ),
      ),
    () => undefined,
  )
const isOther = (share: number) => share === shareOf(OF_OTHER)

const refused = storeError('failed', /has become the server a .* and b may have messages/)

async function purgeAll(store: Store, user: string): Promise<void> {
  let next: number | undefined = 0
  while (next !== undefined) ({ next } = await store.purgeUser(user, next))
}

test('it stores nothing once another server has a share, and says which one it misses', async () => {
  const [a, b] = await places()
  const single = await open(a?.url ?? '')
  await single.put([newDelivery({ source: OF_OTHER, messageId: 'first' })])
  const both = await open([a, b] as never)
  // The home keeps all shares at first, so the processes can be restarted one after the other.
  expect(await single.put([newDelivery({ source: OF_OTHER })])).toEqual([expect.any(Number)])
  await single.ping()

  await moveTo(both, 'b', isOther)
  const message = newDelivery({ source: OF_OTHER, messageId: 'm', user: 'u' })
  const [id] = await both.put([message])
  expect(serverOf(id as number)).toBe(1)
  await expect(single.put([message])).rejects.toEqual(refused)
  await expect(single.put([newDelivery({ source: 'other' })])).rejects.toEqual(refused)
  expect(await both.trace('m')).toHaveLength(1)
})

test('it also does so if it has put nothing before', async () => {
  const [a, b] = await places()
  const single = await open(a?.url ?? '')
  // An empty store is divided at once.
  await open([a, b] as never)
  await expect(single.put([newDelivery({ source: OF_OTHER })])).rejects.toEqual(refused)
})

test('what has to be complete fails, and searches name the server that is missing', async () => {
  const [a, b] = await places()
  const single = await open(a?.url ?? '')
  await single.put([newDelivery({ source: 'own', messageId: 'here', user: 'here' })])
  const both = await open([a, b] as never)
  await moveTo(both, 'b', isOther)
  const [id] = await both.put([newDelivery({ source: OF_OTHER, messageId: 'there', user: 'u' })])

  expect(await single.find({}, undefined, 10)).toMatchObject({ away: ['b'] })
  expect(await single.match({}, undefined, 10)).toMatchObject({ away: ['b'] })
  expect(await single.deadGroups('crm', undefined, 10)).toMatchObject({ away: ['b'] })
  expect(await single.deadCounts(['crm'], 1_000, 10)).toMatchObject({ away: ['b'] })
  expect(await single.trace('here')).toHaveLength(1)
  expect(await single.hasUser('here')).toBe(true)
  await expect(single.trace('there')).rejects.toEqual(refused)
  await expect(single.get(id as number)).rejects.toEqual(refused)
  await expect(single.replay([id as number], true)).rejects.toEqual(refused)
  await expect(single.hasUser('u')).rejects.toEqual(refused)
  await expect(purgeAll(single, 'u')).rejects.toEqual(refused)
  await expect(single.discard('other', 10)).rejects.toEqual(refused)
  await expect(single.completeStats()).rejects.toEqual(refused)
  await expect(single.sweep(1_000_000, 10)).rejects.toEqual(refused)
  // It takes no calls, so load balancers have to send them elsewhere.
  await expect(single.ping()).rejects.toEqual(refused)
  // What it has is delivered.
  const claimed = await single.claim([{ destination: 'crm', lane: 'fresh', limit: 5 }])
  expect(claimed.map(({ messageId }) => messageId)).toEqual(['here'])
})

test('it works again once its server has all shares again', async () => {
  const [a, b] = await places()
  const single = await open(a?.url ?? '')
  await single.put([newDelivery()])
  const both = await open([a, b] as never)
  await moveTo(both, 'b', () => true)
  await expect(single.put([newDelivery()])).rejects.toEqual(refused)
  await moveTo(both, 'a', () => true)
  expect(await single.put([newDelivery()])).toEqual([expect.any(Number)])
  await purgeAll(single, 'nobody')
  await single.ping()
})

test('a put that is under way when the store becomes a list is waited for', async () => {
  const [a, b] = await places()
  await (await open(a?.url ?? '')).ping()
  const other = new pg.Client(a?.url)
  await other.connect()
  try {
    await other.query('BEGIN')
    await other.query(`
      INSERT INTO hookline.deliveries (id, received_at, source, destination, type, message_id, user_id, event, body)
      VALUES (1, 0, 1, 1, 1, 'm', 'u', '', '{}')`)
    const opening = open([a, b] as never)
    const text = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
    await expect
      .poll(async () => (await server.query<{ count: number }>(text, [], a?.url))[0]?.count)
      .toBe(1)
    await other.query('COMMIT')
    // It is one of the messages that the home has, which therefore keeps all shares.
    const { shares } = await ((await opening).servers as Servers).directory()
    expect(new Set(shares.map((share) => share.server))).toEqual(new Set([0]))
  } finally {
    await other.end()
  }
})

test('a list that could not become a store leaves the first server as it was', async () => {
  const [a, b] = await places()
  const single = await open(a?.url ?? '')
  await single.put([newDelivery()])
  await (await open(b?.url ?? '')).put([newDelivery()])
  await expect(openStore([a, b] as never)).rejects.toThrow(/b has messages already/)
  expect(await single.put([newDelivery()])).toEqual([expect.any(Number)])
  expect(await (await open(a?.url ?? '')).put([newDelivery()])).toEqual([expect.any(Number)])
})

test('a start on the home alone says which servers may still have dead letters and history', async () => {
  const [a, b] = await places()
  const both = await open([a, b] as never)
  await moveTo(both, 'a', () => true)
  const lines: [object, string][] = []
  const warn = (details: object, message: string) => lines.push([details, message])
  const settings = (store: Settings['store']) =>
    settingsFor([destination([{ url: 'http://127.0.0.1:9/' }])], { store })
  await start(settings(a?.url ?? ''), { ...silent, warn })
  const line = [{ servers: ['b'] }, expect.stringMatching(/dead letters and history/)]
  expect(lines).toContainEqual(line)
  // So does a list that does not name them any more.
  lines.length = 0
  await start(settings([a] as never), { ...silent, warn })
  expect(lines).toContainEqual(line)
  lines.length = 0
  await start(settings([a, b] as never), { ...silent, warn })
  expect(lines).not.toContainEqual(line)
  // The statement of docs/postgres.md, for a server that is gone for good.
  const document = readFileSync(new URL('../../../../docs/postgres.md', import.meta.url), 'utf8')
  const [forget = ''] = /DELETE FROM hookline\.former_shares[^;]*/.exec(document) ?? []
  await server.query(forget, [], a?.url)
  await start(settings(a?.url ?? ''), { ...silent, warn })
  expect(lines).not.toContainEqual(line)
})
