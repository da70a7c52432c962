import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { HooklineError } from '../../src/index.js'
import { parseWebhook, signWebhook, WebhookVerificationError } from '../../src/webhook/index.js'
import { vectors } from '../vectors/vectors.js'

const secret = 'a-s3cret-that-no-message-shows'
const body = '{"type":"delete","userId":"u1"}'
const signature = signWebhook(secret, body)

function refusal(...request: Parameters<typeof parseWebhook>): WebhookVerificationError {
  try {
    parseWebhook(...request)
  } catch (error) {
    expect(error).toBeInstanceOf(WebhookVerificationError)
    return error as WebhookVerificationError
  }
  throw new Error('was accepted')
}

test.each(['page', 'screen', 'identify', 'track', 'alias', 'group', 'delete'])(
  'gives the body of a %s as it was signed',
  (type) => {
    const vector = vectors.accepted.find(({ name }) => name === type)
    const text = vector?.body ?? ''
    expect(parseWebhook(vector?.secret ?? '', text, vector?.signature)).toEqual(JSON.parse(text))
    expect(JSON.parse(text)).toHaveProperty('type', type)
  },
)

test('a runtime without TextDecoder, as the jsdom of Jest, is not called a body that is no JSON', () => {
  vi.stubGlobal('TextDecoder', undefined)
  onTestFinished(() => {
    vi.unstubAllGlobals()
  })
  expect(() => parseWebhook(secret, new TextEncoder().encode(body), signature)).toThrow(
    'TextDecoder is not a constructor',
  )
})

test('gives an event of a type that is not known yet as it came', () => {
  const text = '{"version":2,"type":"erase","what":["all"]}'
  expect(parseWebhook(secret, text, signWebhook(secret, text))).toEqual(JSON.parse(text))
})

test.each([`\uFEFF${body}`, Buffer.from(`\uFEFF${body}`)])(
  'reads past a byte order mark that was signed with the body',
  (marked) => {
    expect(parseWebhook(secret, marked, signWebhook(secret, marked))).toEqual(JSON.parse(body))
  },
)

test.each([
  ['missing_signature', body, undefined, /got none.*Set sharedSecret/],
  ['missing_signature', body, null, /got none/],
  ['missing_signature', body, '', /got none/],
  ['malformed_signature', body, `sha1=${signature}`, /got a string of 45 characters.*no prefix/],
  ['malformed_signature', body, 'é'.repeat(40), /40 hexadecimal characters/],
  ['malformed_signature', body, [signature, signature], /got a list of 2/],
  ['signature_mismatch', body, signWebhook('another', body), /Check that the secret/],
  ['body_consumed', undefined, signature, /got undefined.*express\.raw/],
  ['body_consumed', null, signature, /got null/],
  ['body_consumed', '', signWebhook(secret, ''), /got an empty string/],
  ['body_consumed', new Uint8Array(), signWebhook(secret, ''), /express\.raw/],
  ['body_consumed', 5, signature, /got a value of type Number.*express\.raw/],
  ['body_consumed', true, signature, /got a value of type Boolean/],
  ['body_consumed', 5n, signature, /got a value of type BigInt/],
  ['body_consumed', { id: 1n }, signature, /got a value of type Object.*express\.raw/],
  ['body_consumed', { pipe: () => undefined }, signature, /got a stream/],
  ['invalid_json', '{"type":', signWebhook(secret, '{"type":'), /got no JSON/],
  ['invalid_json', 'null', signWebhook(secret, 'null'), /without a type/],
  ['invalid_json', '[]', signWebhook(secret, '[]'), /without a type/],
  ['invalid_json', '{"type":1}', signWebhook(secret, '{"type":1}'), /without a type/],
] as const)('throws %s and says what to do (%#)', (code, sent, header, message) => {
  const error = refusal(secret, sent as string, header)
  expect(error).toBeInstanceOf(HooklineError)
  expect(error).toMatchObject({ name: 'WebhookVerificationError', code })
  expect(error.message).toMatch(message)
})

test('throws a TypeError for what only the receiver can get wrong', () => {
  expect(() => parseWebhook('', body, signature)).toThrow(TypeError)
  expect(() => parseWebhook(secret, Promise.resolve(body), signature)).toThrow(TypeError)
})

describe('the hint of a mismatch', () => {
  test('names the white space around a secret, to a request that the trimmed one signed', () => {
    expect(refusal(`${secret}\n`, body, signature).message).toContain('trim the secret')
    expect(refusal(['new', ` ${secret}`], body, signature).message).toContain('trim the secret')
  })

  test('says nothing about the secret to a request that it did not sign', () => {
    const forged = signWebhook('another', body)
    const plain = refusal(secret, body, forged).message
    expect(refusal(` ${secret} `, body, forged).message).toBe(plain)
    expect(refusal([secret, ` ${secret}`], body, forged).message).toBe(plain)
  })

  test.each([JSON.stringify(JSON.parse(body), null, 2), `${body}\n`, Buffer.from(`\uFEFF${body}`)])(
    'names a body that was reformatted on its way (%#)',
    (reformatted) => {
      expect(refusal(secret, reformatted, signature).message).toContain('reformatted')
    },
  )

  test('is not worth parsing a body that is larger than any call', () => {
    const large = JSON.stringify({ type: 'track', event: 'x'.repeat(70_000) })
    expect(refusal(secret, `${large}\n`, signWebhook(secret, large)).message).not.toContain(
      'reformat',
    )
  })

  test('never shows a secret or a right signature', () => {
    const trimmed = signWebhook(secret, body)
    const requests: Parameters<typeof parseWebhook>[] = [
      [` ${secret}`, body, trimmed],
      [secret, `${body} `, trimmed],
      [secret, body, '0'.repeat(40)],
      [secret, body, `${trimmed}00`],
    ]
    for (const request of requests) {
      const { message } = refusal(...request)
      expect(message).not.toContain(secret)
      for (const sent of [body, `${body} `]) {
        expect(message).not.toContain(signWebhook(secret, sent))
        expect(message).not.toContain(signWebhook(` ${secret}`, sent))
      }
    }
  })
})
