import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { connect, type AddressInfo } from 'node:net'
import { verifyWebhook } from 'hookline/webhook'
import { describe, expect, test } from 'vitest'
import type { TestReport } from '../../src/model/answers.js'
import { EVENT_TYPES } from '../../src/model/call.js'
import type { Destination } from '../../src/settings/settings.js'
import { ADMIN_TOKEN, destination, endpoint, post, settingsFor, start, track } from '../run.js'

/** Starts a destination, and returns a function that tests it. */
async function tester(one: Destination, changes = {}) {
  const running = await start(settingsFor([one], changes))
  const ask = async (body: object = {}) => {
    const response = await fetch(`${running.adminUrl}/v1/admin/destinations/${one.name}/test`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(200)
    return (await response.json()) as TestReport
  }
  return { running, ask }
}

const samplesOf = ({ endpoints }: TestReport) => endpoints.flatMap(({ samples }) => samples)

describe('a test of a destination', () => {
  test('needs a body, and says which one has the defaults', async () => {
    const { running } = await tester(destination([await endpoint()]))
    const askFor = async (path: string, body?: Uint8Array<ArrayBuffer>) => {
      const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` }
      const response = await fetch(`${running.adminUrl}/v1/admin${path}`, {
        method: 'POST',
        headers,
        ...(body && { body }),
      })
      return { status: response.status, text: await response.text() }
    }
    const message = 'The body must be JSON in UTF-8: it is empty.'
    const withDefaults = expect.stringContaining(`${message} Send {} for the defaults.`) as string
    for (const path of ['/destinations/crm/test', '/tenants/acme/link']) {
      expect(await askFor(path)).toEqual({ status: 400, text: withDefaults })
      expect(await askFor(path, Buffer.from('{ "by": "Zoë" }', 'latin1'))).toEqual({
        status: 400,
        text: expect.stringContaining('The body must be JSON in UTF-8."') as string,
      })
    }
    const withoutDefaults = expect.stringContaining(`${message}"`) as string
    expect(await askFor('/destinations/crm/pause')).toEqual({
      status: 400,
      text: withoutDefaults,
    })
  })

  test('sends one signed sample of each type, marked as a test, also if the destination is disabled', async () => {
    const crm = await endpoint((response) => response.writeHead(200).end('thanks'))
    const one = destination([crm], { enabled: false })
    const [webhook] = one.webhooks
    if (webhook) webhook.headers = { 'X-Key': 'very-secret' }
    const { running, ask } = await tester(one)
    const report = await ask()
    expect(report).toMatchObject({ destination: 'crm', enabled: false, ok: true })
    const samples = samplesOf(report)
    expect(samples.map(({ type }) => type)).toEqual(EVENT_TYPES)
    expect(crm.received.map(({ event }) => event['type'])).toEqual(EVENT_TYPES)
    for (const [i, { body, headers, rawHeaders }] of crm.received.entries()) {
      expect(verifyWebhook('s3cret', body, headers['x-signature'])).toBe(true)
      expect(headers).toMatchObject({ 'x-hookline-test': 'true', 'x-attempt': '1' })
      expect(headers).toMatchObject({ 'x-key': 'very-secret' })
      const { request, messageId, status, response } = samples[i] ?? {}
      expect([messageId, status, response]).toEqual([headers['x-message-id'], 200, 'thanks'])
      expect(messageId).toMatch(/^hookline-test-[\da-f]{96}$/)
      expect(request?.body).toBe(body)
      expect(request?.signed).toEqual([
        'X-Signature: HMAC-SHA1 of the body with the sharedSecret, in hex',
      ])
      // What is shown was sent, except for the value of the static header.
      for (const [name, value] of request?.headers ?? []) {
        const at = rawHeaders.indexOf(name)
        expect(at).toBeGreaterThan(-1)
        expect([rawHeaders[at + 1], '…']).toContain(value)
        expect(value === '…').toBe(name === 'X-Key')
      }
    }
    expect(JSON.stringify(report)).not.toContain('very-secret')
    expect(JSON.stringify(report)).not.toContain('s3cret')
    expect(new Set(crm.received.map(({ headers }) => headers['x-message-id'])).size).toBe(7)
    expect(await running.stats()).toEqual([])
  })

  test('sends only the types that were asked for, in the order of the list of types', async () => {
    const crm = await endpoint()
    const { ask } = await tester(destination([crm]))
    const samples = samplesOf(await ask({ types: ['delete', 'track', 'track'] }))
    expect(samples.map(({ type }) => type)).toEqual(['track', 'delete'])
    expect(crm.received.map(({ event }) => event)).toMatchObject([
      { version: 1, type: 'track', userId: 'hookline-test', event: 'Hookline Test' },
      { type: 'delete', userId: 'hookline-test' },
    ])
    expect(crm.received[1]?.event).not.toHaveProperty('version')
  })

  test('says for each endpoint what is wrong and what to do', async () => {
    const refusing = await endpoint(401)
    const missing = await endpoint((response) => response.writeHead(404).end('no such hook'))
    const broken = await endpoint(500, 204)
    const { ask } = await tester(destination([refusing, missing, broken]))
    const { ok, endpoints } = await ask({ types: ['track', 'page'] })
    expect(ok).toBe(false)
    expect(endpoints.map((one) => [one.ok, one.samples.map(({ verdict }) => verdict)])).toEqual([
      [false, ['refused', 'refused']],
      [false, ['refused', 'refused']],
      [false, ['retry', 'delivered']],
    ])
    const firsts = endpoints.map(({ samples: [first] }) => first)
    expect(firsts).toMatchObject([
      { status: 401, fix: expect.stringContaining('the same secret') as string },
      { status: 404, response: 'no such hook', fix: expect.stringContaining('path') as string },
      { status: 500, found: 'The endpoint answered 500.' },
    ])
  })

  test('blames the signature for a refusal only as one of the reasons, and not if there is none', async () => {
    const statuses = [400, 401, 403, 410, 408, 502, 429]
    const fixesOf = async (changes: Partial<Destination>) => {
      const endpoints = await Promise.all(statuses.map((status) => endpoint(status)))
      const { ask } = await tester(destination(endpoints, changes))
      return samplesOf(await ask({ types: ['track'] })).map(({ fix }) => fix)
    }
    const signed = await fixesOf({})
    expect(signed.map((fix) => fix?.includes('the same secret'))).toEqual([
      ...[true, true, true],
      ...[false, false, false, false],
    ])
    expect(signed).toMatchObject([
      expect.stringContaining(
        'may name what it does not accept: the body, a header, http at a port for https, or the sign',
      ),
      expect.stringContaining('If it needs a password or a key'),
      expect.stringContaining('or a firewall in front of it'),
      expect.stringContaining('removed for good'),
      expect.stringContaining('Check the time limits'),
      expect.stringContaining('a proxy in front of the endpoint'),
      expect.stringContaining('rateLimit'),
    ])
    const unsigned = await fixesOf({ sharedSecret: undefined })
    expect(unsigned.filter((fix) => fix?.includes('The request has no signature'))).toHaveLength(3)
    expect(unsigned.filter((fix) => fix?.includes('the same secret'))).toEqual([])
  })

  test('sends no more samples to an endpoint that gives no answer', async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    const crm = await endpoint()
    const gone = { url: `http://127.0.0.1:${port}/hook?key=hidden` }
    const { ask } = await tester(destination([gone, crm]))
    const report = await ask({ types: ['identify', 'track', 'page'] })
    const [dead, alive] = report.endpoints
    expect(dead).toMatchObject({
      url: `http://127.0.0.1:${port}/hook`,
      samples: [
        {
          verdict: 'retry',
          code: 'connection_refused',
          status: null,
          fix: 'Check that the endpoint is running and that its port is open to this machine.',
        },
        { verdict: 'not_sent', request: null },
        { verdict: 'not_sent', code: null },
      ],
    })
    expect(alive).toMatchObject({ ok: true })
    expect(crm.received).toHaveLength(3)
    expect(JSON.stringify(report)).not.toContain('hidden')
  })

  test('obeys allowNetworks', async () => {
    const crm = await endpoint()
    const { ask } = await tester(destination([crm]), { allowNetworks: [] })
    expect(samplesOf(await ask({ types: ['track'] }))).toMatchObject([
      { code: 'address_refused', found: expect.stringContaining('allowNetworks') as string },
    ])
    expect(crm.received).toEqual([])
  })

  test('finds the secret that the endpoint knows during a rotation, and begins with it from then on', async () => {
    const crm = await endpoint((response, { body, headers }) => {
      const right = createHmac('sha1', 'new').update(body).digest('hex')
      response.writeHead(headers['x-signature'] === right ? 204 : 401).end()
    })
    const one = destination([crm], { sharedSecret: 'old', otherSecret: 'new' })
    const { ask } = await tester(one)
    const [first, second] = samplesOf(await ask({ types: ['track', 'page'] }))
    expect(first).toMatchObject({
      verdict: 'delivered',
      found: 'The endpoint answered 204. It refused the other secret of the rotation.',
      request: {
        signed: [
          'X-Signature: HMAC-SHA1 of the body with the sharedSecret, the second one, in hex',
        ],
      },
    })
    expect(second).toMatchObject({ verdict: 'delivered', found: 'The endpoint answered 204.' })
    expect(crm.received).toHaveLength(3)
  })

  test('says that requests are also signed by Standard Webhooks, or not signed', async () => {
    const crm = await endpoint()
    const key = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
    const { ask } = await tester(
      destination([crm], { sharedSecret: undefined, webhookSecrets: [key] }),
    )
    const [one] = samplesOf(await ask({ types: ['track'] }))
    expect(one?.request?.signed).toEqual([
      'webhook-signature: HMAC-SHA256 of "webhook-id.webhook-timestamp.body" with the webhookSecret, in base64',
    ])
    const { ask: askOther } = await tester(destination([crm], { sharedSecret: undefined }))
    expect(samplesOf(await askOther({ types: ['track'] }))[0]?.request?.signed).toEqual([])
  })

  test('does not touch the breaker: real messages still go to an endpoint that failed every sample', async () => {
    const crm = await endpoint((response, { headers }) =>
      response.writeHead('x-hookline-test' in headers ? 500 : 204).end(),
    )
    const { running, ask } = await tester(destination([crm]))
    for (let i = 0; i < 5; i++) expect(await ask()).toMatchObject({ ok: false })
    const status = await fetch(`${running.adminUrl}/v1/admin/status`, {
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    expect(await status.json()).toMatchObject({
      destinations: [{ endpoints: [{ breaker: { state: 'closed' }, failed: 0, delivered: 0 }] }],
    })
    await post(running, [track('real')])
    await crm.has(36)
    expect(crm.received.at(-1)?.headers).toMatchObject({ 'x-message-id': 'real', 'x-attempt': '1' })
    expect(crm.received.at(-1)?.headers).not.toHaveProperty('x-hookline-test')
  })

  test('ends when nobody waits for its result any more, also behind another request on its connection', async () => {
    const slow = () => endpoint((response) => setTimeout(() => response.writeHead(204).end(), 100))
    const [crm, erp] = [await slow(), await slow()]
    const both = [destination([crm]), destination([erp], { name: 'erp' })]
    const { adminUrl } = await start(settingsFor(both))
    const authorization = `Bearer ${ADMIN_TOKEN}`
    const client = connect(Number(new URL(adminUrl).port), '127.0.0.1')
    for (const { name } of both) {
      const head = `POST /v1/admin/destinations/${name}/test HTTP/1.1\r\nHost: a\r\n`
      client.write(`${head}Authorization: ${authorization}\r\nContent-Length: 2\r\n\r\n{}`)
    }
    await Promise.all([crm.has(1), erp.has(1)])
    client.destroy()
    // A new test is possible as soon as the first one has ended, long before it would have sent everything.
    for (const { name } of both) {
      await expect
        .poll(async () => {
          const url = `${adminUrl}/v1/admin/destinations/${name}/test`
          const body = '{"types":["page"]}'
          const again = await fetch(url, { method: 'POST', headers: { authorization }, body })
          return again.status
        })
        .toBe(200)
    }
    expect(crm.received.length).toBeLessThan(7)
    expect(erp.received.length).toBeLessThan(7)
  })
})
