import { createServer, type Server } from 'node:https'
import { createServer as createTcpServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { signWebhook } from 'hookline/webhook'
import { Webhook } from 'standardwebhooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Finding } from '../../src/operate/doctor.js'
import { createAuthority, hasOpenssl, type Certificate } from '../post/certificates.js'
import type { Answer } from '../endpoint.js'
import { endpoint } from '../run.js'
import { runInside } from './inside.js'
import { folderWith } from './process.js'

const SECRET = 's3cret'

/** The answer of a receiver that checks signatures. */
const checking: Answer = (response, { body, headers }) => {
  const isRight = headers['x-signature'] === signWebhook(SECRET, body)
  response.writeHead(isRight ? 204 : 401).end(isRight ? '' : 'wrong signature')
}

/** Runs `doctor` for an endpoint that is in the settings. */
async function doctor(
  url: string,
  {
    secrets = { sharedSecret: SECRET },
    ...changes
  }: { secrets?: object; [name: string]: unknown } = {},
  ...args: string[]
) {
  const settings = {
    sources: [{ name: 'web', writeKey: 'k' }],
    destinations: [
      {
        name: 'crm',
        sources: ['web'],
        ...secrets,
        webhooks: [{ url, headers: { 'X-Team': 'growth' } }],
      },
    ],
    allowNetworks: ['127.0.0.0/8'],
    ...changes,
  }
  const config = join(folderWith(settings), 'hookline.config.json')
  const { code, stdout } = await runInside(['doctor', url, '--config', config, '--json', ...args])
  const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] }
  return { code, ok, findings, steps: findings.map(({ step, state }) => `${step} ${state}`) }
}

describe('doctor', () => {
  test('finds nothing wrong with an endpoint that takes what is signed and refuses what is not', async () => {
    const crm = await endpoint(checking)
    const { code, ok, steps } = await doctor(crm.url)
    expect(steps).toEqual([
      'dns ok',
      'network ok',
      'connection ok',
      'round trip ok',
      'signature ok',
    ])
    expect({ code, ok }).toEqual({ code: 0, ok: true })
    expect(crm.received.map(({ event, headers }) => [event['event'], headers['x-team']])).toEqual([
      ['Hookline Doctor', 'growth'],
      ['Hookline Doctor', 'growth'],
    ])
  })

  test('during a rotation, tries both secrets as a delivery does', async () => {
    const crm = await endpoint(checking)
    const rotation = { secrets: { sharedSecret: ['old secret', SECRET] } }
    const { code, findings, steps } = await doctor(crm.url, rotation)
    expect(steps.slice(-2)).toEqual(['round trip ok', 'signature ok'])
    expect(findings.at(-2)?.found).toMatch(
      / answered 204\. It refused the first secret of the rotation, and accepts the second one\.$/,
    )
    expect(code).toBe(0)

    const neither = await doctor(crm.url, {
      secrets: { sharedSecret: ['old secret', 'new secret'] },
    })
    expect(neither.findings.at(-2)?.found).toContain('It refused both secrets of the rotation.')
    expect(neither.code).toBe(1)

    const given = await doctor(crm.url, rotation, '--secret', 'other')
    expect(given.steps.slice(-2)).toEqual(['round trip failed', 'signature failed'])
    expect(given.findings.at(-2)?.found).not.toContain('rotation')
  })

  test('examines the signature of Standard Webhooks where it is the only one', async () => {
    const webhookSecret = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
    const checksStandard: Answer = (response, { body, headers }) => {
      try {
        new Webhook(webhookSecret).verify(body, headers as Record<string, string>)
        response.writeHead(204).end()
      } catch {
        response.writeHead(401).end()
      }
    }
    const crm = await endpoint(checksStandard)
    const { code, findings, steps } = await doctor(crm.url, { secrets: { webhookSecret } })
    expect(steps.slice(-2)).toEqual(['round trip ok', 'signature ok'])
    expect(findings.at(-1)?.found).toMatch(
      /^The endpoint accepts webhook-id: .*, webhook-signature: v1,\S+ and refuses a wrong signature \(401\)\.$/,
    )
    expect(code).toBe(0)
    crm.answer(204)
    const unchecked = await doctor(crm.url, { secrets: { webhookSecret } })
    expect(unchecked.steps.at(-1)).toBe('signature failed')
  })

  test('sends nothing if it is told not to', async () => {
    const crm = await endpoint(checking)
    const { code, steps } = await doctor(crm.url, {}, '--no-post')
    expect(steps.at(-1)).toBe('round trip skipped')
    expect(code).toBe(0)
    expect(crm.received).toEqual([])
  })

  test('finds an endpoint that checks no signatures', async () => {
    const crm = await endpoint(204)
    const { code, findings } = await doctor(crm.url)
    expect(findings.at(-1)).toMatchObject({ step: 'signature', state: 'failed' })
    expect(code).toBe(1)
  })

  test.each<[string, Answer]>([
    ['429', 429],
    ['503', 503],
    ['connection_reset', (response) => response.socket?.destroy()],
  ])('does not take a %s for the refusal of a wrong signature', async (_, answer) => {
    const crm = await endpoint(204, answer)
    const { code, findings } = await doctor(crm.url)
    expect(findings.at(-1)).toMatchObject({
      ...{ step: 'signature', state: 'skipped' },
      found: expect.stringContaining(
        'It is not known whether it refuses a wrong signature: ',
      ) as string,
    })
    expect(code).toBe(0)
  })

  test('finds another secret, and shows what was signed', async () => {
    const crm = await endpoint(checking)
    const { code, findings, steps } = await doctor(crm.url, {}, '--secret', 'other')
    expect(steps.slice(-2)).toEqual(['round trip failed', 'signature failed'])
    const { body } = crm.received[0] ?? {}
    expect(findings.at(-2)).toMatchObject({
      found: expect.stringContaining('wrong signature') as string,
    })
    const signature = signWebhook('other', body ?? '')
    expect(findings.at(-1)?.found).toContain(`X-Signature: ${signature}`)
    expect(findings.at(-1)?.found).toContain(body)
    expect(code).toBe(1)
  })

  test.each([
    ['http://127.0.0.1:9/', { allowNetworks: [] }, 'network', /"127\.0\.0\.1"/, 1],
    ['http://127.0.0.1:9/', {}, 'connection', /Check that the endpoint is running/, 3],
    ['http://nowhere.invalid/', {}, 'dns', /Check the DNS records/, 3],
  ])('%s with %j fails at its %s', async (url, changes, step, fix, exitCode) => {
    const { code, findings } = await doctor(url, changes)
    expect(findings.at(-1)).toMatchObject({ step, state: 'failed' })
    expect(findings.at(-1)?.fix).toMatch(fix)
    expect(code).toBe(exitCode)
  })

  test('ends with 3 if the endpoint does not answer in time, because it may do so later', async () => {
    const hung = await endpoint(() => undefined)
    const { code, findings } = await doctor(hung.url)
    expect(findings.at(-2)).toMatchObject({ step: 'round trip', state: 'failed', code: 'timeout' })
    expect(code).toBe(3)
  })

  test('tells a port that does not speak TLS from one that is closed', async () => {
    const plain = await endpoint(204)
    const { code, findings, steps } = await doctor(plain.url.replace('http:', 'https:'))
    expect(steps.slice(2)).toEqual(['connection ok', 'certificate failed'])
    expect(findings.at(-1)?.found).toContain('seems to speak plain HTTP')
    expect(code).toBe(1)
    const cut = createTcpServer((socket) => socket.once('data', () => socket.end()))
    await new Promise<void>((resolve) => cut.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void cut.close())
    const { port } = cut.address() as AddressInfo
    const ended = await doctor(`https://127.0.0.1:${port}/`)
    expect(ended.findings.slice(2)).toMatchObject([
      { step: 'connection', state: 'ok' },
      {
        ...{ step: 'certificate', state: 'failed', code: 'connection_reset' },
        fix: expect.stringContaining('Check that the endpoint speaks TLS') as string,
      },
    ])
    expect(ended.code).toBe(3)
  })

  test.each([
    [400, 'skipped'],
    [401, 'failed'],
    [403, 'failed'],
    [500, 'skipped'],
  ])('of the status %i says that the signature is %s', async (status, state) => {
    const crm = await endpoint(status)
    const { findings } = await doctor(crm.url, {}, '--secret', 'known')
    expect(findings.find(({ step }) => step === 'signature')).toMatchObject({ state })
  })

  test.each([
    [404, /Check the host and the path of the URL/],
    [400, /may name what it does not accept/],
    [307, undefined],
  ])('gives the advice for the status %i, as a test does', async (status, fix) => {
    const crm = await endpoint(status)
    const { findings } = await doctor(crm.url)
    const { fix: given } = findings.find(({ step }) => step === 'round trip') ?? {}
    if (fix) expect(given).toMatch(fix)
    else expect(given).toBeUndefined()
  })

  test('is read by people in lines', async () => {
    const crm = await endpoint(500)
    const { stdout, code } = await runInside(['doctor', crm.url])
    expect(code).toBe(1)
    expect(stdout.split('\n')).toEqual([
      'ok      dns          127.0.0.1 is an IP address and needs no DNS lookup.',
      'failed  network      Not allowed, because not public: 127.0.0.1.',
      expect.stringMatching(/^ {21}If you trust 127\.0\.0\.1, add its network/),
      '',
    ])
  })
})

describe.runIf(hasOpenssl())('doctor, of certificates,', () => {
  async function secure(certificate: Certificate): Promise<string> {
    const server: Server = createServer(certificate, (request, response) => {
      request.resume()
      response.writeHead(204).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`
  }

  test('shows the chain of one that is trusted, and why one is not', async () => {
    const authority = createAuthority()
    onTestFinished(authority.dispose)
    const url = await secure(authority.issueBelow('127.0.0.1'))
    const trusted = await doctor(url, { ca: [authority.rootFile] }, '--no-post')
    expect(trusted.code).toBe(0)
    expect(trusted.findings.find(({ step }) => step === 'certificate')?.found).toMatch(
      /^TLSv1\.\d; 127\.0\.0\.1 ← Test Middle ← Test Root; valid until 20\d\d-/,
    )
    const { code, findings } = await doctor(url)
    expect(code).toBe(1)
    expect(findings.at(-1)).toMatchObject({
      step: 'certificate',
      state: 'failed',
      found: expect.stringContaining('add its authority to the setting ca') as string,
    })
  })
})
