// What each role may do, route by route. The table says it a second time, so that nobody gets a right by a slip.
import { fastify } from 'fastify'
import { beforeAll, describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { guard } from '../../src/operate/guard.js'
import { rolesOf } from '../../src/operate/roles.js'
import { startEndpoint } from '../endpoint.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { places, type Place } from '../openapi/document.js'
import { allowed, HOUSE, linkOf } from '../openapi/requests.js'
import {
  ADMIN_TOKEN,
  destination,
  KEY,
  OPERATOR_TOKEN,
  post,
  settingsFor,
  silent,
  start,
  track,
} from '../run.js'

/** Who may use a route: the first letters of admin, operator, reader without a token, and tenant. */
const TABLE: Record<string, string> = {
  'GET /metrics': 'aor',
  'GET /v1/admin/status': 'aor',
  'GET /v1/admin/overview': 'aor',
  'GET /v1/admin/destination': 'aor',
  'GET /v1/admin/dead': 'aor',
  'GET /v1/admin/deliveries': 'aor',
  'GET /v1/admin/deliveries/{id}': 'aor',
  'GET /v1/admin/messages': 'aor',
  'GET /v1/admin/messages/{messageId}': 'aor',
  'GET /v1/admin/stream': 'aor',
  'GET /v1/admin/audit': 'aor',
  'GET /v1/admin/settings': 'aor',
  'POST /v1/admin/settings': 'a',
  'POST /v1/admin/filters/preview': 'ao',
  'POST /v1/admin/replay': 'ao',
  'POST /v1/admin/destinations/{name}/test': 'ao',
  'POST /v1/admin/destinations/{name}/pause': 'ao',
  'POST /v1/admin/destinations/{name}/resume': 'ao',
  'PUT /v1/audiences/{name}': 'a',
  'POST /v1/deletions': 'a',
  'POST /v1/admin/tenants/{name}/link': 'a',
  'GET /v1/portal/overview': 't',
  'GET /v1/portal/destination': 't',
  'GET /v1/portal/dead': 't',
  'GET /v1/portal/deliveries': 't',
  'GET /v1/portal/deliveries/{id}': 't',
  'GET /v1/portal/messages': 't',
  'GET /v1/portal/stream': 't',
  'GET /v1/portal/sources': 't',
  'GET /v1/portal/destinations': 't',
  'GET /v1/portal/destinations/{name}': 't',
  'POST /v1/portal/replay': 't',
  'POST /v1/portal/destinations/{name}/test': 't',
  'PATCH /v1/portal/destinations/{name}': 't',
  'POST /v1/portal/destinations/{name}/rotation': 't',
  'DELETE /v1/portal/destinations/{name}/rotation': 't',
  'POST /v1/admin/sources/{name}/rotation': 'a',
  'DELETE /v1/admin/sources/{name}/rotation': 'a',
  'POST /v1/admin/destinations/{name}/rotation': 'a',
  'DELETE /v1/admin/destinations/{name}/rotation': 'a',
  ...Object.fromEntries(
    ['sources', 'destinations', 'tenants'].flatMap((kind) => [
      [`GET /v1/admin/${kind}`, 'aor'],
      [`GET /v1/admin/${kind}/{name}`, 'aor'],
      [`PUT /v1/admin/${kind}/{name}`, 'a'],
      [`PATCH /v1/admin/${kind}/{name}`, 'a'],
      [`DELETE /v1/admin/${kind}/{name}`, 'a'],
    ]),
  ),
}

const routeOf = ({ method, path }: Pick<Place, 'method' | 'path'>) => `${method} ${path}`

const isProtected = ({ operation }: Place) =>
  operation.security.some((one) => Object.keys(one).some((scheme) => scheme !== 'WriteKey'))

/** In an order in which all of them succeed: whatever a request needs is made before it, and deleted after it. */
const inOrder = places.filter(isProtected).sort((a, b) => rank(a) - rank(b))

function rank({ method, path }: Place): number {
  if (method === 'PUT') return path.includes('destinations') ? 1 : 0
  if (path === '/v1/deletions') return 3
  if (method !== 'DELETE') return 2
  if (path.endsWith('/rotation')) return 3
  return path.includes('destinations') ? 4 : 5
}

const statusOf = async (base: string, place: Place, token?: string): Promise<number> => {
  const { path, mediaType, body } = allowed(place)
  const response = await fetch(`${base}${path}`, {
    method: place.method,
    ...(body !== undefined && { body }),
    headers: {
      ...(mediaType !== undefined && { 'Content-Type': mediaType }),
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    },
  })
  // The stream never ends by itself.
  await response.body?.cancel()
  return response.status
}

describe('a role', () => {
  let running: RunningDestination
  let open: RunningDestination
  let guest: string
  const cleanUps: (() => unknown)[] = []

  beforeAll(async () => {
    const later = (cleanUp: () => unknown) => cleanUps.unshift(cleanUp)
    const crm = await startEndpoint()
    later(() => crm[Symbol.asyncDispose]())
    const settings = settingsFor(
      [destination([crm])],
      {
        sources: [
          { name: 'web', writeKey: KEY },
          { name: 'own', writeKey: 'own', tenant: HOUSE.name },
        ],
        tenants: [HOUSE],
        operatorToken: OPERATOR_TOKEN,
        settingsKeys: [SETTINGS_KEY],
      },
      later,
    )
    running = await start(settings, silent, later)
    const own = { tenant: HOUSE.name, sources: ['own'], webhooks: [{ url: crm.url }] }
    await ask(running, 'PUT', '/destinations/own', own)
    await post(running, [track('m1')], 'own')
    await crm.has(1)
    guest = (await linkOf(HOUSE.name)).replace('Bearer ', '')
    const adminListen = { host: '127.0.0.1', port: 0 }
    const without = { adminToken: undefined, adminListen }
    open = await start(settingsFor([destination([crm])], without, later), silent, later)
    await post(open, [track('m1')])
    return async () => {
      for (const cleanUp of cleanUps) await cleanUp()
    }
  })

  test('is in the table for each protected route, and for no other', () => {
    expect(Object.keys(TABLE).sort()).toEqual(inOrder.map(routeOf).sort())
  })

  test('may do what the table says, and nothing else', async () => {
    const got: Record<string, object> = {}
    const expected: Record<string, object> = {}
    for (const place of inOrder) {
      const roles = TABLE[routeOf(place)] ?? ''
      // Without effect first, so that the admin's request does not change the answer to the others.
      got[routeOf(place)] = {
        nobody: await statusOf(running.url, place),
        reader: await statusOf(open.adminUrl, place),
        operator: await statusOf(running.url, place, OPERATOR_TOKEN),
        admin: await statusOf(running.url, place, ADMIN_TOKEN),
        tenant: await statusOf(running.url, place, guest),
      }
      const created = place.method === 'PUT' && place.path.startsWith('/v1/admin') ? 201 : 200
      expected[routeOf(place)] = {
        nobody: 401,
        reader: !roles.includes('r') ? 403 : place.path.includes('{name}') ? 404 : 200,
        operator: roles.includes('o') ? 200 : 403,
        admin: roles.includes('a') ? created : 403,
        tenant: roles.includes('t') ? 200 : 403,
      }
    }
    expect(got).toEqual(expected)
  })

  test('is of no use for a parameter that a route does not know', async () => {
    for (const place of inOrder.filter(({ path }) => path !== '/metrics')) {
      const { path, mediaType, body } = allowed(place)
      const tenant = place.path.startsWith('/v1/portal')
      const response = await fetch(
        `${running.url}${path}${path.includes('?') ? '&' : '?'}dryrun=1`,
        {
          method: place.method,
          ...(body !== undefined && { body }),
          headers: {
            ...(mediaType !== undefined && { 'Content-Type': mediaType }),
            Authorization: `Bearer ${tenant ? guest : ADMIN_TOKEN}`,
          },
        },
      )
      const said = `${routeOf(place)} ${response.status} ${await response.text()}`
      expect(said).toMatch(
        / 400 .*"code":"invalid_parameter","message":"Unknown parameter \\"dryrun\\"\. /,
      )
      expect(Object.keys(place.operation.responses)).toContain('400')
    }
  })

  test('that is not enough is refused with the role that is needed', async () => {
    const response = await fetch(`${running.url}/v1/admin/sources/vip`, {
      method: 'PUT',
      body: '{}',
      headers: { Authorization: `Bearer ${OPERATOR_TOKEN}` },
    })
    expect(await response.json()).toEqual({
      error: {
        code: 'role_not_allowed',
        message: 'This request needs the role admin; its token has the role operator.',
      },
    })
  })

  test.each([
    [ADMIN_TOKEN, 'admin'],
    [OPERATOR_TOKEN, 'operator'],
  ])('of the token %s is told to its client', async (token, access) => {
    for (const path of ['status', 'overview']) {
      const headers = { Authorization: `Bearer ${token}` }
      const response = await fetch(`${running.url}/v1/admin/${path}`, { headers })
      expect(await response.json()).toMatchObject({ access })
    }
  })

  test('must be declared for a new route, or it cannot be added', () => {
    const app = fastify()
    const access = {
      settings: () => ({ adminToken: ADMIN_TOKEN, tenants: [] }),
      isKeptLocal: false,
      clock: { wall: Date.now },
    }
    guard(app, access)
    expect(() => app.get('/v1/admin/secrets', () => 'all of them')).toThrow(
      'The route GET /v1/admin/secrets does not say which roles it takes. Add it to ROLES.',
    )
    expect(() => rolesOf('GET', 'constructor')).toThrow('ROLES')
  })
})
