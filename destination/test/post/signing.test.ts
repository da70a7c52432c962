import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { verifyWebhook } from 'hookline'
import type { HeaderList } from '../../src/post/headers.js'
import { createSigning, refusesSignature } from '../../src/post/signing.js'

const URL = 'https://crm.example.com/hook'
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
    const sent = toObject(headers(BODY, 'm-1', 1, undefined))
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
    expect(toObject(headers('{"test": 2432232314}', id, 1, undefined))).toMatchObject({
      'webhook-id': id,
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    })
  })

  test.each(['a.b', 'ü ß', 'plain'])('verify for the id %j, which they give back', (messageId) => {
    const sent = toObject(signing({ webhookSecrets: [NEW] }).headers(BODY, messageId, 1, undefined))
    expect(sent['webhook-id']).not.toContain('.')
    expect(decodeURIComponent(sent['webhook-id'] ?? '')).toBe(messageId)
    expect(() => new Webhook(NEW).verify(BODY, sent)).not.toThrow()
  })

  test('have the time of the attempt, and the id of the message', () => {
    let now = 1_000_000
    const { headers } = signing({ webhookSecrets: [NEW] }, () => now)
    const first = toObject(headers(BODY, 'm', 1, undefined))
    now += 5_000
    const second = toObject(headers(BODY, 'm', 2, undefined))
    expect([first['webhook-timestamp'], second['webhook-timestamp']]).toEqual(['1000', '1005'])
    expect(second['webhook-id']).toBe(first['webhook-id'])
  })

  test('are beside X-Signature, or alone, or not there', () => {
    const names = (secrets: object) =>
      Object.keys(
        toObject(signing(secrets).headers(BODY, 'm', 1, signing(secrets).secretsFor(URL)[0])),
      )
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
  const rotating = () => signing({ sharedSecret: 'old', otherSecret: 'new' })

  test('are tried in turn, and the first one once more', () => {
    expect(rotating().secretsFor(URL)).toEqual(['old', 'new', 'old'])
  })

  test('begin with the one that the endpoint accepted last', () => {
    const one = rotating()
    one.accepted(URL, 'new')
    expect(one.secretsFor(URL)).toEqual(['new', 'old', 'new'])
    expect(one.secretsFor(`${URL}/other`)).toEqual(['old', 'new', 'old'])
    one.accepted(URL, 'old')
    expect(one.secretsFor(URL)).toEqual(['old', 'new', 'old'])
  })

  test('each make a signature that verifyWebhook accepts', () => {
    for (const secret of rotating().secretsFor(URL)) {
      const headers = toObject(rotating().headers(BODY, 'm', 1, secret))
      expect(verifyWebhook(secret ?? '', BODY, headers['X-Signature'])).toBe(true)
    }
  })

  test.each([
    [400, true],
    [401, true],
    [403, true],
    [402, false],
    [404, false],
    [422, false],
    [500, false],
    [undefined, false],
  ])('are tried after an answer with %s: %s', (status, expected) => {
    expect(refusesSignature({ status })).toBe(expected)
  })

  test('are what it takes: one is tried once', () => {
    expect(signing({ sharedSecret: 'old' }).secretsFor(URL)).toEqual(['old'])
    expect(signing({}).secretsFor(URL)).toEqual([undefined])
  })
})
