import { describe, expect, test } from 'vitest'
import type { Call } from '../../src/model/call.js'
import { route, routesOf } from '../../src/enqueue/route.js'
import type { Destination } from '../../src/settings/settings.js'

const destination = (name: string, sources: string[], enabled = true): Destination => ({
  name,
  sources,
  enabled,
  sharedSecret: undefined,
  webhooks: [{ url: `https://${name}.example.com/`, headers: {}, concurrency: 1 }],
})
const sources = ['web', 'app', 'old', 'lone'].map((name) => ({ name, writeKey: `${name}-key` }))
const routes = await routesOf({
  sources,
  destinations: [
    destination('crm', ['web', 'app']),
    destination('lake', ['app']),
    destination('off', ['web', 'old'], false),
  ],
})

function routed(source: string, integrations?: Record<string, unknown>) {
  const call: Call = { type: 'track', messageId: 'm', timestamp: '', userId: 'u', event: 'E' }
  if (integrations) call.integrations = integrations
  const { to, reason } = route(source, call, routes)
  return reason ?? to.map(({ name }) => name)
}

test.each([
  ['web', ['crm']],
  ['app', ['crm', 'lake']],
  ['old', 'the destination is disabled'],
  ['lone', 'no destination takes this source'],
  ['unheard of', 'no destination takes this source'],
])('a call of %s goes to %j', (source, expected) => {
  expect(routed(source)).toEqual(expected)
})

test('a call of a tenant never goes to a destination of another one, whatever the settings say', async () => {
  const found = await routesOf({
    sources: sources.map((source) =>
      source.name === 'web' ? { ...source, tenant: 'acme' } : source,
    ),
    destinations: ['acme', 'other', undefined].map((tenant) => ({
      ...destination(`of-${tenant ?? 'operator'}`, ['web', 'app']),
      tenant,
    })),
  })
  const namesOf = (source: string) => {
    const call: Call = { type: 'track', messageId: 'm', timestamp: '', userId: 'u', event: 'E' }
    return route(source, call, found).to.map(({ name }) => name)
  }
  expect(namesOf('web')).toEqual(['of-acme', 'of-operator'])
  expect(namesOf('app')).toEqual(['of-operator'])
})

describe('integrations', () => {
  const OFF = "turned off by the call's integrations"

  test.each([
    [{}, ['crm']],
    [{ Webhooks: true }, ['crm']],
    [{ Webhooks: {} }, ['crm']],
    [{ Webhooks: null }, ['crm']],
    [{ Webhooks: false }, OFF],
    [{ webhooks: false }, ['crm']],
    [{ All: true }, ['crm']],
    [{ All: false }, OFF],
    [{ all: false }, ['crm']],
    [{ All: false, Webhooks: true }, ['crm']],
    [{ All: false, Webhooks: { setting: 1 } }, ['crm']],
    [{ All: false, webhooks: true }, OFF],
    [{ All: false, Webhooks: null }, OFF],
    [{ All: false, Webhooks: false }, OFF],
    [{ All: true, Webhooks: false }, OFF],
    [{ All: false, Mixpanel: true }, OFF],
    [JSON.parse('{"All":false,"__proto__":{"Webhooks":true}}') as Record<string, unknown>, OFF],
  ])('%j: %j', (integrations, expected) => {
    expect(routed('web', integrations)).toEqual(expected)
  })

  test('are no reason where nothing takes the source anyway', () => {
    expect(routed('lone', { All: false })).toBe('no destination takes this source')
  })
})
