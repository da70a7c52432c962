// Clients of other projects must work unchanged. Each test sends every call that such a client has.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import RudderAnalytics from '@rudderstack/rudder-sdk-node'
import { Analytics as SegmentAnalytics } from '@segment/analytics-node'
import { Analytics, type FetchInit } from 'hookline'
import { expect, test } from 'vitest'
import type { Call } from '../../src/model/call.js'
import { KEY, startCollector, type Started } from './start.js'

const run = promisify(execFile)

const PAST = new Date('2020-01-02T03:04:05.678Z')

/** The accepted calls by type, without the fields that differ from run to run. Every call must come from the source. */
function callsOf({ accepted }: Started): Record<string, object> {
  const found: Record<string, object> = {}
  for (const { source, calls } of accepted) {
    expect(source).toBe('web')
    for (const { messageId, timestamp, context, ...call } of calls) {
      expect(messageId).toMatch(/[\da-f-]{36}$/)
      if (call.type === 'track') expect(timestamp).toBe(PAST.toISOString())
      else expect(Math.abs(Date.parse(timestamp) - Date.now())).toBeLessThan(60_000)
      expect(context?.['library']).toEqual({
        name: expect.any(String) as string,
        version: expect.any(String) as string,
      })
      found[call.type] = call
    }
  }
  return found
}

const identify: Partial<Call> = { type: 'identify', userId: 'u', traits: { plan: 'pro', age: 3 } }
const track: Partial<Call> = {
  type: 'track',
  anonymousId: 'a',
  event: 'Order Completed',
  properties: { total: 1.5 },
}
const page: Partial<Call> = {
  type: 'page',
  userId: 'u',
  category: 'Docs',
  name: 'Home',
  properties: { url: 'https://a.example/' },
}
const screen: Partial<Call> = { type: 'screen', userId: 'u', name: 'Home', properties: { tab: 1 } }
const group: Partial<Call> = { type: 'group', userId: 'u', groupId: 'g', traits: { seats: 5 } }
const alias: Partial<Call> = { type: 'alias', userId: 'u', previousId: 'p' }

interface AnyClient {
  identify(call: object): unknown
  track(call: object): unknown
  page(call: object): unknown
  screen(call: object): unknown
  group(call: object): unknown
  alias(call: object): unknown
}

/** The calls above, as a client for Node makes them. */
function makeEachCall(client: AnyClient): void {
  client.identify({ userId: 'u', traits: { plan: 'pro', age: 3 } })
  client.track({
    anonymousId: 'a',
    event: 'Order Completed',
    properties: { total: 1.5 },
    timestamp: PAST,
    integrations: { All: false },
  })
  client.page({
    userId: 'u',
    category: 'Docs',
    name: 'Home',
    properties: { url: 'https://a.example/' },
  })
  client.screen({ userId: 'u', name: 'Home', properties: { tab: 1 } })
  client.group({ userId: 'u', groupId: 'g', traits: { seats: 5 } })
  client.alias({ userId: 'u', previousId: 'p' })
}

test("Segment's client for Node", async () => {
  const started = await startCollector()
  const client = new SegmentAnalytics({ writeKey: KEY, host: started.url })
  client.on('error', ({ reason }) => {
    throw new Error(String(reason))
  })
  makeEachCall(client)
  await client.closeAndFlush()

  const integrations = {}
  expect(callsOf(started)).toEqual({
    identify: { ...identify, integrations },
    track: { ...track, integrations: { All: false } },
    page: { ...page, properties: { url: 'https://a.example/', category: 'Docs' }, integrations },
    screen: { ...screen, integrations },
    group: { ...group, integrations },
    alias: { ...alias, integrations },
  })
})

test.each([true, false])("RudderStack's client for Node, gzip %j", async (gzip) => {
  const started = await startCollector()
  const client = new RudderAnalytics(KEY, {
    dataPlaneUrl: started.url,
    gzip,
    flushAt: 100,
    flushInterval: 1_000_000,
  })
  makeEachCall(client)
  await client.flush() // the first call went out on its own, at once
  await expect.poll(() => started.accepted.flatMap(({ calls }) => calls).length).toBe(6)

  expect(callsOf(started)).toEqual({
    identify,
    track: { ...track, integrations: { All: false } },
    page,
    screen,
    group,
    alias,
  })
})

test.each([true, false])('the client of this repository, gzip %j', async (gzip) => {
  const started = await startCollector()
  const lost: unknown[] = []
  const client = new Analytics(KEY, {
    endpoint: started.url,
    gzip,
    onFailed: (report) => lost.push(report),
  })
  client.identify({ userId: 'u', traits: { plan: 'pro', age: 3 } })
  client.track({
    anonymousId: 'a',
    event: 'Order Completed',
    properties: { total: 1.5 },
    timestamp: PAST,
    integrations: { All: false },
  })
  client.page({
    userId: 'u',
    category: 'Docs',
    name: 'Home',
    traits: { url: 'https://a.example/' },
  })
  client.screen({ userId: 'u', name: 'Home', traits: { tab: 1 } })
  client.group({ userId: 'u', groupId: 'g', traits: { seats: 5 } })
  client.alias({ userId: 'u', previousId: 'p' })
  expect(await client.flush()).toEqual({ delivered: 6, failed: 0 })
  await client.close()

  expect(lost).toEqual([])
  expect(callsOf(started)).toEqual({
    identify,
    track: { ...track, integrations: { All: false } },
    page,
    screen,
    group,
    alias,
  })
})

test('the client of this repository loses only the calls that were rejected', async () => {
  const started = await startCollector()
  const reasons: string[] = []
  const client = new Analytics(KEY, {
    endpoint: started.url,
    onFailed: ({ error }) => reasons.push(error.message),
    // The client refuses such an id at the call, so it is put in on the way.
    fetch: (url, init: FetchInit) => {
      const body = Buffer.from(init.body).toString().replace('"bad"', '"u\\u0000"')
      return fetch(url, { ...init, body })
    },
  })
  client.track({ userId: 'u', event: 'Good' })
  client.track({ userId: 'bad', event: 'Bad' })
  client.track({ userId: 'u', event: 'Good too' })
  expect(await client.flush()).toEqual({ delivered: 2, failed: 1 })
  await client.close()
  expect(reasons).toEqual([expect.stringContaining('userId must be free of NUL characters')])
  expect(started.accepted[0]?.calls.map(({ event }) => event)).toEqual(['Good', 'Good too'])
})

test('curl, with a body as it sends one by default', async () => {
  const { url, accepted } = await startCollector()
  const body = '{"userId": 42, "event": "Signed Up", "timestamp": "2020-01-02T03:04:05.678+0000"}'
  const { stdout } = await run('curl', ['-sS', '-u', `${KEY}:`, '-d', body, `${url}/v1/track`])
  expect(stdout).toBe('{"success":true}')
  expect(accepted).toMatchObject([
    {
      source: 'web',
      calls: [{ type: 'track', userId: '42', event: 'Signed Up', timestamp: PAST.toISOString() }],
    },
  ])
})

test('curl, with gzip from a pipe', async () => {
  const { url, accepted } = await startCollector()
  const encoding = ['-H', 'Content-Encoding: gzip', '-H', 'Content-Type:', '--data-binary', '@-']
  const curl = run('curl', ['-sS', '-u', KEY + ':', ...encoding, `${url}/v1/batch`])
  curl.child.stdin?.end(gzipSync('{"batch":[{"type":"alias","userId":"u","previousId":"p"}]}'))
  expect((await curl).stdout).toBe('{"success":true}')
  expect(accepted).toMatchObject([{ calls: [alias] }])
})

test('curl hears why it was refused', async () => {
  const { url } = await startCollector()
  const { stdout } = await run('curl', [
    '-sS',
    '-w',
    ' %{http_code}',
    '-d',
    '{}',
    `${url}/v1/track`,
  ])
  expect(stdout).toMatch(/^\{"success":false,"code":"no_write_key",.* 401$/)
})

// The requests of the default settings of these clients, by their sources: analytics-ruby 2.5 (`transport.rb`) and
// analytics-java 3.5 (`SegmentService.java`, `Batch.java`).
test.each([
  [
    "Segment's client for Ruby",
    { 'Content-Type': 'application/json', Accept: 'application/json' },
    {
      sentAt: new Date().toISOString(),
      batch: [
        {
          type: 'track',
          event: 'Order Completed',
          anonymousId: 'a',
          properties: { total: 1.5 },
          messageId: '5a5a5a5a-0000-4000-8000-000000000001',
          timestamp: PAST.toISOString(),
          context: { library: { name: 'analytics-ruby', version: '2.5.0' } },
        },
      ],
    },
  ],
  [
    "Segment's client for Java",
    { 'Content-Type': 'application/json; charset=UTF-8' },
    {
      batch: [
        {
          type: 'track',
          event: 'Order Completed',
          anonymousId: 'a',
          properties: { total: 1.5 },
          messageId: '5a5a5a5a-0000-4000-8000-000000000002',
          timestamp: PAST.toISOString(),
        },
      ],
      sentAt: new Date().toISOString(),
      context: { library: { name: 'analytics-java', version: '3.5.0' } },
      sequence: 1,
      writeKey: KEY,
    },
  ],
])('%s, which posts to /v1/import', async (_client, headers, body) => {
  const started = await startCollector()
  const response = await fetch(`${started.url}/v1/import`, {
    method: 'POST',
    headers: { ...headers, Authorization: `Basic ${btoa(`${KEY}:`)}` },
    body: JSON.stringify(body),
  })
  expect([response.status, await response.json()]).toEqual([200, { success: true }])
  expect(callsOf(started)).toEqual({ track })
})
