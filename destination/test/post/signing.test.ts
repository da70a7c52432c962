import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { verifyWebhook } from 'hookline'
import type { HeaderList } from '../../src/post/headers.js'
import type { Outcome } from '../../src/model/outcome.js'
import { createSigning } from '../../src/post/signing.js'

const BODY = '{"version":1,"type":"track","event":"Größe €"}'
const [OLD, NEW] = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`) as [
  string,
  string,
]

const toObject = (list: HeaderList): Record<string, string> =>
  Object.fromEntries(list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1] ?? '']] : [])))

const signing = (secrets: Partial<Parameters<typeof createSigning>[0]>, now?: () => number) =>
  createSigning({ sharedSecret: undefined, ...secrets }, now)

describe('the headers of Standard Webhooks', () => {
  test("verify by the standard's own package, with each secret while one is being rotated", () => {
    const { headers } = signing({ webhookSecrets: [NEW, OLD] })
    const sent = toObject(headers(BODY, 'm-1', 1))
    for (const secret of [OLD, NEW]) {
      expect(new Webhook(secret).verify(BODY, sent)).toEqual(JSON.parse(BODY))
    }
    const stranger = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
    expect(() => new Webhook(stranger).verify(BODY, sent)).toThrow('No matching signature')
    expect(() => new Webhook(NEW).verify(`${BODY} `, sent)).toThrow('No matching signature')
  })

  test('are the published example', () => {
    // The test vector of the Standard Webhooks libraries.
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    const { headers } = signing({ webhookSecrets: [secret] }, () => 1_614_265_330_999)
    const id = 'msg_p5jXN8AQM9LWM0D4loKWxJek'
    expect(toObject(headers('{"test": 2432232314}', id, 1))).toMatchObject({
      'webhook-id': id,
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    })
  })

  test.each(['a.b', 'ü ß', 'plain'])('verify for the id %j, which they give back', (messageId) => {
    const sent = toObject(signing({ webhookSecrets: [NEW] }).headers(BODY, messageId, 1))
    expect(sent['webhook-id']).not.toContain('.')
    expect(decodeURIComponent(sent['webhook-id'] ?? '')).toBe(messageId)
    expect(() => new Webhook(NEW).verify(BODY, sent)).not.toThrow()
  })

  test('have the time of the attempt, and the id of the message', () => {
    let now = 1_000_000
    const { headers } = signing({ webhookSecrets: [NEW] }, () => now)
    const first = toObject(headers(BODY, 'm', 1))
    now += 5_000
    const second = toObject(headers(BODY, 'm', 2))
    expect([first['webhook-timestamp'], second['webhook-timestamp']]).toEqual(['1000', '1005'])
    expect(second['webhook-id']).toBe(first['webhook-id'])
  })

  test('are beside X-Signature, or alone, or not there', () => {
    const names = (secrets: object) => Object.keys(toObject(signing(secrets).headers(BODY, 'm', 1)))
    const standard = ['webhook-id', 'webhook-timestamp', 'webhook-signature']
    const own = ['X-Message-Id', 'X-Attempt']
    expect(names({ sharedSecret: 's', webhookSecrets: [NEW] })).toEqual([
      'X-Signature',
      ...own,
      ...standard,
    ])
    expect(names({ webhookSecrets: [NEW] })).toEqual([...own, ...standard])
    expect(names({})).toEqual(own)
  })
})

describe('two secrets', () => {
  const rotating = signing({ sharedSecret: 'old', otherSecret: 'new' })
  const signature = (secret: string) => createHmac('sha1', secret).update(BODY).digest('hex')
  const signed = (attempt: number) => toObject(rotating.headers(BODY, 'm', attempt))['X-Signature']

  test('sign in turn, the first one first', () => {
    expect([1, 2, 3, 4].map(signed)).toEqual(
      ['old', 'new', 'old', 'new'].map((secret) => signature(secret)),
    )
    expect([1, 2].every((n) => verifyWebhook(['new', 'old'], BODY, signed(n)))).toBe(true)
  })

  const outcome = (status: number): Outcome => ({
    code: 'client_error',
    verdict: 'refused',
    status,
    ms: 1,
    retryAfterMs: undefined,
    response: '',
    error: 'no',
  })

  test.each([
    [401, 1, 'retry'],
    [400, 1, 'retry'],
    [403, 2, 'retry'],
    [401, 3, 'refused'],
    [404, 1, 'refused'],
    [410, 1, 'refused'],
  ])('make of a %i in attempt %i: %s', (status, attempt, verdict) => {
    expect(rotating.judge(outcome(status), attempt).verdict).toBe(verdict)
  })

  test('are what it takes: with one a 401 is final', () => {
    expect(signing({ sharedSecret: 'old' }).judge(outcome(401), 1).verdict).toBe('refused')
  })
})
