// Every answer of the admin API says that a destination gave it.
import { beforeAll, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import { ADMIN_TOKEN, settingsFor, silent, start } from '../run.js'

let one: RunningDestination

beforeAll(async () => {
  const cleanUps: (() => unknown)[] = []
  const later = (cleanUp: () => unknown) => cleanUps.unshift(cleanUp)
  const adminListen = { host: '127.0.0.1', port: 0 }
  one = await start(settingsFor([], { adminListen }, later), silent, later)
  return async () => {
    for (const cleanUp of cleanUps) await cleanUp()
  }
})

const asked = async (base: string, path: string, method = 'GET', token = ADMIN_TOKEN) => {
  const headers = { Authorization: `Bearer ${token}` }
  const response = await fetch(`${base}${path}`, { method, headers })
  await response.body?.cancel()
  return { status: response.status, name: response.headers.get('x-hookline') }
}

test.each([
  ['GET', '/v1/admin/status', 200],
  ['GET', '/v1/admin/stream', 200],
  ['HEAD', '/v1/admin/overview', 200],
  ['GET', '/v1/admin/status?x=1', 400],
  ['GET', '/v1/admin/sources/%', 400],
  ['GET', '/v1/admin', 404],
  ['GET', '/v1/admin/nope', 404],
  ['PUT', '/v1/admin/status', 405],
])('%s %s is answered %i with the name', async (method, path, status) => {
  expect(await asked(one.adminUrl, path, method)).toEqual({ status, name: 'destination' })
})

test('the answers to a wrong token and at the address of the collector have the name, too', async () => {
  expect(await asked(one.adminUrl, '/v1/admin/status', 'GET', 'x')).toEqual({
    status: 401,
    name: 'destination',
  })
  expect(await asked(one.url, '/v1/admin/status')).toEqual({ status: 404, name: 'destination' })
})

test.each(['/v1/portal/sources', '/v1/adminx', '/v1/track', '/healthz', '/metrics', '/'])(
  'the answer of %s does not have it',
  async (path) => {
    for (const base of [one.adminUrl, one.url]) {
      expect(await asked(base, path)).toMatchObject({ name: null })
    }
  },
)
