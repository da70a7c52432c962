import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { Outcome } from '../../src/model/outcome.js'
import { tellAll, type Observer } from '../../src/observe/events.js'
import { Metrics, type MetricSources } from '../../src/observe/metrics.js'
import { createObservers, type ObserversParts } from '../../src/observe/observers.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  KEY,
  post,
  settingsFor,
  silent,
  start,
  track,
} from '../run.js'
import { parseScrape } from './scrape.js'

const scrape = async ({ url }: RunningDestination, headers = {}): Promise<Response> =>
  await fetch(`${url}/metrics`, { headers })

/** Sends a call with two numbers that are forwarded with other values. */
async function postHugeNumbers({ url }: RunningDestination): Promise<void> {
  const numbers = '[1e400,5e-400,1]'
  const response = await fetch(`${url}/v1/track`, {
    method: 'POST',
    body: `{"userId":"u","event":"E","properties":{"a":${numbers}},"writeKey":"${KEY}"}`,
  })
  expect(response.status).toBe(200)
}

const BEARER = { Authorization: `Bearer ${ADMIN_TOKEN}` }

const samples = async (running: RunningDestination) =>
  parseScrape(await (await scrape(running, BEARER)).text())

const idleMetrics = (sources: Partial<MetricSources> = {}) =>
  new Metrics({
    stats: () => Promise.resolve([]),
    queues: () => [],
    paused: () => ['crm'],
    isStoreUp: () => Promise.resolve(true),
    ...sources,
  })

describe('the metrics', () => {
  test('tell what came, what was sent, and what waits', async () => {
    const [well, ill] = [await endpoint(204), await endpoint(503)]
    const running = await start(
      settingsFor([
        destination([{ url: `${well.url}?key=hush` }], { name: 'well' }),
        destination([ill], { name: 'ill' }),
      ]),
    )
    await post(running, [track('m1'), track('m2'), { type: 'nothing' }])
    await post(running, [track('m1')])
    await post(running, [track('m3')], 'wrong-key')
    const wanted = {
      'hookline_requests_total{source="web",answer="partly"}': 1,
      'hookline_requests_total{source="web",answer="ok"}': 1,
      'hookline_requests_total{source="",answer="unknown_write_key"}': 1,
      'hookline_calls_total{source="web",answer="accepted"}': 3,
      'hookline_calls_total{source="web",answer="unknown_type"}': 1,
      'hookline_duplicates_total{source="web",destination="well"}': 1,
      'hookline_duplicates_total{source="web",destination="ill"}': 1,
      hookline_store_commit_duration_seconds_count: 2,
      [`hookline_attempts_total{destination="well",endpoint="${well.url}",outcome="delivered"}`]: 2,
      [`hookline_attempts_total{destination="ill",endpoint="${ill.url}",outcome="server_error"}`]: 2,
      [`hookline_attempt_duration_seconds_count{destination="well",endpoint="${well.url}"}`]: 2,
      'hookline_messages_total{destination="well",result="delivered"}': 2,
      'hookline_messages_total{destination="ill",result="delivered"}': 0,
      'hookline_pending_messages{destination="ill",state="backlog"}': 2,
      'hookline_pending_messages{destination="well",state="backlog"}': 0,
      'hookline_pending_messages{destination="well",state="bulk"}': 0,
      'hookline_oldest_pending_age_seconds{destination="well"}': 0,
      'hookline_dead_letters{destination="ill"}': 0,
      hookline_store_up: 1,
      [`hookline_endpoint_breakers{destination="well",endpoint="${well.url}",state="closed"}`]: 1,
      [`hookline_endpoint_breakers{destination="well",endpoint="${well.url}",state="open"}`]: 0,
      [`hookline_endpoint_requests{destination="well",endpoint="${well.url}"}`]: 0,
    }
    await expect.poll(async () => Object.fromEntries(await samples(running))).toMatchObject(wanted)
    const text = await (await scrape(running, BEARER)).text()
    expect(text).not.toContain('hush')
    expect(
      (await samples(running)).get('hookline_oldest_pending_age_seconds{destination="ill"}'),
    ).toBeGreaterThan(0)
  })

  test('count the numbers that are forwarded with other values', async () => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    await postHugeNumbers(running)
    expect((await samples(running)).get('hookline_changed_numbers_total{source="web"}')).toBe(2)
  })

  test('count no numbers of a source that no destination takes', async () => {
    const running = await start(settingsFor([]))
    await postHugeNumbers(running)
    const counted = (await samples(running)).get('hookline_changed_numbers_total{source="web"}')
    expect(counted ?? 0).toBe(0)
  })

  test('have as many series after a thousand messages as after one', { tags: 'long' }, async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const series = async () => Array.from((await samples(running)).keys()).filter(isOwn)
    await post(running, [track('first')])
    await crm.has(1)
    await expect.poll(series).toContainEqual(expect.stringMatching(/"delivered"} *$/))
    const before = await series()
    const calls = Array.from({ length: 1_000 }, (_, i) => track(`m${i}`, { userId: `u${i}` }))
    await post(running, calls)
    await crm.has(1_001)
    expect(await series()).toEqual(before)
  })

  test('forget an endpoint that the settings no longer have, and count on for the others', async () => {
    const [former, crm] = [await endpoint(), await endpoint()]
    const to = (...urls: string[]) => destination(urls.map((url) => ({ url })))
    const settings = settingsFor([to(`${crm.url}?key=1`, former.url)])
    const running = await start(settings)
    const attempts = async (name: string) =>
      Array.from(await samples(running)).filter(([series]) => series.startsWith(name))
    const countsOf = (one: { url: string }, count: number) => [
      `hookline_attempts_total{destination="crm",endpoint="${one.url}",outcome="delivered"}`,
      count,
    ]
    await post(running, [track('m1')])
    await expect
      .poll(() => attempts('hookline_attempts_total'))
      .toEqual([countsOf(crm, 1), countsOf(former, 1)])
    await running.reload({ ...settings, destinations: [to(`${crm.url}?key=2`)] })
    await post(running, [track('m2')])
    await expect.poll(() => attempts('hookline_attempts_total')).toEqual([countsOf(crm, 2)])
    expect(await attempts('hookline_attempt_duration_seconds_count')).toEqual([
      [`hookline_attempt_duration_seconds_count{destination="crm",endpoint="${crm.url}"}`, 2],
    ])
    await running.reload({ ...settings, destinations: [] })
    await expect.poll(() => attempts('hookline_attempt')).toEqual([])
    await expect
      .poll(() => attempts('hookline_messages_total'))
      .toContainEqual(['hookline_messages_total{destination="crm",result="delivered"}', 2])
  })

  test.each(['the former', 'another'])(
    'forget an endpoint also if %s endpoint answers its last message after the change',
    async (late) => {
      const [former, crm] = [await endpoint(), await endpoint()]
      let end = () => undefined as unknown
      const slow = late === 'another' ? crm : former
      slow.answer((response) => (end = () => response.writeHead(204).end()))
      const settings = settingsFor([destination([{ url: former.url }, { url: crm.url }])])
      const running = await start(settings)
      await post(running, [track('m1')])
      await Promise.all([former.has(1), crm.has(1)])
      await running.reload({ ...settings, destinations: [destination([{ url: crm.url }])] })
      end()
      const attempts = async () =>
        Array.from(await samples(running)).filter(([one]) => one.startsWith('hookline_attempts'))
      const series = `hookline_attempts_total{destination="crm",endpoint="${crm.url}",outcome="delivered"}`
      await expect.poll(attempts).toEqual([[series, 1]])
    },
  )

  test('have as many series however often a URL is changed', async () => {
    const metrics = idleMetrics()
    const outcome = { code: 'delivered', ms: 3 } as Outcome
    for (let i = 0; i < 100; i++) {
      const url = `https://crm.example.com/${i}?key=${i}`
      metrics.attempted({ destination: 'crm' }, [{ url, outcome }])
      await metrics.keep({ destinations: [destination([{ url }])] })
    }
    const series = Array.from(parseScrape(await metrics.text()).keys())
    expect(series.filter((one) => one.startsWith('hookline_attempts_total'))).toEqual([
      'hookline_attempts_total{destination="crm",endpoint="https://crm.example.com/99",outcome="delivered"}',
    ])
  })

  test('are there when the store is not', async () => {
    const metrics = idleMetrics({ stats: () => Promise.reject(new Error('the disk is gone')) })
    metrics.callsCounted('web', 'store_unavailable', 3)
    expect(Object.fromEntries(parseScrape(await metrics.text()))).toMatchObject({
      hookline_store_up: 0,
      'hookline_destination_paused{destination="crm"}': 1,
      'hookline_calls_total{source="web",answer="store_unavailable"}': 3,
    })
  })
})

test('the metric of the store says the same as /readyz when the store takes no calls', async () => {
  const store = { ping: () => Promise.resolve(), stats: () => Promise.resolve([]) }
  const idle = { stalledMs: () => 0, hasClaimFailed: false, isFailing: false }
  const deliverer = { dispatcher: idle, settler: idle, queues: [] }
  let elapsedMs = 0
  const now = () => elapsedMs
  const observers: Observer[] = []
  const { metrics, readiness } = createObservers(
    {
      store,
      deliverer,
      pauses: { names: () => [] },
      log: silent,
      now,
    } as unknown as ObserversParts,
    observers,
  )
  const events = tellAll(observers)
  const both = async () => [
    parseScrape(await metrics.text()).get('hookline_store_up'),
    (await readiness.reasons()).map(({ code }) => code),
  ]
  expect(await both()).toEqual([1, []])
  events.storeRefused(new Error('the disk is full'))
  expect(await both()).toEqual([0, ['store_unavailable']])
  elapsedMs = 10_000
  expect(await both()).toEqual([1, []])
  idle.isFailing = true
  expect(await both()).toEqual([0, ['store_unavailable']])
  idle.isFailing = false
  store.ping = () => Promise.reject(new Error('gone'))
  expect(await both()).toEqual([0, ['store_unavailable']])
})

const isOwn = (series: string) => series.startsWith('hookline_')

describe('who reads them', () => {
  test('needs the token of the settings, on this machine too', async () => {
    const running = await start(settingsFor([]))
    const refused = await scrape(running)
    expect([refused.status, await refused.json()]).toMatchObject([401, { code: 'no_admin_token' }])
    const forwarded = { 'X-Forwarded-For': '203.0.113.7' }
    expect((await scrape(running, forwarded)).status).toBe(401)
    const wrong = await scrape(running, { ...forwarded, Authorization: 'Bearer x' })
    expect([wrong.status, await wrong.json()]).toMatchObject([401, { code: 'wrong_admin_token' }])
    expect((await scrape(running, { ...forwarded, ...BEARER })).status).toBe(200)
  })

  test('without a token in the settings is told so', async () => {
    const running = await start(settingsFor([], { adminToken: undefined }))
    for (const headers of [{}, { Via: '1.1 proxy' }]) {
      const refused = await scrape(running, headers)
      expect([refused.status, await refused.json()]).toMatchObject([
        403,
        { code: 'admin_disabled' },
      ])
    }
  })

  test('needs none at a loopback address of the operator, if the settings have none', async () => {
    const adminListen = { host: '127.0.0.1', port: 0 }
    const running = await start(settingsFor([], { adminToken: undefined, adminListen }))
    expect((await scrape({ ...running, url: running.adminUrl })).status).toBe(200)
    expect((await scrape(running)).status).toBe(404)
  })
})

test('every metric of the dashboard and of the readme is there, and each that is there is in the readme', async () => {
  const crm = await endpoint()
  const webhooks = [{ url: crm.url, headers: {}, concurrency: 128, rateLimit: 1_000 }]
  const filters = [{ events: { deny: ['Order Viewed'] } }]
  const quiet = destination([crm], { name: 'quiet', sources: [] })
  const refused = destination([await endpoint(400)], { name: 'refused' })
  const running = await start(
    settingsFor([destination([crm], { webhooks, filters }), quiet, refused], {
      alerts: { afterMs: [3_600_000], deadLetters: { count: 1, withinMs: 60_000 } },
    }),
  )
  await post(running, [track('m1'), track('m2', { event: 'Order Viewed' })])
  await post(running, [track('m1')])
  await postHugeNumbers(running)
  await crm.has(2)
  await fetch(`${running.adminUrl}/v1/admin/destinations/quiet/pause`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    body: '{"reason":"maintenance"}',
  })
  const names = async () =>
    new Set(Array.from((await samples(running)).keys(), (series) => series.replace(/\{.*/, '')))
  await expect.poll(names).toContain('hookline_attempt_duration_seconds_bucket')
  await expect.poll(names).toContain('hookline_alerts_total')
  const known = await names()
  // Only a store of several servers has it; `store/several/away.fault.test.ts` reads it.
  known.add('hookline_store_server_up')
  const file = new URL('../../grafana/hookline-destination.json', import.meta.url)
  const { panels, templating } = JSON.parse(readFileSync(file, 'utf8')) as {
    panels: { title: string; targets: { expr: string }[] }[]
    templating: { list: { query: { query: string } | string }[] }
  }
  const queries = [
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    ...templating.list.map(({ query }) => (typeof query === 'string' ? '' : query.query)),
  ]
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  for (const [name] of readme.matchAll(/\bhookline_[a-z_]+/g)) {
    expect(known.has(name) || known.has(`${name}_bucket`), name).toBe(true)
  }
  for (const name of known) {
    if (name.startsWith('hookline_')) {
      expect(readme).toContain(name.replace(/_(?:bucket|sum|count)$/, ''))
    }
  }
  const used = queries.flatMap((query) => query.match(/\b(?:hookline|nodejs|process)_\w+/g) ?? [])
  expect(new Set(used).size).toBeGreaterThan(12)
  for (const name of used) expect(known, name).toContain(name)
})

describe('the names of the metrics', () => {
  // The rules of `promtool check metrics`: https://prometheus.io/docs/practices/naming/
  const UNITS =
    /_(?:s|ms|us|ns|sec|secs|milliseconds|minutes|hours|days|kb|mb|gb|kilobytes|megabytes|percent|percentage)(?:_|$)/

  test('follow the rules of Prometheus', async () => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    await post(running, [track('m1')])
    await crm.has(1)
    const text = await (await scrape(running, BEARER)).text()
    const types = Array.from(
      text.matchAll(/^# TYPE (\S+) (\S+)$/gm),
      ([, name = '', type = '']) => ({
        name,
        type,
      }),
    )
    expect(types.length).toBeGreaterThan(30)
    const isWrong = ({ name, type }: { name: string; type: string }) =>
      name.endsWith('_total') !== (type === 'counter') ||
      /_(?:count|sum|bucket|info_total)$/.test(name) ||
      !/^[a-z][a-z0-9_]*$/.test(name) ||
      /(?:^|_)(?:counter|gauge|histogram|summary)(?:_|$)/.test(name) ||
      UNITS.test(name)
    expect(types.filter(isWrong)).toEqual([])
    const helps = new Set(Array.from(text.matchAll(/^# HELP (\S+) \S/gm), ([, name]) => name))
    expect(types.filter(({ name }) => !helps.has(name))).toEqual([])
    expect(new Set(types.map(({ name }) => name)).size).toBe(types.length)
  })
})
