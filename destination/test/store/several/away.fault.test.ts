// What a destination does while one of the three servers of its store is away, and what it can read then.
import type { ServerResponse } from 'node:http'
import pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { shareOf, spread } from '../../../src/store/shares.js'
import type { Claim, Delivery } from '../../../src/model/delivery.js'
import type { DeliveryList, ShownMessage, Status } from '../../../src/model/answers.js'
import type { Settings } from '../../../src/settings/settings.js'
import type { RunningDestination } from '../../../src/destination.js'
import { openStore } from '../../../src/store/open.js'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { openSeveral } from '../../../src/store/several/open.js'
import { newDelivery, settlement } from '../contract.js'
import { SETTINGS_KEY } from '../../manage/api.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  post,
  settingsFor,
  silent,
  start,
  track,
} from '../../run.js'
import { startProxy, type Proxy } from '../postgres/proxy.js'
import { startServer, type Server } from '../postgres/server.js'
import { runInside } from '../../cli/inside.js'
import { NAMES } from './subject.js'

// fsync is off, which is faster: a crash of the server loses nothing without a crash of the machine.
const servers = await Promise.all(NAMES.map(() => startServer({ fsync: 'off' })))

afterAll(() => Promise.all(servers.map((server) => server.dispose())))

/** A source on each server of a new store. */
const SOURCES = NAMES.map((_, number) => {
  for (let i = 0; ; i++) {
    const name = `source${i}`
    if (spread(NAMES.length)[shareOf(name)] === number) return name
  }
})

/** A new store on the three servers. */
let schemas = 0
function newPlaces(ports: Partial<Record<string, number>> = {}) {
  const schema = `away${++schemas}`
  return NAMES.map((name, i) => {
    const server = servers[i] as Server
    const url = `${server.url()}?schema=${schema}`
    const port = ports[name]
    return { name, url: port === undefined ? url : url.replace(`:${server.port}/`, `:${port}/`) }
  })
}

test('a process starts while the tables of a server are locked, and uses it once they are free', async () => {
  const places = newPlaces()
  await (await openStore(places)).close()
  const url = servers[1]?.url() ?? ''
  const schema = `away${schemas}`
  const locking = new pg.Client(url)
  await locking.connect()
  await locking.query(`BEGIN; LOCK TABLE ${schema}.deliveries, ${schema}.waiting, ${schema}.server`)
  const { running } = await startOn(places)
  const [, other = ''] = SOURCES
  expect((await send(running, SOURCES[0] ?? '', 'm1')).status).toBe(200)
  expect((await send(running, other, 'm2')).status).toBe(503)
  await locking.query('ROLLBACK')
  await locking.end()
  await expect.poll(async () => (await send(running, other, 'm2')).status).toBe(200)
})

test('a server whose sessions all began as read-only is used again once new ones are not', async () => {
  const places = newPlaces()
  await (await openStore(places)).close()
  const { running } = await startOn(places)
  const [, other = ''] = SOURCES
  const [, server] = servers as [Server, Server]
  const writing = `${server.url()}?options=-c%20default_transaction_read_only%3Doff`
  const onAll = (text: string) => server.query(text, [], writing)
  expect((await send(running, other, 'm1')).status).toBe(200)
  await onAll('ALTER DATABASE postgres SET default_transaction_read_only = on')
  await server.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookline-destination'`,
  )
  await expect.poll(async () => (await send(running, other, 'm2')).status).toBe(503)
  // From now on, only the connections that look for the server are used.
  await expect.poll(() => awayOf(running)).toEqual(['b'])
  await onAll('ALTER DATABASE postgres RESET default_transaction_read_only')
  await expect.poll(async () => (await send(running, other, 'm2')).status).toBe(200)
})

async function awayOf({ url }: RunningDestination): Promise<string[] | undefined> {
  const response = await fetch(`${url}/readyz`)
  return ((await response.json()) as { away?: string[] }).away
}

async function startOn(store: Settings['store'], log = silent) {
  const receiver = await endpoint()
  const settings = settingsFor([destination([receiver], { sources: SOURCES, tenant: 'acme' })], {
    store,
    sources: SOURCES.map((name) => ({ name, writeKey: `key-${name}`, tenant: 'acme' })),
    tenants: [{ name: 'acme', portal: { editUrls: false } }],
    settingsKeys: [SETTINGS_KEY],
  })
  const running = await start(settings, log)
  return { running, receiver }
}

const send = (running: RunningDestination, source: string, messageId: string) =>
  post(running, [track(messageId)], `key-${source}`)

async function read<T>({ adminUrl }: RunningDestination, path: string): Promise<T> {
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
  const answer = await fetch(`${adminUrl}/v1/admin/${path}`, { headers })
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}

/** The link of a tenant to its portal. */
async function linkOf({ adminUrl }: RunningDestination): Promise<string> {
  const answer = await fetch(`${adminUrl}/v1/admin/tenants/acme/link`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    body: '{}',
  })
  return ((await answer.json()) as { token: string }).token
}

const portal = async (
  { adminUrl }: RunningDestination,
  token: string,
  path: string,
  body?: object,
) => {
  const answer = await fetch(`${adminUrl}/v1/portal/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { Authorization: `Bearer ${token}` },
    ...(body && { body: JSON.stringify(body) }),
  })
  return answer.text()
}

const readyz = async ({ url }: RunningDestination) => {
  const answer = await fetch(`${url}/readyz`)
  return [answer.status, await answer.json()] as unknown
}

test.each([
  ['the home', 0],
  ['another server', 1],
])(
  'while %s is away, only its share waits, and it goes on once it is back',
  async (_, number) => {
    const gone = servers[number] as Server
    const [name = '', source = ''] = [NAMES[number], SOURCES[number]]
    const { running, receiver } = await startOn(newPlaces())
    const received = () => new Set(receiver.received.map(({ headers }) => headers['x-message-id']))
    const accepted: string[] = []
    const sendAll = async (round: string): Promise<Record<string, number>> => {
      const statuses: Record<string, number> = {}
      for (const one of SOURCES) {
        const messageId = `${round}-${one}`
        const { status } = await send(running, one, messageId)
        statuses[one] = status
        if (status === 200) accepted.push(messageId)
      }
      return statuses
    }
    const others = SOURCES.filter((one) => one !== source)

    const token = await linkOf(running)

    expect(await sendAll('before')).toEqual(Object.fromEntries(SOURCES.map((one) => [one, 200])))
    await expect.poll(() => received().size).toBe(3)
    // The results are stored too. Otherwise they may come after the end of their leases, when the messages have been sent again.
    await expect.poll(() => running.stats()).toEqual([])

    await gone.stop('immediate')
    try {
      for (let round = 0; round < 5; round++) {
        expect(await sendAll(`away${round}`)).toEqual(
          Object.fromEntries(SOURCES.map((one) => [one, one === source ? 503 : 200])),
        )
      }
      // All that was accepted arrives, although the server is still away.
      await expect.poll(() => accepted.filter((id) => !received().has(id))).toEqual([])
      expect(accepted).toHaveLength(3 + 5 * 2)
      await expect.poll(() => readyz(running)).toEqual([200, { status: 'ready', away: [name] }])
      const metrics = await fetch(`${running.adminUrl}/metrics`, {
        headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
      })
      const ups = (await metrics.text()).match(/^hookline_store_server_up.*$/gm)
      expect(ups).toEqual(
        NAMES.map((one) => `hookline_store_server_up{server="${one}"} ${one === name ? 0 : 1}`),
      )
      const { servers: states } = await read<Status>(running, 'status')
      expect(states?.filter(({ error }) => error !== null).map((one) => one.name)).toEqual([name])
      const list = await read<DeliveryList>(running, 'deliveries')
      expect(list).toMatchObject({ away: [name], isComplete: false })
      expect(new Set(list.deliveries.map((one) => one.source))).toEqual(new Set(others))
      // The tenant learns that something is missing, but not the name of the server.
      const cli = (...args: string[]) =>
        runInside([...args, '--url', running.adminUrl, '--token', ADMIN_TOKEN])
      expect((await cli('status')).stdout).toMatch(new RegExp(`^${name} +store: `, 'm'))
      const missing = `What is on ${name} is missing: that server of the store can't be reached.`
      expect((await cli('list')).stderr).toContain(missing)
      const page = await cli('list', '--limit', '1')
      const [, before = ''] = /--before (\S+)\.$/m.exec(page.stderr) ?? []
      expect((await cli('list', '--before', before)).code).toBe(0)
      expect((await cli('replay', '--all', '--dry-run')).stdout).toContain(missing)
      expect(await read(running, 'dead?destination=crm')).toEqual({
        ...{ groups: [], isComplete: false, away: [name] },
      })
      const shown = await Promise.all([
        portal(running, token, 'deliveries'),
        portal(running, token, 'dead?destination=crm'),
        portal(running, token, 'replay', { filter: { destination: 'crm' }, dryRun: true }),
      ])
      for (const text of shown) expect(JSON.parse(text)).toMatchObject({ away: [] })
      const known = await read<ShownMessage>(running, `messages/before-${others[0]}`)
      expect(known.deliveries).toHaveLength(1)
      const lost = await fetch(`${running.adminUrl}/v1/admin/messages/before-${source}`, {
        headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
      })
      expect(lost.status).toBe(503)
    } finally {
      await gone.start()
    }

    await expect.poll(() => readyz(running)).toEqual([200, { status: 'ready' }])
    expect((await send(running, source, `before-${source}`)).status).toBe(200)
    expect(await sendAll('after')).toEqual(Object.fromEntries(SOURCES.map((one) => [one, 200])))
    await expect.poll(() => accepted.filter((id) => !received().has(id))).toEqual([])
    // The message that was sent again is recognized, and nothing was sent twice.
    expect(receiver.received).toHaveLength(accepted.length)
    const list = await read<DeliveryList>(running, 'deliveries')
    expect(list).toMatchObject({ isComplete: true, next: null })
    expect(list.deliveries).toHaveLength(accepted.length)
  },
  120_000,
)

test('the answer 503 fits the request, and names the server that is away to the operator only', async () => {
  const { running } = await startOn(newPlaces())
  const [, b] = servers as [Server, Server]
  const ask = (path: string, init = {}) =>
    fetch(`${running.adminUrl}/v1/${path}`, {
      ...{ headers: { Authorization: `Bearer ${ADMIN_TOKEN}` }, ...init },
    })
  await b.stop('immediate')
  try {
    const trace = await ask('admin/messages/unknown')
    expect(trace.status).toBe(503)
    expect(await trace.text()).toContain(
      'The server b of the store cannot be reached. The request could not be answered. Send it again later.',
    )
    const deletion = await ask('deletions', { method: 'POST', body: '{"userId":"u1"}' })
    expect(deletion.status).toBe(503)
    expect(await deletion.text()).toContain(
      'The server b of the store cannot be reached. The request was not confirmed, but may have taken effect.',
    )
    const call = await send(running, SOURCES[1] ?? '', 'm')
    expect(await call.text()).toContain('"The store cannot be reached. The request was not')
  } finally {
    await b.start()
  }
})

test('a destination is deleted only if all servers say what waits for it, or if that is to stay', async () => {
  const places = newPlaces()
  const { running: first } = await startOn(places)
  const path = 'destinations/hook'
  const ask = ({ adminUrl }: RunningDestination, method: string, path: string, body?: object) =>
    fetch(`${adminUrl}/v1/admin/${path}`, {
      ...{ method, headers: { Authorization: `Bearer ${ADMIN_TOKEN}` } },
      ...(body && { body: JSON.stringify(body) }),
    })
  const errorOf = async (answer: Response) =>
    [answer.status, ((await answer.json()) as { error: { code: string } }).error.code] as const
  const hook = {
    ...{ tenant: 'acme', sources: [SOURCES[1]] },
    webhooks: [{ url: 'https://hook.example.com/' }],
  }
  expect((await ask(first, 'PUT', path, hook)).status).toBe(201)
  await ask(first, 'POST', `${path}/pause`, { reason: 'test' })
  expect((await send(first, SOURCES[1] ?? '', 'm')).status).toBe(200)
  await first.close()

  const [, b] = servers as [Server, Server]
  await b.stop('immediate')
  // It has never asked the server that is away.
  const { running } = await startOn(places)
  try {
    const unavailable = [503, 'store_unavailable']
    expect(await errorOf(await ask(running, 'DELETE', path))).toEqual(unavailable)
    // Nobody has to be asked about what there is not.
    const missing = await ask(running, 'DELETE', 'destinations/missing')
    expect(await errorOf(missing)).toEqual([404, 'unknown_destination'])
    const none = { settings: { destinations: [] }, prune: true, dryRun: true }
    expect(await errorOf(await ask(running, 'POST', 'settings', none))).toEqual(unavailable)
  } finally {
    await b.start()
  }
  await expect.poll(() => readyz(running)).toEqual([200, { status: 'ready' }])
  expect(await errorOf(await ask(running, 'DELETE', path))).toEqual([409, 'messages_waiting'])
  await b.stop('immediate')
  try {
    const kept = await ask(running, 'DELETE', `${path}?waiting=keep`)
    expect([kept.status, await kept.json()]).toEqual([
      200,
      { discarded: 0, waiting: expect.any(Number) as number },
    ])
  } finally {
    await b.start()
  }
})

test('a process starts while a server is away, but not while the home is', async () => {
  const places = newPlaces()
  await (await openStore(places)).close()
  const [home, other] = servers as [Server, Server]
  await other.stop('immediate')
  const { running, receiver } = await startOn(places)
  try {
    expect((await send(running, SOURCES[0] ?? '', 'm1')).status).toBe(200)
    expect((await send(running, SOURCES[1] ?? '', 'm2')).status).toBe(503)
  } finally {
    await other.start()
  }
  await expect.poll(() => readyz(running)).toEqual([200, { status: 'ready' }])
  expect((await send(running, SOURCES[1] ?? '', 'm2')).status).toBe(200)
  await expect.poll(() => receiver.received.length).toBe(2)
  await home.stop('immediate')
  await expect(openStore(places)).rejects.toMatchObject({ isUnreachable: true })
  await home.start()
})

test('a process that closes waits for a server that is away, until it has the results of what was under way', async () => {
  const places = newPlaces()
  const { running, receiver } = await startOn(places)
  const held: ServerResponse[] = []
  receiver.answer((response) => held.push(response))
  for (const source of SOURCES) await send(running, source, `m-${source}`)
  await receiver.has(SOURCES.length)

  const [a, b, c] = servers as [Server, Server, Server]
  const waiting = async (server: Server) => {
    const text = `SELECT count(*)::int AS count FROM away${schemas}.waiting`
    return (await server.query<{ count: number }>(text))[0]?.count
  }
  await b.stop('immediate')
  const closing = running.close()
  try {
    for (const response of held) response.writeHead(204).end()
    await expect.poll(() => Promise.all([a, c].map(waiting))).toEqual([0, 0])
  } finally {
    await b.start()
  }
  await closing
  expect(await waiting(b)).toBe(0)
})

test('a store that closes gives back what it leased for nobody, also at a server that is away meanwhile', async () => {
  const places = newPlaces()
  // A claim waits for no server, so all that it leases is for the next one.
  const open = () =>
    openSeveral(
      places.map(({ name, url }) => ({
        name,
        open: () => openPostgres(url, undefined, false, true),
      })),
      0,
    )
  const [, source = ''] = SOURCES
  const store = await open()
  await store.put([newDelivery({ source })])
  const isLeased = new Promise((resolve) => store.shared?.onPut(resolve))
  const claim: Claim = { destination: 'crm', lane: 'fresh', limit: 1 }
  expect(await store.claim([claim])).toEqual([])
  await isLeased

  const [, b] = servers as [Server, Server]
  await b.stop('immediate')
  const closing = store.close()
  await b.start()
  await closing
  const next = await openStore(places)
  expect(await next.stats()).toMatchObject([{ leased: 0, fresh: 0, backlog: 1 }])
  await next.close()
})

test('a server that does not answer holds up the others only shortly, and loses nothing that it leased', async () => {
  const [, slow] = servers as [Server, Server]
  await using proxy = await startProxy(slow.port)
  const store = await openStore(newPlaces({ b: proxy.port }))
  try {
    for (const source of SOURCES) await store.put([newDelivery({ source, messageId: source })])
    proxy.silence()
    const hanging = store.put([newDelivery({ source: SOURCES[1] ?? '' })]).then(
      () => 'stored',
      () => 'failed',
    )
    const claim = { destination: 'crm', lane: 'fresh' as const, limit: 10 }
    const claimed: string[] = []
    // A claim waits only shortly for a server, also for one that is slow because the machine is.
    while (claimed.length < 2) {
      const some = await Promise.race([store.claim([claim]), hanging])
      if (typeof some === 'string') break
      claimed.push(...some.map(({ source }) => source))
    }
    expect(claimed.sort()).toEqual([SOURCES[0], SOURCES[2]].sort())
    const due = await Promise.race([store.due(), hanging])
    expect(due).toEqual([])
    expect(await hanging).toBe('failed')
  } finally {
    proxy.fix()
    await store.close()
  }
})

test.each([
  [
    'goes silent',
    (proxy: Proxy) => {
      proxy.silence()
    },
  ],
  [
    'has its tables locked',
    async (_: Proxy, url: string, schema: string) => {
      const locking = new pg.Client(url)
      onTestFinished(() => locking.end())
      await locking.connect()
      await locking.query(`BEGIN; LOCK TABLE ${schema}.deliveries`)
    },
  ],
])(
  'a process stays ready while one server %s, from the first moment on',
  async (_, fail) => {
    const [, b] = servers as [Server, Server]
    await using proxy = await startProxy(b.port)
    const { running } = await startOn(newPlaces({ b: proxy.port }))
    await fail(proxy, b.url(), `away${schemas}`)
    expect(await readyz(running)).toEqual([200, { status: 'ready' }])
  },
  120_000,
)

test.each([
  [
    'becomes read-only',
    'ALTER SYSTEM SET default_transaction_read_only = on',
    'ALTER SYSTEM RESET default_transaction_read_only',
  ],
  [
    'is full',
    `CREATE FUNCTION SCHEMA.refuse() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
     CREATE TRIGGER refuse BEFORE INSERT ON SCHEMA.deliveries EXECUTE FUNCTION SCHEMA.refuse()`,
    'DROP TRIGGER refuse ON SCHEMA.deliveries',
  ],
])(
  'a server that %s while it is used is named until it works again',
  async (_, fail, repair) => {
    const { running } = await startOn(newPlaces())
    const client = new pg.Client(servers[1]?.url())
    onTestFinished(() => client.end())
    await client.connect()
    const change = async (sql: string) => {
      await client.query('SET default_transaction_read_only = off')
      await client.query(sql.replaceAll('SCHEMA', `away${schemas}`))
      await client.query('SELECT pg_reload_conf()')
    }
    const source = SOURCES[1] ?? ''
    let count = 0
    const named = async () => {
      const { status } = await send(running, source, `m${count++}`)
      const { servers } = await read<Status>(running, 'status')
      const failing = servers?.filter(({ error }) => error !== null).map(({ name }) => name)
      return [status, failing, await readyz(running)]
    }
    await change(fail)
    const away = [503, ['b'], [200, { status: 'ready', away: ['b'] }]]
    await expect.poll(named).toEqual(away)
    await change(repair)
    const works = [200, [], [200, { status: 'ready' }]]
    await expect.poll(named).toEqual(works)
  },
  120_000,
)

test('servers whose addresses are exchanged are away until they are right again, and nothing is sent twice', async () => {
  const [, b, c] = servers as [Server, Server, Server]
  await using toB = await startProxy(b.port)
  await using toC = await startProxy(c.port)
  const store = await openStore(newPlaces({ b: toB.port, c: toC.port }))
  const errors = () => store.servers?.list().map(({ error }) => error?.message ?? '')
  const claim = () => store.claim([{ destination: 'crm', lane: 'fresh', limit: 10 }])
  // A claim waits only shortly for a server that is slow to answer.
  const claimed = async () => {
    const all: Delivery[] = []
    await expect.poll(async () => all.push(...(await claim()))).toBe(2)
    return all
  }
  const told: number[] = []
  store.onSettled((taken) => told.push(...taken.map(({ id }) => id)))
  try {
    const [, ofB = '', ofC = ''] = SOURCES
    for (const source of [ofB, ofC]) await store.put([newDelivery({ source, messageId: source })])
    const leased = await claimed()
    for (const source of [ofB, ofC]) await store.put([newDelivery({ source })])

    toB.leadTo(c.port)
    toC.leadTo(b.port)
    await expect
      .poll(async () => [await claim(), errors()])
      .toEqual([
        [],
        [
          '',
          expect.stringContaining('the database of b is that of the server c'),
          expect.stringContaining('the database of c is that of the server b'),
        ],
      ])
    await expect(store.put([newDelivery({ source: ofB })])).rejects.toMatchObject({
      isUnreachable: true,
      server: 'b',
    })
    const settling = store.settle(leased.map((delivery) => settlement(delivery)))

    toB.leadTo(b.port)
    toC.leadTo(c.port)
    await expect.poll(errors).toEqual(['', '', ''])
    expect(await settling).toBe(0)
    await expect.poll(async () => (await store.stats())[0]?.leased).toBe(0)
    const ids = leased.map(({ id }) => id)
    await expect.poll(() => told.toSorted((x, y) => x - y)).toEqual(ids.toSorted((x, y) => x - y))
    await claimed()
    expect(await claim()).toEqual([])
  } finally {
    await store.close()
  }
})

test('an empty server in the place of another one takes only what that one has', async () => {
  const [, b] = servers as [Server, Server]
  const empty = await startServer({ fsync: 'off' })
  onTestFinished(() => empty.dispose())
  await using proxy = await startProxy(b.port)
  const reasons: string[] = []
  const note = ({ error }: { error?: unknown }) => void reasons.push(String(error))
  const log = { ...silent, warn: note, error: note }
  const { running, receiver } = await startOn(newPlaces({ b: proxy.port }), log)
  const statuses = async (round: string) => {
    const answers = SOURCES.map((source) => send(running, source, `${round}-${source}`))
    return (await Promise.all(answers)).map(({ status }) => status)
  }
  expect(await statuses('before')).toEqual([200, 200, 200])

  proxy.leadTo(empty.port)
  await expect.poll(() => readyz(running)).toEqual([200, { status: 'ready', away: ['b'] }])
  expect(await statuses('away')).toEqual([200, 503, 200])
  // The log says it, and no more than once for each reason.
  await expect
    .poll(() => reasons.at(-1))
    .toMatch(/expected its messages, got a database that has never been a part of this store/)
  expect(new Set(reasons).size).toBe(reasons.length)

  proxy.leadTo(b.port)
  await expect.poll(() => readyz(running)).toEqual([200, { status: 'ready' }])
  // It takes calls once it has taken the results of what was under way.
  await expect.poll(() => statuses('away')).toEqual([200, 200, 200])
  // If the answer to a claim was lost when the proxy turned away, its message waits for the end of the lease.
  const arrived = () => receiver.received.map(({ headers }) => headers['x-message-id'])
  const sent = ['before', 'away'].flatMap((round) => SOURCES.map((one) => `${round}-${one}`))
  await expect.poll(() => arrived().sort()).toEqual(sent.sort())
})
