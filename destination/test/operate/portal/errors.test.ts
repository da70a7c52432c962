// What a tenant reads about endpoints that may not be reached, in everything that the portal shows.
import { expect, onTestFinished, test } from 'vitest'
import type { DeadCauses, DeliveryList, PortalLink, Replayed } from '../../../src/model/answers.js'
import { ask } from '../../manage/api.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../../run.js'

const WORDS = 'The endpoint has no public address: nothing was sent.'

test('a tenant reads what its own endpoint has answered, also if it is in the words of an address that is refused', async () => {
  const answer =
    'The address 10.1.2.3 is private or reserved for others. Could not be resolved (ENOTFOUND).'
  const refusing = await endpoint((response) => response.writeHead(400).end(answer))
  const running = await start(
    settingsFor([destination([refusing], { name: 'own', tenant: 'acme', sources: ['shop'] })], {
      sources: [{ name: 'shop', writeKey: 'shop', tenant: 'acme' }],
      tenants: [{ name: 'acme', portal: { editUrls: false } }],
    }),
  )
  const link = await ask(running, 'POST', '/tenants/acme/link', {})
  const { token } = link.body as unknown as PortalLink
  const get = async (path: string): Promise<unknown> => {
    const headers = { Authorization: `Bearer ${token}` }
    return (await fetch(`${running.adminUrl}/v1/portal${path}`, { headers })).json()
  }
  await post(running, [track('m1')], 'shop')
  const dead = async () => ((await get('/dead')) as DeadCauses).groups.map(({ cause }) => cause)
  await expect.poll(dead).toEqual([answer])
  const query = new URLSearchParams({ cause: answer }).toString()
  const { deliveries } = (await get(`/deliveries?${query}`)) as DeliveryList
  expect(deliveries.map(({ cause }) => cause)).toEqual([answer])
})

test('a tenant learns neither the address of a name nor how to allow it, and the operator does', async () => {
  const endpoints = { named: 'http://vm.localhost:22/', literal: 'http://10.1.2.3:22/' }
  const destinations = Object.entries(endpoints).map(([name, url]) =>
    destination([{ url }], { name, tenant: 'acme', sources: ['shop'] }),
  )
  const running = await start(
    settingsFor(destinations, {
      allowNetworks: [],
      sources: [{ name: 'shop', writeKey: 'shop', tenant: 'acme' }],
      tenants: [{ name: 'acme', portal: { editUrls: true } }],
    }),
  )
  const link = await ask(running, 'POST', '/tenants/acme/link', {})
  const { token } = link.body as unknown as PortalLink
  const request = async (api: 'admin' | 'portal', path: string, body?: object) => {
    const response = await fetch(`${running.adminUrl}/v1/${api}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { Authorization: `Bearer ${api === 'admin' ? ADMIN_TOKEN : token}` },
      ...(body && { body: JSON.stringify(body) }),
    })
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    return response.text()
  }

  const abort = new AbortController()
  onTestFinished(() => {
    abort.abort()
  })
  const heard = { admin: '', portal: '' }
  for (const api of ['admin', 'portal'] as const) {
    const { body } = await fetch(`${running.adminUrl}/v1/${api}/stream`, {
      headers: { Authorization: `Bearer ${api === 'admin' ? ADMIN_TOKEN : token}` },
      signal: abort.signal,
    })
    const decoder = new TextDecoder()
    const listen = async () => {
      for await (const chunk of body ?? []) heard[api] += decoder.decode(chunk)
    }
    void listen().catch(() => undefined)
  }
  await post(running, [track('m1')], 'shop')
  const dead = async () => {
    const { groups } = JSON.parse(await request('portal', '/dead')) as DeadCauses
    return groups.map(({ destination, code, cause, count }) => [destination, code, cause, count])
  }
  await expect.poll(dead).toEqual([['literal', 'address_refused', WORDS, 1]])
  for (const api of ['admin', 'portal'] as const) {
    await expect.poll(() => heard[api].split('event: attempt').length).toBe(3)
  }

  const list = JSON.parse(await request('portal', '/deliveries')) as DeliveryList
  expect(list.deliveries.map(({ cause }) => cause)).toEqual([WORDS, WORDS])
  const paths = [
    ...[
      '/overview',
      '/destination?name=named',
      '/destination?name=literal',
      '/deliveries',
      '/dead',
    ],
    ...['/messages?messageId=m1', ...list.deliveries.map(({ id }) => `/deliveries/${id}`)],
  ]
  const all = async (api: 'admin' | 'portal') => [
    ...(await Promise.all(paths.map((path) => request(api, path)))),
    await request(api, '/destinations/named/test', { types: ['track'] }),
    await request(api, '/destinations/literal/test', { types: ['track'] }),
    heard[api],
  ]
  for (const text of await all('portal')) {
    expect(text).toContain(WORDS)
    expect(text).not.toMatch(/127\.0\.0\.1|::1|allowNetworks|private or reserved|resolves/)
  }
  for (const text of await all('admin')) expect(text).toMatch(/private or/)

  // The group is found by the words that the tenant has read, and not by those of the operator.
  const group = { destination: 'literal', code: 'address_refused', cause: WORDS }
  const find = async (cause: string) => {
    const query = new URLSearchParams({ ...group, cause }).toString()
    const found = JSON.parse(await request('portal', `/deliveries?${query}`)) as DeliveryList
    return found.deliveries.length
  }
  const groups = JSON.parse(await request('admin', '/dead')) as DeadCauses
  expect(await find(WORDS)).toBe(1)
  expect(await find(groups.groups[0]?.cause ?? '')).toBe(0)
  const { matched } = JSON.parse(
    await request('portal', '/replay', { filter: group, dryRun: true }),
  ) as Replayed
  expect(matched).toBe(1)
})
