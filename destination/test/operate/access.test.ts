import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { callerOf, isClosed, isLocal } from '../../src/operate/access.js'
import { signGuest } from '../../src/operate/portal/token.js'
import {
  ADMIN_TOKEN,
  OPERATOR_TOKEN,
  destination,
  endpoint,
  settingsFor,
  silent,
  start,
} from '../run.js'

const asking = (headers: object, remoteAddress = '203.0.113.7', httpVersion = '1.1') => {
  const remoteFamily = remoteAddress.includes(':') ? 'IPv6' : 'IPv4'
  const socket = { remoteAddress, remoteFamily }
  return { headers, socket, httpVersion } as unknown as IncomingMessage
}

const given = (authorization: string | undefined) =>
  callerOf(asking({ authorization }), ['admin', 'operator'], {
    settings: () => ({ adminToken: ADMIN_TOKEN, operatorToken: OPERATOR_TOKEN, tenants: [] }),
    isKeptLocal: false,
    clock: { wall: Date.now },
  })

describe('a token', () => {
  test.each([
    [`Bearer ${ADMIN_TOKEN}`, 'admin'],
    [`bearer  ${ADMIN_TOKEN} `, 'admin'],
    [`Bearer ${OPERATOR_TOKEN}`, 'operator'],
  ])('opens as %j', (authorization, role) => {
    return expect(given(authorization)).resolves.toEqual({ role })
  })

  test.each([
    [undefined, 'no_admin_token'],
    ['', 'no_admin_token'],
    ['Bearer', 'no_admin_token'],
    [ADMIN_TOKEN, 'no_admin_token'],
    [`Basic ${btoa(`${ADMIN_TOKEN}:`)}`, 'no_admin_token'],
    ['Bearer x', 'wrong_admin_token'],
    [`Bearer ${ADMIN_TOKEN}x`, 'wrong_admin_token'],
    [`Bearer ${ADMIN_TOKEN.slice(1)}`, 'wrong_admin_token'],
    [`Bearer ${ADMIN_TOKEN.toUpperCase()}`, 'wrong_admin_token'],
    [`Bearer ${OPERATOR_TOKEN}x`, 'wrong_admin_token'],
    ['Bearer undefined', 'wrong_admin_token'],
  ])('is not given by %j', (authorization, code) => {
    return expect(given(authorization)).rejects.toMatchObject({ status: 401, code })
  })
})

test('a link opens nothing if the admin token changes, or its tenant is deleted, while it is checked', async () => {
  const guest = { tenant: 'acme', by: null, expiresAt: Math.ceil(Date.now() / 1_000 + 60) * 1_000 }
  const authorization = `Bearer ${await signGuest(ADMIN_TOKEN, guest)}`
  const before = {
    adminToken: ADMIN_TOKEN,
    tenants: [{ name: 'acme', portal: { editUrls: false } }],
  }
  const opened = async (after: object) => {
    let now = before
    const access = { settings: () => now, isKeptLocal: false, clock: { wall: Date.now } }
    const caller = callerOf(asking({ authorization }), ['tenant'], access)
    now = { ...before, ...after }
    return caller
  }
  expect(await opened({})).toEqual({ role: 'tenant', guest })
  for (const after of [{ adminToken: 'another-admin-token-01' }, { tenants: [] }]) {
    await expect(opened(after)).rejects.toMatchObject({ status: 401, code: 'wrong_portal_token' })
  }
})

describe('without a token the routes of the operator are closed', () => {
  test.each([undefined, '0.0.0.0', '::', '10.0.0.1', 'hooks.example.com'])('at %s', (host) => {
    const adminListen = host === undefined ? undefined : { host, port: 3301 }
    expect(isClosed({ adminToken: undefined, adminListen })).toBe(true)
    expect(isClosed({ adminToken: ADMIN_TOKEN, adminListen })).toBe(false)
  })

  test('and the log says so at the start', async () => {
    const warnings: string[] = []
    const log = { ...silent, warn: (_details: object, message: string) => warnings.push(message) }
    await start(settingsFor([], { adminToken: undefined }), log)
    await start(settingsFor([]), log)
    expect(warnings).toEqual([
      'the page, /metrics and the admin API are closed: set adminToken, or set adminListen to a loopback address',
    ])
  })

  test.each(['127.0.0.1', '127.1.2.3', '::1', 'localhost'])('and not at %s', (host) => {
    expect(isClosed({ adminToken: undefined, adminListen: { host, port: 3301 } })).toBe(false)
  })
})

describe('a request is of this machine', () => {
  test.each(['127.0.0.1', '127.8.9.10', '::1', '::ffff:127.0.0.1'])('from %s', (address) => {
    expect(isLocal(asking({}, address))).toBe(true)
  })

  test.each(['10.0.0.1', '203.0.113.7', '::2', '::ffff:10.0.0.1', 'fe80::1'])(
    'and not from %s',
    (address) => {
      expect(isLocal(asking({}, address))).toBe(false)
    },
  )

  test('and not if it is of HTTP/1.0, as those that nginx forwards by default', () => {
    expect(isLocal(asking({}, '127.0.0.1', '1.0'))).toBe(false)
  })

  test.each([
    'forwarded',
    'x-forwarded',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-port',
    'x-forwarded-proto',
    'x-forwarded-server',
    'x-original-forwarded-for',
    'x-original-host',
    'x-real-ip',
    'via',
    'x-envoy-external-address',
    'x-envoy-expected-rq-timeout-ms',
    'cf-connecting-ip',
    'cf-ray',
    'true-client-ip',
    'x-client-ip',
    'x-cluster-client-ip',
    'fastly-client-ip',
  ])('and not if a proxy added %s', (header) => {
    expect(isLocal(asking({ [header]: 'x' }, '127.0.0.1'))).toBe(false)
    expect(isLocal(asking({ [header]: '' }, '127.0.0.1'))).toBe(false)
  })

  test('with the headers of a browser, of curl and of Prometheus', () => {
    const headers = {
      host: 'localhost:3301',
      connection: 'keep-alive',
      'cache-control': 'max-age=0',
      'sec-ch-ua': '"Chromium"',
      'sec-fetch-site': 'same-origin',
      'upgrade-insecure-requests': '1',
      'user-agent': 'x',
      'x-prometheus-scrape-timeout-seconds': '10',
      accept: '*/*',
      'accept-encoding': 'gzip',
      origin: 'http://localhost:3301',
      referer: 'http://localhost:3301/',
      traceparent: '00-0-0-00',
    }
    expect(isLocal(asking(headers, '127.0.0.1'))).toBe(true)
  })
})

describe('with an address of their own', () => {
  test('the routes of whoever runs it are there, and not where calls come in', async () => {
    const adminListen = { host: '127.0.0.1', port: 0 }
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])], { adminListen }))
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
    const statusOf = async (url: string) => (await fetch(url, { headers })).status
    expect(running.adminUrl).not.toBe(running.url)
    expect(await statusOf(`${running.adminUrl}/metrics`)).toBe(200)
    expect(await statusOf(`${running.url}/metrics`)).toBe(404)
    expect(await statusOf(`${running.adminUrl}/v1/batch`)).toBe(404)
    expect(await statusOf(`${running.url}/v1/batch`)).toBe(405)
    for (const url of [running.url, running.adminUrl]) {
      expect(await statusOf(`${url}/readyz`)).toBe(200)
    }
  })

  test('it does not start if that address is taken, and holds on to nothing', async () => {
    const first = await start(settingsFor([]))
    const port = Number(new URL(first.url).port)
    const settings = settingsFor([], { adminListen: { host: '127.0.0.1', port } })
    await expect(start(settings)).rejects.toMatchObject({ code: 'EADDRINUSE', port })
    await start({ ...settings, adminListen: undefined })
  })
})
