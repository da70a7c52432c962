// The answers of running destinations to good and wrong requests are those of docs/openapi.yaml.
// @module-tag long
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { SettingsExport } from '../../src/model/answers.js'
import type { Settings } from '../../src/settings/settings.js'
import { loadDriver } from '../../src/store/sqlite/driver.js'
import { startEndpoint, type TestEndpoint } from '../endpoint.js'
import { destination, KEY, settingsFor, silent, start, track, type Later } from '../run.js'
import { slowBody } from '../slow-body.js'
import {
  document,
  errorsOfAnswer,
  errorsOfRequest,
  placeOf,
  places,
  strictErrorsOf,
  type Place,
} from './document.js'
import { allowed, BASIC, BEARER, credentialsOf, HOUSE, linkOf, pathOf, textOf } from './requests.js'

/** Answers that no request of this test gets, and why. */
const NOT_ASKED_FOR: Record<string, string> = {}

/** The codes that say that the request is not as the document says. */
const OF_WRONG_REQUESTS = [
  'all_rejected',
  'empty_batch',
  'invalid_batch',
  'invalid_json',
  'invalid_members',
  'invalid_parameter',
  'invalid_user',
]

/** The answers that came: `GET /metrics 200`. */
const seen = new Set<string>()

const cleanUps: (() => unknown)[] = []
const afterwards: Later = (cleanUp) => cleanUps.unshift(cleanUp)

afterAll(async () => {
  for (const cleanUp of cleanUps) await cleanUp()
})

interface Asked {
  body?: string | Uint8Array | undefined
  mediaType?: string
  /** By default the one that the operation needs. */
  authorization?: string | null
  headers?: Record<string, string>
}

interface Got {
  status: number
  /** The parsed body, or its text. */
  body: unknown
}

/** Sends a request, and compares it and its answer with the document. */
async function ask(base: string, method: string, path: string, asked: Asked = {}): Promise<Got> {
  const { body, mediaType = 'application/json', authorization, headers = {} } = asked
  const url = `${base}${path}`
  const place = placeOf(method, url)
  if (!place) throw new Error(`The document has no ${method} ${path}.`)
  const credentials = authorization === undefined ? credentialsOf(place) : authorization
  const response = await fetch(url, {
    method,
    ...(body !== undefined && { body: body as BodyInit }),
    headers: {
      ...(body !== undefined && { 'Content-Type': mediaType }),
      ...(credentials !== null && { Authorization: credentials }),
      ...headers,
    },
  })
  const text = await response.text()
  const which = `${method} ${path} ${response.status}`
  expect(errorsOfAnswer(place, response, text), which).toEqual([])
  seen.add(`${place.method} ${place.path} ${response.status}`)
  const got = { status: response.status, body: toJson(text) }
  if (typeof body === 'string' || body === undefined) {
    checkRequest(errorsOfRequest(place, url, mediaType, body, headers), got, which)
  }
  return got
}

/** A request is accepted if and only if the document allows it. */
function checkRequest(errors: string[], { status, body }: Got, which: string): void {
  if (status === 200) expect(errors, which).toEqual([])
  const { code, error } = body as { code?: string; error?: { code?: string } }
  if (OF_WRONG_REQUESTS.includes(code ?? error?.code ?? '')) {
    expect(errors, `${which}: ${JSON.stringify(body)}`).not.toEqual([])
  }
}

function toJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const withBody = places.filter(({ operation }) => operation.requestBody)
const ofCalls = withBody.filter(({ operation }) => 'WriteKey' in (operation.security[0] ?? {}))
const ofOperator = places.filter(({ operation }) => 'AdminToken' in (operation.security[0] ?? {}))

const ofPortal = places.filter(({ path }) => path.startsWith('/v1/portal/'))

const ofSettings = places.filter(({ path }) =>
  /^\/v1\/admin\/(sources|destinations|tenants)\/\{name\}(\/rotation)?$/.test(path),
)

/** Starts a destination, and returns its servers as well. */
async function startWithServers(
  settings: Settings,
): Promise<{ running: RunningDestination; apps: FastifyInstance[] }> {
  const apps: FastifyInstance[] = []
  const listen = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance }
    apps.push(fastify)
    fastify.addHook('preHandler', (request, _reply, next) => {
      next(request.headers['x-fail'] === undefined ? undefined : new Error('on request'))
    })
  }
  subscribe('fastify.initialization', listen)
  try {
    return { running: await start(settings, silent, afterwards), apps }
  } finally {
    unsubscribe('fastify.initialization', listen)
  }
}

const startOne = async (...script: Parameters<typeof startEndpoint>): Promise<TestEndpoint> => {
  const started = await startEndpoint(...script)
  afterwards(() => started[Symbol.asyncDispose]())
  return started
}

describe('the answers', () => {
  let url: string
  let running: RunningDestination
  let settings: Settings

  beforeAll(async () => {
    const crm = await startOne()
    settings = settingsFor(
      [destination([crm]), destination([crm], { name: 'fixed', tenant: 'house', sources: [] })],
      {
        sources: [
          { name: 'web', writeKey: KEY },
          { name: 'limited', writeKey: 'l', rateLimit: { callsPerSecond: 1, burst: 1 } },
        ],
        tenants: [HOUSE, { name: 'bare', portal: { editUrls: false } }],
        settingsKeys: [Buffer.alloc(32).toString('base64')],
      },
      afterwards,
    )
    ;({ running } = await startWithServers(settings))
    url = running.url
    for (const { path, operation } of ofSettings.filter(({ method }) => method === 'PUT')) {
      const [example] = Object.values(
        operation.requestBody?.content['application/json']?.examples ?? {},
      )
      const body = textOf(example?.value)
      expect(await ask(url, 'PUT', pathOf({ path }), { body })).toMatchObject({ status: 201 })
    }
    const own = { tenant: 'house', sources: ['own'], webhooks: [{ url: crm.url }] }
    await ask(url, 'PUT', '/v1/admin/sources/own', {
      body: '{"tenant":"house","writeKey":"own-key"}',
    })
    await ask(url, 'PUT', '/v1/admin/destinations/own', { body: JSON.stringify(own) })
  })

  test.each(ofSettings)(
    'of $method $path to every mistake',
    async ({ method, path, operation }) => {
      const body = { PUT: '{}', PATCH: '{}' }[method]
      const to = (name: string, asked: Asked = {}) =>
        ask(url, method, path.replace('{name}', name), { ...(body && { body }), ...asked })
      const named = { sources: 'web', destinations: 'crm', tenants: 'house' }
      const inFile = await to(named[path.split('/')[3] as keyof typeof named])
      if (method === 'GET') expect(inFile).toMatchObject({ status: 200, body: { version: null } })
      else
        expect(inFile).toMatchObject({ status: 409, body: { error: { code: 'in_settings_file' } } })
      if ('404' in operation.responses) expect(await to('none')).toMatchObject({ status: 404 })
      if ('412' in operation.responses) {
        const headers = { 'If-Match': '"0"' }
        expect(await to('vip', { headers })).toMatchObject({ status: 412 })
      }
      const wrong = method === 'GET' ? '%zz' : 'vip'
      const headers = { 'If-Match': 'x' }
      expect(await to(wrong, { headers })).toMatchObject({ status: 400 })
      expect(await to('x'.repeat(1_001))).toMatchObject({ status: 414 })
    },
  )

  test('to settings with mistakes, rotations, the audit log, and deletions', async () => {
    for (const [kind, body] of [
      ['sources', '{"writeKey":""}'],
      ['destinations', '{"sources":["none"],"webhooks":[]}'],
    ] as const) {
      const path = `/v1/admin/${kind}/vip`
      expect(await ask(url, 'PUT', path, { body })).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_settings' } },
      })
      const rotation = `${path}/rotation`
      expect(await ask(url, 'POST', rotation)).toMatchObject({ status: 200 })
      expect(await ask(url, 'POST', rotation)).toMatchObject({ status: 409 })
      expect(await ask(url, 'DELETE', rotation)).toMatchObject({ status: 200 })
      expect(await ask(url, 'DELETE', rotation)).toMatchObject({ status: 409 })
      for (const query of ['', '?q=v&limit=1', '?after=a']) {
        expect(await ask(url, 'GET', `/v1/admin/${kind}${query}`)).toMatchObject({ status: 200 })
      }
      expect(await ask(url, 'GET', path)).toMatchObject({ status: 200 })
    }
    const tenant = '/v1/admin/tenants/vip'
    expect(await ask(url, 'PUT', tenant, { body: '{"title":""}' })).toMatchObject({ status: 400 })
    for (const path of ['/v1/admin/tenants?q=ACME&limit=1', '/v1/admin/tenants', tenant]) {
      expect(await ask(url, 'GET', path)).toMatchObject({ status: 200 })
    }
    for (const query of ['', '?kind=source&name=vip', '?kind=tenant&name=vip', '?limit=2']) {
      const got = await ask(url, 'GET', `/v1/admin/audit${query}`)
      expect(got).toMatchObject({ status: 200 })
    }
    // They are created again, because other tests need them.
    for (const { path, operation } of ofSettings
      .filter(({ method }) => method === 'PUT')
      .reverse()) {
      expect(await ask(url, 'DELETE', pathOf({ path }))).toMatchObject({ status: 200 })
      const [example] = Object.values(
        operation.requestBody?.content['application/json']?.examples ?? {},
      )
      expect(
        await ask(url, 'PUT', pathOf({ path }), { body: textOf(example?.value) }),
      ).toMatchObject({
        status: 201,
      })
    }
  })

  test('to all settings at once, and to every mistake in them', async () => {
    const path = '/v1/admin/settings'
    const apply = (body: object, headers = {}) =>
      ask(url, 'POST', path, { body: JSON.stringify(body), headers })
    const got = await ask(url, 'GET', path)
    expect(got).toMatchObject({ status: 200 })
    const { revision, settings } = got.body as SettingsExport
    expect(settings.sources.length * settings.destinations.length).toBeGreaterThan(0)
    const match = { 'If-Match': `"${revision}"` }
    expect(await apply({ settings, prune: true }, match)).toMatchObject({
      body: { dryRun: false, revision, changes: [] },
    })
    const first = settings.destinations.find(({ name }) => name === 'vip')
    const without = { settings: { sources: [] }, prune: true }
    expect(
      await apply({ settings: { destinations: [{ ...first, sources: ['vip'] }] } }),
    ).toMatchObject({
      body: { changes: [{ action: 'update' }] },
    })
    expect(await apply(without)).toMatchObject({
      status: 409,
      body: { error: { code: 'source_in_use' } },
    })
    expect(await apply({ settings }, match)).toMatchObject({ status: 412 })
    expect(await apply({ settings }, { 'If-Match': '*' })).toMatchObject({ status: 200 })
    expect(await apply({ settings: { sources: [{ name: '' }], x: 1 } })).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_settings' } },
    })
    for (const wrong of [
      {},
      { settings: [] },
      { settings: {}, dryRun: 1 },
      { settings: {}, prune: 'x' },
      { settings: {}, waiting: 'x' },
      { settings: {}, x: 1 },
    ]) {
      const code = 'invalid_parameter'
      expect(await apply(wrong)).toMatchObject({ status: 400, body: { error: { code } } })
    }
    expect(await apply({ settings: {} }, { 'If-Match': '"12"' })).toMatchObject({ status: 400 })
  })

  test.each(withBody)('to the examples of $method $path', async (place) => {
    const { requestBody } = place.operation
    const examples = Object.entries(requestBody?.content ?? {}).flatMap(([mediaType, media]) =>
      Object.values(media.examples ?? {}).map(({ value }) => ({ mediaType, body: textOf(value) })),
    )
    expect(examples.length).toBeGreaterThan(0)
    for (const { mediaType, body } of examples) {
      const { path } =
        mediaType === 'application/x-ndjson' ? { path: pathOf(place) } : allowed(place)
      expect(await ask(url, place.method, path, { mediaType, body })).toMatchObject({ status: 200 })
    }
  })

  test('to calls with numbers that change, and to those that are partly valid', async () => {
    const batch = [track('n1', { properties: { id: 0 } }), { type: 'track', userId: 'u1' }]
    const body = JSON.stringify({ batch }).replace('"id":0', '"id":12345678901234567890')
    const got = await fetch(`${url}/v1/batch`, {
      method: 'POST',
      body,
      headers: { Authorization: BASIC },
    })
    const place = placeOf('POST', `${url}/v1/batch`) as Place
    const text = await got.text()
    expect(errorsOfAnswer(place, got, text)).toEqual([])
    expect(JSON.parse(text)).toMatchObject({ warnings: [{ index: 0 }], rejected: [{ index: 1 }] })
    const numbers = Array.from({ length: 120 }, () => '1e400').join()
    const many = `{"batch":[{"type":"track","userId":"u1","event":"E","properties":{"n":[${numbers}]}}]}`
    expect((await ask(url, 'POST', '/v1/batch', { body: many })).body).toMatchObject({
      moreWarnings: 20,
    })
  })

  test.each([
    { userId: 7, event: 'E' },
    { anonymousId: 'a', event: 'E', userId: '' },
    { anonymousId: 'a', event: 'E', userId: null, messageId: 7, properties: null, context: null },
    { userId: 'u', event: 'E', messageId: null, timestamp: '2026-01-02', sentAt: false },
    {
      userId: 'u',
      event: 'E',
      timestamp: 1767323045678,
      originalTimestamp: '2026-01-02T03:04+0200',
    },
    { userId: 'u', event: 'E', type: 'track', writeKey: 7, unknown: [1] },
  ])('to the variation %j', async (call) => {
    const body = JSON.stringify(call)
    expect(await ask(url, 'POST', '/v1/track', { body })).toMatchObject({ status: 200 })
  })

  test('to a write key in the body', async () => {
    const asked = {
      authorization: null,
      body: JSON.stringify({ userId: 'u', event: 'E', writeKey: KEY }),
    }
    expect(await ask(url, 'POST', '/v1/track', asked)).toMatchObject({ status: 200 })
  })

  const WRONG_CALLS = [
    {},
    { userId: 'u' },
    { event: 'E' },
    { userId: '', event: 'E' },
    { userId: 'u', event: '' },
    { userId: 'u', event: 7 },
    { userId: 1.5, event: 'E' },
    { userId: 'a\0b', event: 'E' },
    { userId: 'u', event: 'E', messageId: 'x'.repeat(101) },
    { userId: 'u', event: 'E', messageId: 'a\nb' },
    { userId: 'u', event: 'E', messageId: '\ufffd' },
    { userId: 'u', event: 'E', timestamp: 1767323045 },
    { userId: 'u', event: 'E', properties: [] },
    { userId: 'u', event: 'E', context: 'x' },
    { userId: 'u', event: 'E', type: 'page' },
  ]

  test.each(WRONG_CALLS)('to the wrong call %j', async (call) => {
    const single = await ask(url, 'POST', '/v1/track', { body: JSON.stringify(call) })
    expect(single).toMatchObject({ status: 400, body: { code: 'all_rejected' } })
  })

  test.each([
    {},
    { batch: {} },
    { batch: [] },
    { batch: ['x'] },
    { batch: [{ userId: 'u', event: 'E' }] },
    { batch: [{ type: 'x', userId: 'u' }] },
    { batch: [{ type: 'group', userId: 'u' }] },
    { batch: [{ type: 'alias', anonymousId: 'u', previousId: 'p' }] },
    { batch: [track('m')], context: [] },
    { batch: [track('m')], integrations: 1 },
  ])('to the wrong batch %j', async (batch) => {
    for (const path of ['/v1/batch', '/v1/import']) {
      const got = await ask(url, 'POST', path, { body: JSON.stringify(batch) })
      expect(got).toMatchObject({ status: 400 })
    }
  })

  test('to too many calls', async () => {
    const batch = Array.from({ length: 2_501 }, () => ({ type: 'page', userId: 'u' }))
    const got = await ask(url, 'POST', '/v1/batch', { body: JSON.stringify({ batch }) })
    expect(got).toMatchObject({ status: 413, body: { code: 'too_many_calls' } })
  })

  test.each(withBody)('to bodies of $method $path that cannot be read', async (place) => {
    const { path, mediaType = '' } = allowed(place)
    const send = (asked: Asked) => ask(url, place.method, path, { mediaType, ...asked })
    expect(await send({ body: '{' })).toMatchObject({ status: 400 })
    expect(await send({ body: new Uint8Array([0x1f, 0x8b, 1]) })).toMatchObject({ status: 400 })
    expect(await send({ body: ' '.repeat(5_000_001) })).toMatchObject({ status: 413 })
    const headers = { 'Content-Encoding': 'br' }
    expect(await send({ body: '{}', headers })).toMatchObject({ status: 415 })
  })

  test.each([
    ['?count=x', '[]', 'invalid_parameter'],
    ['', '[]', 'no_member_count'],
    ['?count=2', '["u1"]', 'wrong_member_count'],
    ['?count=1', '[""]', 'invalid_members'],
    ['?count=1', '[1.5]', 'invalid_members'],
    ['?count=1', '{}', 'invalid_members'],
    ['?count=1', JSON.stringify(['x'.repeat(1_001)]), 'invalid_members'],
  ])('to a list with the query %j and the body %.20s', async (query, body, code) => {
    const got = await ask(url, 'PUT', `/v1/audiences/vip${query}`, { body })
    expect(got).toMatchObject({ status: 400, body: { code } })
  })

  test('to an audience without a name, or with a wrong content type', async () => {
    const put = (path: string, mediaType = 'application/json') =>
      ask(url, 'PUT', `/v1/audiences/${path}?count=0`, { mediaType, body: '[]' })
    expect(await put('!')).toMatchObject({ status: 400, body: { code: 'invalid_audience' } })
    expect(await put('%zz')).toMatchObject({ status: 400, body: { code: 'bad_request' } })
    expect(await put('vip', 'x')).toMatchObject({ status: 415, body: { code: 'bad_request' } })
    expect(await put('x'.repeat(1_001))).toMatchObject({ status: 414 })
  })

  test('to a list that a newer one replaces', async () => {
    const lines = slowBody('"u"\n'.repeat(1_000), '{"end":1000}\n')
    const headers = { Authorization: BEARER, 'Content-Type': 'application/x-ndjson' }
    const request = { method: 'PUT', body: lines.body, duplex: 'half', headers } as RequestInit
    const older = fetch(`${url}/v1/audiences/raced`, request)
    // A list with the first piece of the older one changes nothing as soon as the older one has begun.
    const newer = { body: '["u"]' }
    await expect
      .poll(async () => (await ask(url, 'PUT', '/v1/audiences/raced?count=1', newer)).body)
      .toMatchObject({ joined: 0 })
    lines.goOn()
    expect((await checked('PUT', await older)).status).toBe(409)
  })

  test.each([[{}], [{ userId: '' }], [{ userId: 1.5 }], [{ userId: [] }], [[]]])(
    'to the wrong deletion %j',
    async (body) => {
      const got = await ask(url, 'POST', '/v1/deletions', { body: JSON.stringify(body) })
      expect(got).toMatchObject({ status: 400 })
    },
  )

  test.each([
    {},
    { ids: [] },
    { ids: [0] },
    { ids: ['1'] },
    { ids: [1], all: true },
    { all: false },
    { all: true, force: true },
    { filter: {} },
    { filter: { match: 'prefix' } },
    { filter: { destination: 'crm' }, force: true },
    { filter: { status: '6' } },
    { filter: { messageId: 'm' } },
    { filter: { destination: 1 } },
    { messageId: 'm', dryRun: 1 },
    { messageId: 'm', confirm: -1 },
    { messageId: 'm', x: 1 },
  ])('to the wrong replay %j', async (body) => {
    const got = await ask(url, 'POST', '/v1/admin/replay', { body: JSON.stringify(body) })
    expect(got).toMatchObject({ status: 400, body: { error: { code: 'invalid_parameter' } } })
  })

  test.each([
    {},
    { destination: 'crm' },
    { latest: 1 },
    { destination: 7, latest: 1 },
    { destination: 'crm', sources: ['web'], latest: 1 },
    { sources: 'web', latest: 1 },
    { sources: [7], latest: 1 },
    { destination: 'crm', latest: 0 },
    { destination: 'crm', latest: 201 },
    { destination: 'crm', latest: '5' },
    { destination: 'crm', latest: 1, call: { type: 'page', userId: 'u' } },
    { destination: 'crm', call: { type: 'page' } },
    { destination: 'crm', call: [] },
    { destination: 'crm', latest: 1, x: 1 },
  ])('to the wrong preview %j', async (body) => {
    const got = await ask(url, 'POST', '/v1/admin/filters/preview', { body: JSON.stringify(body) })
    expect(got).toMatchObject({ status: 400, body: { error: { code: 'invalid_parameter' } } })
  })

  test('to a preview of wrong filters, and for a destination that there is not', async () => {
    const preview = (body: object) =>
      ask(url, 'POST', '/v1/admin/filters/preview', {
        body: JSON.stringify({ latest: 1, ...body }),
      })
    expect(await preview({ destination: 'crm', filters: [{}] })).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_filters' } },
    })
    expect(await preview({ destination: 'x' })).toMatchObject({ status: 404 })
  })

  test('to a replay whose count has changed', async () => {
    const got = await ask(url, 'POST', '/v1/admin/replay', { body: '{"all":true,"confirm":99}' })
    expect(got).toMatchObject({ status: 409 })
  })

  test.each([{ types: [] }, { types: 'track' }, { types: ['x'] }, { x: 1 }])(
    'to the wrong test %j',
    async (body) => {
      const path = '/v1/admin/destinations/crm/test'
      const got = await ask(url, 'POST', path, { body: JSON.stringify(body) })
      expect(got).toMatchObject({ status: 400, body: { error: { code: 'invalid_parameter' } } })
    },
  )

  test.each([{}, { reason: '' }, { reason: ' ' }, { reason: 1 }, { reason: 'r', x: 1 }])(
    'to the wrong pause %j',
    async (body) => {
      const path = '/v1/admin/destinations/crm/pause'
      const got = await ask(url, 'POST', path, { body: JSON.stringify(body) })
      expect(got).toMatchObject({ status: 400, body: { error: { code: 'invalid_parameter' } } })
    },
  )

  test('to a pause and its end, also of a destination that does not exist', async () => {
    const of = (name: string, action: string) => `/v1/admin/destinations/${name}/${action}`
    const body = '{"reason":"maintenance"}'
    expect(await ask(url, 'POST', of('crm', 'pause'), { body })).toMatchObject({
      body: { destination: 'crm', paused: { reason: 'maintenance', by: 'operator' } },
    })
    expect(await ask(url, 'GET', '/v1/admin/status')).toMatchObject({
      body: {
        destinations: expect.arrayContaining([
          expect.objectContaining({
            name: 'crm',
            paused: expect.objectContaining({ reason: 'maintenance' }) as unknown,
          }),
        ]) as unknown,
      },
    })
    expect(await ask(url, 'GET', '/v1/admin/destination?name=crm')).toMatchObject({
      body: { health: 'paused' },
    })
    for (const wasPaused of [true, false]) {
      const got = await ask(url, 'POST', of('crm', 'resume'))
      expect(got).toMatchObject({ status: 200, body: { paused: null, wasPaused } })
    }
    for (const action of ['pause', 'resume']) {
      const asked = action === 'pause' ? { body } : {}
      expect(await ask(url, 'POST', of('x', action), asked)).toMatchObject({ status: 404 })
      const long = of('x'.repeat(1_001), action)
      expect(await ask(url, 'POST', long, asked)).toMatchObject({ status: 414 })
      expect(await ask(url, 'POST', of('%zz', action), asked)).toMatchObject({ status: 400 })
    }
  })

  test('to a test of a destination that does not exist, and to a second test at the same time', async () => {
    const unknown = await ask(url, 'POST', '/v1/admin/destinations/x/test', { body: '{}' })
    expect(unknown).toMatchObject({ status: 404, body: { error: { code: 'unknown_destination' } } })
    const long = `/v1/admin/destinations/${'x'.repeat(1_001)}/test`
    expect(await ask(url, 'POST', long, { body: '{}' })).toMatchObject({ status: 414 })
    let goOn: () => void = () => undefined
    const slow = await startOne([(response) => (goOn = () => response.writeHead(204).end())])
    const own = destination([slow], { name: 'own', tenant: 'house', sources: [] })
    const one = settingsFor([own], { tenants: [HOUSE] }, afterwards)
    const { url: at } = await start(one, silent, afterwards)
    const body = '{"types":["track"]}'
    for (const [i, of] of ['admin', 'portal'].entries()) {
      const path = `/v1/${of}/destinations/own/test`
      const first = ask(at, 'POST', path, { body })
      await slow.has(i + 1)
      expect(await ask(at, 'POST', path, { body })).toMatchObject({
        status: 409,
        body: { error: { code: 'test_running' } },
      })
      goOn()
      expect(await first).toMatchObject({ status: 200, body: { ok: true } })
    }
  })

  test.each([
    '/v1/admin/status?x=1',
    '/v1/admin/stream?x=1',
    '/v1/admin/settings?x=1',
    '/v1/portal/stream?x=1',
    '/v1/admin/overview?span=1y',
    '/v1/admin/overview?health=ill',
    '/v1/admin/overview?sort=x',
    '/v1/admin/overview?order=x',
    '/v1/admin/overview?limit=101',
    '/v1/admin/overview?x=1',
    '/v1/admin/destination',
    '/v1/admin/destination?name=crm&span=x',
    '/v1/admin/dead?x=1',
    '/v1/admin/deliveries?state=x',
    '/v1/admin/deliveries?limit=0',
    '/v1/admin/deliveries?limit=201',
    '/v1/admin/deliveries?status=6',
    '/v1/admin/deliveries?match=x',
    '/v1/admin/deliveries?since=-1',
    '/v1/admin/deliveries?code=x',
    '/v1/admin/deliveries?type=x',
    '/v1/admin/deliveries?before=0',
    '/v1/admin/deliveries?x=1',
    '/v1/admin/deliveries/0',
    '/v1/admin/deliveries/x',
    '/v1/admin/messages',
    '/v1/admin/sources?limit=0',
    '/v1/admin/destinations?limit=1001',
    '/v1/admin/destinations?x=1',
    '/v1/admin/tenants?limit=0',
    '/v1/portal/overview?span=1y',
    '/v1/portal/destination',
    '/v1/portal/dead?x=1',
    '/v1/portal/deliveries?limit=0',
    '/v1/portal/deliveries/0',
    '/v1/portal/messages',
    '/v1/portal/sources?q=x',
    '/v1/portal/destinations?q=x',
    '/v1/admin/audit?limit=0',
    '/v1/admin/audit?before=0',
    '/v1/admin/audit?kind=x&name=x',
  ])('to the wrong parameter of %s', async (path) => {
    expect(await ask(url, 'GET', path)).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_parameter' } },
    })
  })

  test.each([
    ['/v1/admin/destination?name=x', 404],
    ['/v1/admin/deliveries/999999', 404],
    ['/v1/admin/messages?messageId=x', 404],
    ['/v1/admin/messages/x', 404],
    ['/v1/admin/messages/%25', 404],
    ['/v1/portal/destination?name=crm', 404],
    ['/v1/portal/deliveries/999999', 404],
    [`/v1/portal/deliveries/${'1'.repeat(1_001)}`, 414],
    ['/v1/portal/messages?messageId=x', 404],
    ['/v1/portal/destinations/crm', 404],
    ['/v1/portal/destinations/%zz', 400],
    [`/v1/portal/destinations/${'x'.repeat(1_001)}`, 414],
    [`/v1/admin/deliveries/${'1'.repeat(1_001)}`, 414],
    [`/v1/admin/messages/${'x'.repeat(1_001)}`, 414],
  ])('to %.40s', async (path, status) => {
    expect(await ask(url, 'GET', path)).toMatchObject({ status })
  })

  test('to a path that cannot be decoded', async () => {
    expect(await ask(url, 'GET', '/v1/admin/messages/%zz')).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request' } },
    })
  })

  test('to a wrong path and a wrong method', async () => {
    const { Refusal, AdminError } = document.components.schemas
    for (const [path, schema] of [
      ['/v1/x', Refusal],
      ['/v1/admin/x', AdminError],
    ] as const) {
      const got = await fetch(`${url}${path}`)
      expect(got.status).toBe(404)
      expect(strictErrorsOf(schema ?? {}, await got.json())).toEqual([])
    }
    const got = await fetch(`${url}/v1/batch`, { method: 'DELETE' })
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST'])
    expect(strictErrorsOf(Refusal ?? {}, await got.json())).toEqual([])
  })

  test.each(places.filter(({ operation }) => operation.security.length > 0))(
    'to $method $path without or with wrong credentials',
    async (place) => {
      const { path, ...asked } = allowed(place)
      const wrong = credentialsOf(place)?.startsWith('Basic') ? 'Basic eDo=' : 'Bearer x'
      for (const authorization of [null, wrong]) {
        const got = await ask(url, place.method, path, { ...asked, authorization })
        expect(got).toMatchObject({ status: 401 })
      }
    },
  )

  test.each(ofCalls)('to $method $path from a source that sends too much', async (place) => {
    const authorization = `Basic ${btoa('l:')}`
    const batch = Array.from({ length: 50 }, () => ({ type: 'page', userId: 'u' }))
    const first = { authorization, body: JSON.stringify({ batch }) }
    await ask(url, 'POST', '/v1/batch', first) // it uses up the calls of the next 50 s
    const { path, ...asked } = allowed(place)
    expect(await ask(url, place.method, path, { ...asked, authorization })).toMatchObject({
      status: 429,
    })
  })

  test.each(places)('to $method $path if the destination has an error', async (place) => {
    const { path, ...asked } = allowed(place)
    const got = await ask(url, place.method, path, { ...asked, headers: { 'X-Fail': '1' } })
    expect(got).toMatchObject({ status: 500 })
  })

  test.each(places)('to $method $path with large headers', async (place) => {
    const answer = await raw(url, place, { 'X-Large': 'x'.repeat(20_000) })
    expect(answer.status).toBe(431)
  })

  test('to bodies that do not arrive', async () => {
    const slow = withBody.filter(({ operation }) => '408' in operation.responses)
    const one = await startWithServers(settingsFor([], { tenants: [HOUSE] }, afterwards))
    // The checks of slow clients run every 2 s. They would wait for 30 s.
    for (const { server } of one.apps) server.requestTimeout = 500
    const answers = slow.map((place) => raw(one.running.url, place, { 'Content-Length': '9' }))
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(slow.map(() => 408))
  })

  /** Sends the headers of a request and the start of a body, and waits for the answer. */
  async function raw(base: string, place: Place, headers: Record<string, string>) {
    const { method, path } = place
    const authorization = credentialsOf(place)
    const request = httpRequest(base + pathOf(place), {
      method,
      headers: { ...headers, ...(authorization !== null && { authorization }) },
    })
    request.on('error', () => undefined) // the server may close before everything is sent
    if ('Content-Length' in headers) request.write('{')
    else request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    let text = ''
    for await (const chunk of response) text += String(chunk)
    const { statusCode: status = 0 } = response
    const got = { status, headers: new Headers(response.headers as Record<string, string>) }
    expect(errorsOfAnswer(place, got, text)).toEqual([])
    seen.add(`${method} ${path} ${status}`)
    return got
  }

  test('to readers and writers, if the settings have no admin token', async () => {
    const own = settingsFor([], { adminToken: undefined }, afterwards)
    const { url: closed } = await start(own, silent, afterwards)
    for (const place of ofOperator) {
      const { path, ...asked } = allowed(place)
      expect(await ask(closed, place.method, path, asked)).toMatchObject({ status: 403 })
    }
    const adminListen = { host: '127.0.0.1', port: 0 }
    const open = await start(
      { ...settingsFor([], {}, afterwards), adminToken: undefined, adminListen },
      silent,
      afterwards,
    )
    for (const path of ['/v1/admin/status', '/metrics']) {
      const got = await ask(open.adminUrl, 'GET', path, { authorization: null })
      expect(got).toMatchObject({ status: 200 })
    }
  })

  test('to requests that need a store that fails', async () => {
    const endpoint = await startOne()
    const own = destination([endpoint], { name: 'own', tenant: 'house', sources: [] })
    const one = settingsFor([destination([endpoint]), own], { tenants: [HOUSE] }, afterwards)
    const broken = await start(one, silent, afterwards)
    await breakStore(one)
    const needing = places.filter(
      ({ operation, path }) => '503' in operation.responses && !path.endsWith('/stream'),
    )
    for (const place of needing) {
      const { path, ...asked } = allowed(place)
      const got = await ask(broken.url, place.method, path, asked)
      expect(got, path).toMatchObject({ status: 503 })
    }
  })

  /** Removes the tables of a store, as an operator could by mistake. */
  async function breakStore({ store }: Settings): Promise<void> {
    const database = (await loadDriver())((store as string).replace('sqlite:', ''))
    database.exec('PRAGMA busy_timeout = 10000') // the destination may be writing
    database.exec('BEGIN IMMEDIATE')
    const tables = database
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .all() as { name: string }[]
    for (const { name } of tables) database.exec(`DROP TABLE "${name}"`)
    database.exec('PRAGMA user_version = 1000000')
    database.exec('COMMIT')
    database.close()
  }

  test('to more listeners than the stream has room for', async () => {
    for (const [path, most] of [
      ['/v1/admin/stream', 20],
      ['/v1/portal/stream', 5],
    ] as const) {
      const open = Array.from({ length: most }, () => listenTo(url, path))
      const listeners = await Promise.all(open)
      expect(await ask(url, 'GET', path)).toMatchObject({ status: 503 })
      for (const { stop } of listeners) stop()
    }
  })

  test('to a tenant, about its own and by what it may not do', async () => {
    const headers = { Authorization: `Basic ${btoa('own-key:')}` }
    const body = JSON.stringify({ batch: [track('own-1')] })
    expect((await fetch(`${url}/v1/batch`, { method: 'POST', headers, body })).status).toBe(200)
    const { body: list } = await ask(url, 'GET', '/v1/portal/deliveries?messageId=own-1')
    const { deliveries } = list as { deliveries: { id: number; messageId: string }[] }
    expect(deliveries).toMatchObject([{ messageId: 'own-1' }])
    for (const path of [
      ...['overview', 'destination?name=own', 'dead?destination=own', 'messages?messageId=own-1'],
      ...[`deliveries/${deliveries[0]?.id ?? 0}`, 'sources', 'destinations', 'destinations/own'],
    ]) {
      expect(await ask(url, 'GET', `/v1/portal/${path}`), path).toMatchObject({ status: 200 })
    }
    const rotation = '/v1/portal/destinations/own/rotation'
    for (const method of ['POST', 'DELETE']) {
      expect(await ask(url, method, rotation)).toMatchObject({ status: 200 })
      expect(await ask(url, 'DELETE', rotation.replace('own', 'crm'))).toMatchObject({
        status: 404,
      })
    }
    expect(await ask(url, 'DELETE', rotation)).toMatchObject({ status: 409 })
    for (const [method, suffix] of [
      ['PATCH', ''],
      ['POST', '/rotation'],
      ['DELETE', '/rotation'],
    ] as const) {
      const to = (name: string, asked: Asked = {}) =>
        ask(url, method, `/v1/portal/destinations/${name}${suffix}`, {
          ...(method === 'PATCH' && { body: '{"webhooks":[{"url":"https://a.example.com/"}]}' }),
          ...asked,
        })
      expect(await to('crm')).toMatchObject({ status: 404 })
      expect(await to('x'.repeat(1_001))).toMatchObject({ status: 414 })
      expect(await to('own', { headers: { 'If-Match': 'x' } })).toMatchObject({ status: 400 })
      expect(await to('own', { headers: { 'If-Match': '"0"' } })).toMatchObject({ status: 412 })
      const kept = { status: 409, body: { error: { code: 'kept_by_operator' } } }
      expect(await to('fixed')).toMatchObject(kept)
    }
    expect(
      await ask(url, 'POST', '/v1/portal/replay', { body: '{"all":true,"confirm":9}' }),
    ).toMatchObject({ status: 409 })
    const test = (name: string) =>
      ask(url, 'POST', `/v1/portal/destinations/${name}/test`, { body: '{}' })
    expect(await test('crm')).toMatchObject({ status: 404 })
    expect(await test('x'.repeat(1_001))).toMatchObject({ status: 414 })
    const fixed = await ask(url, 'PATCH', '/v1/portal/destinations/own', {
      authorization: await linkOf('bare'),
      body: '{"webhooks":[]}',
    })
    expect(fixed).toMatchObject({ status: 403, body: { error: { code: 'urls_fixed' } } })
    for (const name of ['none', 'x'.repeat(1_001)]) {
      const got = await ask(url, 'POST', `/v1/admin/tenants/${name}/link`, { body: '{}' })
      expect(got).toMatchObject({ status: name === 'none' ? 404 : 414 })
    }
  })

  test.each(ofPortal)('of $method $path to the operator', async (place) => {
    const { path, ...asked } = allowed(place)
    const got = await ask(url, place.method, path, { ...asked, authorization: BEARER })
    expect(got).toMatchObject({ status: 403, body: { error: { code: 'role_not_allowed' } } })
  })
})

/** Begins to listen to the stream of calls and attempts. */
async function listenTo(base: string, path = '/v1/admin/stream') {
  const place = placeOf('GET', `${base}${path}`) as Place
  const aborting = new AbortController()
  const response = await fetch(`${base}${path}`, {
    headers: { Authorization: credentialsOf(place) ?? '' },
    signal: aborting.signal,
  })
  expect(errorsOfAnswer(place, response, '')).toEqual([])
  seen.add(`GET ${path} ${response.status}`)
  return {
    response,
    stop: () => {
      aborting.abort()
    },
  }
}

/** Compares an answer with the document. */
async function checked(method: string, response: Response): Promise<Response> {
  const place = placeOf(method, response.url)
  if (!place) throw new Error(`The document has no ${method} ${response.url}.`)
  expect(errorsOfAnswer(place, response, await response.text())).toEqual([])
  seen.add(`${method} ${place.path} ${response.status}`)
  return response
}

describe('what the admin API shows', () => {
  const NAMES = ['delivered', 'refused', 'waiting', 'disabled', 'former']

  test('of messages in every state agrees with the document', async () => {
    const [good, refusing, failing] = await Promise.all([
      startOne([204]),
      startOne([(response) => response.writeHead(400, { 'X-Why': 'a' }).end('{"message":"No."}')]),
      startOne([503]),
    ])
    const of = (name: string, at: TestEndpoint) => destination([at], { name })
    const disabled = of('disabled', failing)
    const first = settingsFor(
      [
        of('delivered', good),
        of('refused', refusing),
        of('waiting', failing),
        disabled,
        of('former', failing),
      ],
      {
        sources: [
          { name: 'web', writeKey: KEY },
          { name: 'lonely', writeKey: 'alone' },
        ],
      },
      afterwards,
    )
    const running = await start(first, silent, afterwards)
    const { url } = running
    const listener = await listenTo(url)
    const batch = JSON.stringify({
      batch: [track('m1'), { ...track('m2'), type: 'page', name: 'P' }],
    })
    await ask(url, 'POST', '/v1/batch', { body: batch })
    const alone = { authorization: `Basic ${btoa('alone:')}`, body: '{"userId":"u2"}' }
    await ask(url, 'POST', '/v1/identify', alone)
    await ask(url, 'PUT', '/v1/audiences/vip?count=1', { body: '["u1"]' })
    await good.has(3)
    await refusing.has(3)
    await expect.poll(() => statesOf(url)).toMatchObject({ delivered: ['done'], refused: ['dead'] })

    await checkEvents(listener)
    await running.reload({
      ...first,
      destinations: first.destinations
        .filter(({ name }) => name !== 'former')
        .map((one) => (one.name === 'disabled' ? { ...one, enabled: false } : one)),
    })
    const { body: status } = await ask(url, 'GET', '/v1/admin/status')
    expect(status).toMatchObject({ formerDestinations: [{ name: 'former' }] })
    for (const span of ['1h', '24h', '7d']) {
      await ask(
        url,
        'GET',
        `/v1/admin/overview?span=${span}&q=e&sort=p99&order=desc&limit=3&offset=1`,
      )
      for (const name of NAMES.slice(0, -1)) {
        await ask(url, 'GET', `/v1/admin/destination?name=${name}&span=${span}`)
      }
    }
    expect(await ask(url, 'GET', '/v1/admin/overview')).toMatchObject({
      body: { found: 4, destinations: expect.arrayContaining([]) as unknown },
    })
    const { body: dead } = await ask(url, 'GET', '/v1/admin/dead')
    expect(dead).toMatchObject({ groups: [{ destination: 'refused', cause: 'No.', count: 3 }] })
    await ask(url, 'GET', '/v1/admin/dead?destination=refused')
    const page = await ask(url, 'GET', '/v1/admin/deliveries?limit=2')
    const { next } = page.body as { next: string }
    await ask(url, 'GET', `/v1/admin/deliveries?before=${next}`)
    const filters =
      'state=dead&destination=refused&source=web&type=track&event=sign&user=U&match=prefix&code=client_error&status=4xx&cause=No.&since=0&until=9007199254740991'
    const filtered = await ask(url, 'GET', `/v1/admin/deliveries?${filters}`)
    expect(filtered.body).toMatchObject({ deliveries: [{ messageId: 'm1' }] })
    const { body: all } = await ask(url, 'GET', '/v1/admin/deliveries?limit=200')
    const states = new Set<string>()
    for (const { id, state } of (all as { deliveries: { id: number; state: string }[] })
      .deliveries) {
      states.add(state)
      const got = await ask(url, 'GET', `/v1/admin/deliveries/${id}`)
      expect(got).toMatchObject({ status: 200 })
    }
    expect([...states]).toEqual(expect.arrayContaining(['done', 'dead', 'skipped', 'backlog']))
    const { body: message } = await ask(url, 'GET', '/v1/admin/messages?messageId=m1')
    expect(message).toMatchObject({
      deliveries: expect.arrayContaining([
        expect.objectContaining({ hold: 'disabled' }),
        expect.objectContaining({ hold: 'removed' }),
        expect.objectContaining({ attempts: [expect.objectContaining({ code: 'client_error' })] }),
      ]) as unknown,
    })
    await ask(url, 'GET', '/v1/admin/messages/m1')
    const replayed = await ask(url, 'POST', '/v1/admin/replay', {
      body: '{"all":true,"confirm":3}',
    })
    expect(replayed.body).toMatchObject({ byDestination: [{ name: 'refused', count: 3 }] })
    const again = '{"messageId":"m1","force":true,"dryRun":true}'
    await ask(url, 'POST', '/v1/admin/replay', { body: again })
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      expect(await ask(url, 'GET', path)).toMatchObject({ status: 200 })
    }
  })

  /** The states of the deliveries of each destination. */
  async function statesOf(url: string): Promise<Record<string, string[]>> {
    const { body } = await ask(url, 'GET', '/v1/admin/deliveries?limit=200')
    const { deliveries } = body as { deliveries: { destination: string; state: string }[] }
    const states: Record<string, string[]> = {}
    for (const { destination: name, state } of deliveries) {
      states[name] = [...new Set([...(states[name] ?? []), state])]
    }
    return states
  }

  const EVENTS: Record<string, string> = {
    call: 'CallEvent',
    attempt: 'AttemptEvent',
    skipped: 'SkippedEvent',
  }

  /** Reads events until both calls and attempts came, and compares their data with the document. */
  async function checkEvents({ response, stop }: Awaited<ReturnType<typeof listenTo>>) {
    const came = new Set<string>()
    let rest = ''
    const texts = response.body?.pipeThrough(new TextDecoderStream()) ?? []
    for await (const text of texts as AsyncIterable<string>) {
      const events = (rest + text).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events.filter((one) => !one.startsWith(':'))) {
        const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? []
        const schema = document.components.schemas[EVENTS[name] ?? '']
        expect(strictErrorsOf(schema ?? {}, JSON.parse(data)), event).toEqual([])
        came.add(name)
      }
      if (came.size === 2) break
    }
    stop()
  }
})

test('every answer of the document came, or there is a reason why not', () => {
  const documented = places.flatMap(({ method, path, operation }) =>
    Object.keys(operation.responses).map((status) => `${method} ${path} ${status}`),
  )
  expect(documented.length).toBeGreaterThan(150)
  expect(documented.filter((one) => !seen.has(one) && !(one in NOT_ASKED_FOR))).toEqual([])
  expect(Object.keys(NOT_ASKED_FOR).filter((one) => seen.has(one))).toEqual([])
})
