// Rights are those that hold when a request has arrived as a whole and is carried out.
import { describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { readOwnBodies } from '../../src/http/read-body.js'
import { createServer } from '../../src/http/server.js'
import { guard } from '../../src/operate/guard.js'
import { addReplayRoute } from '../../src/operate/replay.js'
import type { Settings } from '../../src/settings/settings.js'
import { startEndpoint } from '../endpoint.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  KEY,
  OPERATOR_TOKEN,
  post,
  settingsFor,
  start,
  track,
  withTheTest,
} from '../run.js'
import { halfSent } from '../slow-body.js'

const NEW_TOKEN = 'another-admin-token-01'
const bearer = (token: string) => `Bearer ${token}`
const SLOW = 'https://slow.example.com/'

interface House {
  running: RunningDestination
  settings: Settings
  /** The token of a link of the tenant acme. */
  token: string
}

/** A destination whose tenant acme has `hook` and may change URLs. */
async function house(url = 'https://a.example.com/'): Promise<House> {
  const settings = settingsFor([], {
    sources: [{ name: 'web', writeKey: KEY }],
    settingsKeys: [SETTINGS_KEY],
    operatorToken: OPERATOR_TOKEN,
  })
  const running = await start(settings)
  await ask(running, 'PUT', '/tenants/acme', { portal: { editUrls: true } })
  await ask(running, 'PUT', '/sources/shop', { tenant: 'acme', writeKey: 'shop' })
  await ask(running, 'PUT', '/destinations/hook', {
    ...{ tenant: 'acme', sources: ['shop'], webhooks: [{ url }] },
  })
  const { body } = await ask(running, 'POST', '/tenants/acme/link', {})
  return { running, settings, token: (body as unknown as { token: string }).token }
}

const changeOfUrl = ({ running, token }: House) =>
  halfSent(
    running.adminUrl,
    'PATCH',
    '/v1/portal/destinations/hook',
    bearer(token),
    JSON.stringify({ webhooks: [{ url: SLOW }] }),
  )

const urlOf = async ({ running }: House, token = ADMIN_TOKEN) => {
  const headers = { Authorization: bearer(token) }
  const { body } = await ask(running, 'GET', '/destinations/hook', undefined, headers)
  return (body.settings['webhooks'] as { url: string }[])[0]?.url
}

describe('a request whose body is still arriving', () => {
  test('changes no URL once its tenant may not change URLs', async () => {
    const one = await house()
    const finish = await changeOfUrl(one)
    await ask(one.running, 'PATCH', '/tenants/acme', { portal: { editUrls: false } })
    const { status, text } = await finish()
    expect([status, text]).toEqual([403, expect.stringContaining('urls_fixed')])
    expect(await urlOf(one)).toBe('https://a.example.com/')
  })

  test('changes no destination that was taken back from its tenant', async () => {
    const one = await house()
    const finish = await changeOfUrl(one)
    await ask(one.running, 'PATCH', '/destinations/hook', { tenant: null })
    const { status, text } = await finish()
    expect([status, text]).toEqual([404, expect.stringContaining('unknown_destination')])
    expect(await urlOf(one)).toBe('https://a.example.com/')
  })

  test.each([
    ['PUT', '/v1/admin/sources/late', 'wrong_admin_token'],
    ['POST', '/v1/admin/settings', 'wrong_admin_token'],
    ['POST', '/v1/admin/tenants/acme/link', 'wrong_admin_token'],
    ['POST', '/v1/admin/destinations/hook/pause', 'wrong_admin_token'],
    ['POST', '/v1/admin/filters/preview', 'wrong_admin_token'],
    ['POST', '/v1/deletions', 'wrong_admin_token'],
    ['PUT', '/v1/audiences/late?count=1', 'wrong_admin_token'],
    ['PATCH', '/v1/portal/destinations/hook', 'wrong_portal_token'],
    ['POST', '/v1/portal/replay', 'wrong_portal_token'],
    ['POST', '/v1/portal/destinations/hook/test', 'wrong_portal_token'],
  ])(
    '%s %s is refused once the admin token is another one',
    { tags: 'long' },
    async (method, path, code) => {
      const { running, settings, token } = await house()
      const authorization = bearer(path.startsWith('/v1/portal') ? token : ADMIN_TOKEN)
      const finish = await halfSent(running.adminUrl, method, path, authorization, '"users"\n')
      await running.reload({ ...settings, adminToken: NEW_TOKEN })
      const { status, text } = await finish()
      expect([status, text]).toEqual([401, expect.stringContaining(code)])
    },
  )

  test('replays nothing of a destination that was taken back from its tenant', async () => {
    const refusing = await endpoint(400)
    const { running, token } = await house(refusing.url)
    await post(running, [track('m1')], 'shop')
    const dead = () => running.stats().then((stats) => stats.map((one) => one.dead))
    await expect.poll(dead).toEqual([1])
    const path = '/v1/portal/replay'
    const finish = await halfSent(running.adminUrl, 'POST', path, bearer(token), '{ "all": true }')
    await ask(running, 'PATCH', '/destinations/hook', { tenant: null })
    const { status, text } = await finish()
    expect([status, text]).toEqual([200, expect.stringContaining('"matched":0')])
    expect(refusing.received).toHaveLength(1)
  })

  test('stores no calls once its write key is revoked', async () => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const running = await start(settings)
    const basic = `Basic ${btoa(`${KEY}:`)}`
    const body = JSON.stringify({ batch: [track('late')] })
    const finish = await halfSent(running.url, 'POST', '/v1/batch', basic, body)
    const kept = await halfSent(running.url, 'POST', '/v1/batch', basic, body)
    const sources = [{ name: 'web', writeKey: 'new-key', otherWriteKey: KEY }]
    await running.reload({ ...settings, sources })
    expect(await kept()).toMatchObject({ status: 200 })
    await running.reload({ ...settings, sources: [{ name: 'web', writeKey: 'new-key' }] })
    const { status, text } = await finish()
    expect([status, text]).toEqual([401, expect.stringContaining('unknown_write_key')])
    await crm.has(1)
  })
})

test('a member of a list joins no audience once the admin token is another one', async () => {
  const crm = await endpoint()
  const settings = settingsFor([destination([crm])])
  const running = await start(settings)
  const lines = '"u1"\n'.repeat(1_000) + '"u2"\n'.repeat(1_000)
  const path = '/v1/audiences/a?count=2000'
  const finish = await halfSent(running.adminUrl, 'PUT', path, bearer(ADMIN_TOKEN), lines)
  await crm.has(1)
  await running.reload({ ...settings, adminToken: NEW_TOKEN })
  expect(await finish()).toMatchObject({ status: 401 })
  expect(crm.received.map(({ event }) => event['userId'])).toEqual(['u1'])
})

test('a replay goes no further once the admin token is another one', async () => {
  let adminToken = ADMIN_TOKEN
  const replayed: number[] = []
  const log = { warn: () => undefined, error: () => undefined }
  const server = createServer(log, '')
  const access = { isKeptLocal: false, clock: { wall: Date.now } }
  const settings = settingsFor([destination([{ url: SLOW }])])
  const ids = Array.from({ length: 1_200 }, (_, id) => id)
  const store = {
    match: () => Promise.resolve({ matches: [{ destination: 'crm', ids }], next: undefined }),
    get: () => Promise.resolve(undefined),
    clock: { now: Date.now, wall: Date.now },
    replay: (some: readonly number[]) => {
      replayed.push(some.length)
      adminToken = NEW_TOKEN
      return Promise.resolve([...some])
    },
  }
  void server.app.register(
    (routes, _options, done) => {
      readOwnBodies(routes)
      guard(routes, { ...access, settings: () => ({ adminToken, tenants: [] }) })
      const dispatcher = { wake: () => undefined }
      addReplayRoute(routes, { store, dispatcher, settings: () => settings })
      done()
    },
    { prefix: '/v1/admin' },
  )
  const adminUrl = await server.listen('127.0.0.1', 0)
  withTheTest(() => server.close(0))
  const { status, body } = await ask({ adminUrl }, 'POST', '/replay', { all: true })
  expect([status, body.error.code, replayed]).toEqual([401, 'wrong_admin_token', [500]])
})

test('a change that waits for others is refused if one of them takes its right', async () => {
  const one = await house()
  const { running, token } = one
  const patch = async (url: string) => {
    const { status } = await fetch(`${running.adminUrl}/v1/portal/destinations/hook`, {
      method: 'PATCH',
      headers: { Authorization: bearer(token) },
      body: JSON.stringify({ webhooks: [{ url }] }),
    })
    return status
  }
  const allow = (editUrls: boolean) =>
    ask(running, 'PATCH', '/tenants/acme', { portal: { editUrls } })
  for (let n = 0; n < 20; n++) {
    const url = `https://a.example.com/${n}`
    const [, ...statuses] = await Promise.all([allow(false), patch(url), patch(`${url}-again`)])
    expect(statuses.every((status) => status === 200 || status === 403)).toBe(true)
    const { body } = await ask(running, 'GET', '/audit')
    const latest = body.entries[0]
    expect(latest).toMatchObject({ kind: 'tenant', name: 'acme' })
    await allow(true)
  }
})

test('only one test of a destination runs at a time, whoever has asked for it', async () => {
  let answerIt: () => void = () => undefined
  const slow = await startEndpoint([
    (response) => {
      answerIt = () => response.writeHead(204).end()
    },
  ])
  withTheTest(() => slow[Symbol.asyncDispose]())
  const { running, token } = await house(slow.url)
  const testAs = async (api: string, by: string) => {
    const response = await fetch(`${running.adminUrl}/v1/${api}/destinations/hook/test`, {
      method: 'POST',
      headers: { Authorization: bearer(by) },
      body: '{ "types": ["track"] }',
    })
    return { status: response.status, text: await response.text() }
  }
  const refused = { status: 409, text: expect.stringContaining('test_running') as string }
  const ofTenant = testAs('portal', token)
  await slow.has(1)
  expect(await testAs('admin', OPERATOR_TOKEN)).toEqual(refused)
  answerIt()
  expect(await ofTenant).toMatchObject({ status: 200 })
  const ofOperator = testAs('admin', OPERATOR_TOKEN)
  await slow.has(2)
  expect(await testAs('portal', token)).toEqual(refused)
  answerIt()
  expect(await ofOperator).toMatchObject({ status: 200 })
})
