import { once } from 'node:events'
import { connect } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { RunningDestination } from '../../../src/destination.js'
import type { PortalLink, PortalOverview } from '../../../src/model/answers.js'
import { signGuest } from '../../../src/operate/portal/token.js'
import type { Settings } from '../../../src/settings/settings.js'
import { startEndpoint, type TestEndpoint } from '../../endpoint.js'
import { ask as askAdmin, SETTINGS_KEY } from '../../manage/api.js'
import { ADMIN_TOKEN, post, settingsFor, silent, start, track } from '../../run.js'

let running: RunningDestination
let settings: Settings
let crm: TestEndpoint
const told: object[] = []

beforeAll(async () => {
  const cleanUps: (() => unknown)[] = []
  const later = (cleanUp: () => unknown) => cleanUps.unshift(cleanUp)
  crm = await startEndpoint()
  later(() => crm[Symbol.asyncDispose]())
  settings = settingsFor(
    [],
    {
      sources: [{ name: 'shop', writeKey: 'shop', tenant: 'acme' }],
      tenants: [
        { name: 'acme', title: 'Acme Ltd', portal: { editUrls: true } },
        { name: 'bare', portal: { editUrls: false } },
      ],
      settingsKeys: [SETTINGS_KEY],
    },
    later,
  )
  const log = { ...silent, info: (details: object) => told.push(details) }
  running = await start(settings, log, later)
  return async () => {
    for (const cleanUp of cleanUps) await cleanUp()
  }
})

const linkFor = async (tenant: string, body: object = {}, status = 200): Promise<PortalLink> => {
  const answer = await askAdmin(running, 'POST', `/tenants/${tenant}/link`, body)
  expect(answer.status, answer.text).toBe(status)
  return answer.body as unknown as PortalLink
}

/** Makes a destination of acme in the store. */
const make = (name: string, webhooks: object[]) =>
  askAdmin(running, 'PUT', `/destinations/${name}`, { tenant: 'acme', sources: ['shop'], webhooks })

const ask = async (token: string, method: string, path: string, body?: object) => {
  const response = await fetch(`${running.adminUrl}/v1/portal${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, 'X-Actor': 'somebody else' },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, body: JSON.parse(text) as Record<string, unknown> }
}

describe('a link', () => {
  test('opens the portal of its tenant for as long as it says, and is in the log without its token', async () => {
    const before = Date.now()
    const { url, token, expiresAt } = await linkFor('acme', { minutes: 60, by: 'ada@example.com' })
    expect(url).toBe(`${running.adminUrl}/portal#token=${token}`)
    expect(Math.abs(expiresAt - before - 3_600_000)).toBeLessThan(5_000)
    expect(await ask(token, 'GET', '/overview')).toMatchObject({
      status: 200,
      body: { tenant: { name: 'acme', title: 'Acme Ltd', mayEditUrls: true }, expiresAt },
    })
    expect(told).toContainEqual({
      ...{ tenant: 'acme', by: 'ada@example.com', minutes: 60 },
      from: '127.0.0.1',
    })
    expect(JSON.stringify(told)).not.toContain(token.slice(-20))
  })

  test('is valid for a quarter of an hour by default', async () => {
    const before = Date.now()
    const { expiresAt } = await linkFor('bare')
    expect(Math.abs(expiresAt - before - 900_000)).toBeLessThan(5_000)
  })

  test.each([
    { minutes: 0 },
    { minutes: 1_441 },
    { minutes: '15' },
    { by: '' },
    { by: ' ' },
    { by: 'a\nb' },
    { by: 'x'.repeat(101) },
    { x: 1 },
  ])('is not made of %j', async (body) => {
    await linkFor('acme', body, 400)
  })

  test('says that it has expired, in a code of its own', async () => {
    const expired = await signGuest(ADMIN_TOKEN, { tenant: 'acme', by: null, expiresAt: 1_000 })
    expect(await ask(expired, 'GET', '/overview')).toMatchObject({
      status: 401,
      body: { error: { code: 'portal_link_expired' } },
    })
    const unknown = await signGuest(ADMIN_TOKEN, {
      ...{ tenant: 'gone', by: null, expiresAt: Date.now() + 60_000 },
    })
    expect(await ask(unknown, 'GET', '/overview')).toMatchObject({
      status: 401,
      body: { error: { code: 'wrong_portal_token' } },
    })
  })

  test('starts with the URL of the settings, and ends with the admin token, also while it is used', async () => {
    const later: (() => unknown)[] = []
    const own = settingsFor(
      [],
      {
        tenants: settings.tenants,
        portal: { url: 'https://portal.example.com', frameAncestors: [] },
      },
      (cleanUp) => later.unshift(cleanUp),
    )
    const one = await start(own, silent, (cleanUp) => later.unshift(cleanUp))
    const { body } = await askAdmin(one, 'POST', '/tenants/acme/link', {})
    const { url, token } = body as unknown as PortalLink
    expect(url).toBe(`https://portal.example.com/portal#token=${token}`)
    const headers = { Authorization: `Bearer ${token}` }
    const stream = await fetch(`${one.url}/v1/portal/stream`, { headers })
    expect(stream.status).toBe(200)
    await one.reload({ ...own, adminToken: 'another-admin-token-01' })
    expect(await stream.text()).toBe(': hello\n\n') // it ends
    expect((await fetch(`${one.url}/v1/portal/overview`, { headers })).status).toBe(401)
    for (const cleanUp of later) await cleanUp()
  })
})

test('a stream whose client leaves while its token is checked keeps no room', async () => {
  const { token } = await linkFor('acme')
  const { port } = new URL(running.url)
  for (let n = 0; n < 60; n++) {
    const socket = connect(Number(port), '127.0.0.1')
    await once(socket, 'connect')
    const head = `GET /v1/portal/stream HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`
    socket.write(head)
    if (n % 3 === 1) await new Promise(setImmediate)
    if (n % 3 === 2) await new Promise((resolve) => setTimeout(resolve, 1))
    socket.resetAndDestroy()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  // Of a tenant, five streams have room.
  const headers = { Authorization: `Bearer ${token}` }
  await expect
    .poll(async () => {
      const { status, body } = await fetch(`${running.url}/v1/portal/stream`, { headers })
      await body?.cancel()
      return status
    })
    .toBe(200)
})

test('streams of tenants leave connections for the operator, whose address has fewer than that of the collector', async () => {
  const tenants = Array.from({ length: 20 }, (_, index) => ({
    ...{ name: `tenant-${index}`, portal: { editUrls: false } },
  }))
  const adminListen = { host: '127.0.0.1', port: 0 }
  const one = await start(settingsFor([], { adminListen, tenants }))
  const left = new AbortController()
  onTestFinished(() => {
    left.abort()
  })
  for (const { name } of tenants) {
    const { body } = await askAdmin(one, 'POST', `/tenants/${name}/link`, {})
    const { token } = body as unknown as PortalLink
    const headers = { Authorization: `Bearer ${token}` }
    for (let n = 0; n < 5; n++) {
      const of = { headers, signal: left.signal }
      expect((await fetch(`${one.adminUrl}/v1/portal/stream`, of)).status).toBe(200)
    }
  }
  expect((await askAdmin(one, 'GET', '/status')).status).toBe(200)
  const connections = Array.from({ length: 20 }, async () => {
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
    return (await fetch(`${one.adminUrl}/v1/admin/stream`, { headers, signal: left.signal })).status
  })
  expect(await Promise.all(connections)).toEqual(Array(20).fill(200))
})

describe('a tenant', () => {
  test('sees a destination no more in its overview once the operator has taken it back', async () => {
    await make('given', [{ url: `${crm.url}/given` }])
    const { token } = await linkFor('acme')
    const names = async () => {
      const { body } = await ask(token, 'GET', '/overview?q=given&limit=10')
      return (body as unknown as PortalOverview).rows.map(({ name }) => name)
    }
    await expect.poll(names).toEqual(['given'])
    const webhooks = [{ url: `${crm.url}/of-the-operator` }]
    const taken = await askAdmin(running, 'PUT', '/destinations/given', { sources: [], webhooks })
    expect(taken.status, taken.text).toBe(200)
    expect(await names()).toEqual([])
  })

  test('changes URLs and rotates secrets in its own name', async () => {
    await make('crm', [{ url: `${crm.url}?key=1` }, { url: `${crm.url}/b` }])
    const { token } = await linkFor('acme', { by: 'ada' })
    const shown = await ask(token, 'GET', '/destinations/crm')
    expect(shown.body).toMatchObject({
      secrets: { sharedSecret: 1 },
      settings: { webhooks: [{ url: `${crm.url}?•••` }, { url: `${crm.url}/b` }] },
    })
    expect(Object.keys(shown.body['settings'] as object).sort()).toEqual([
      ...['enabled', 'name', 'sources', 'webhooks'],
    ])
    const webhooks = [{ url: `${crm.url}?•••` }, { url: `${crm.url}/c` }]
    expect(await ask(token, 'PATCH', '/destinations/crm', { webhooks })).toMatchObject({
      body: { changed: true, item: { settings: { webhooks } } },
    })
    const rotated = await ask(token, 'POST', '/destinations/crm/rotation')
    const { generated } = rotated.body as { generated: { sharedSecret: string } }
    expect(generated.sharedSecret).toMatch(/^[0-9a-f]{64}$/)
    expect(await ask(token, 'DELETE', '/destinations/crm/rotation')).toMatchObject({ status: 200 })
    const { body } = await askAdmin(running, 'GET', '/audit?kind=destination&name=crm')
    expect(body.entries.map(({ action, by }) => [action, by])).toEqual([
      ['revoke', 'tenant acme (ada)'],
      ['rotate', 'tenant acme (ada)'],
      ['update', 'tenant acme (ada)'],
      ['create', null],
    ])
    await post(running, [track('m')], 'shop')
    await crm.has(1)
    expect(crm.received.map(({ path }) => path)).toContain('/hook?key=1')
  })

  test.each([
    ['webhooks must be a list of objects with a url', {}],
    ['Unknown parameter', { webhooks: [{ url: 'https://a.example.com/' }], enabled: false }],
    ['Unknown parameter', { webhooks: [{ url: 'https://a.example.com/', headers: {} }] }],
    ['webhooks[0].url must be a URL', { webhooks: [{}] }],
    ['webhooks[0] must be an object', { webhooks: ['https://a.example.com/'] }],
    [
      'expected the URLs of all 1 endpoints, got 2',
      {
        webhooks: [{ url: 'https://a.example.com/' }, { url: 'https://b.example.com/' }],
      },
    ],
    ['expected a full URL', { webhooks: [{ url: 'ftp://a.example.com/' }] }],
    ['leave it as ?•••', { webhooks: [{ url: 'https://a.example.com/?•••&v=2' }] }],
    ['10.0.0.1', { webhooks: [{ url: 'http://10.0.0.1/' }] }],
  ])('cannot change its URLs if that is wrong: %s', async (message, body) => {
    await make('strict', [{ url: 'https://a.example.com/' }])
    const { token } = await linkFor('acme')
    const answer = await ask(token, 'PATCH', '/destinations/strict', body)
    expect(answer.status).toBe(400)
    expect(JSON.stringify(answer.body)).toContain(message)
    expect(JSON.stringify(answer.body)).not.toContain('allowNetworks')
  })

  test.each(['/sources', '/destinations'])(
    'gets no list for a filter that %s does not have',
    async (path) => {
      const { token } = await linkFor('acme')
      expect(await ask(token, 'GET', `${path}?q=crm`)).toMatchObject({
        status: 400,
        body: {
          error: {
            code: 'invalid_parameter',
            message: 'Unknown parameter "q". Known parameters: none.',
          },
        },
      })
      expect(await ask(token, 'GET', path)).toMatchObject({ status: 200 })
    },
  )

  test('cannot send the values of headers to a server of its own', async () => {
    const headers = { 'X-Key': 'known to the operator alone' }
    await make('keyed', [{ url: 'https://a.example.com/hook', headers }])
    const { token } = await linkFor('acme')
    const patch = (url: string) =>
      ask(token, 'PATCH', '/destinations/keyed', { webhooks: [{ url }] })
    for (const url of [
      'https://evil.example.com/hook',
      'http://a.example.com/hook',
      'https://a.example.com:444/hook',
      'https://a.example.com.evil.example/hook',
    ]) {
      expect(await patch(url), url).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_settings', problems: [{ path: 'webhooks[0].url' }] } },
      })
    }
    expect(await patch('https://a.example.com/new')).toMatchObject({
      body: { changed: true, item: { settings: { webhooks: [{ headers: { 'X-Key': '•••' } }] } } },
    })
  })
})
