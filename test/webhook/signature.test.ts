import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { signWebhook, verifyWebhook, type WebhookSignature } from '../../src/webhook/index.js'
import { isSameHex } from '../../src/webhook/rule.js'
import { isSignedWeb } from '../../src/webhook/web-signature.js'
import { bytesOf, vectors } from '../vectors/vectors.js'

const secret = 's3cret'
const body = '{"type":"delete","userId":"u1"}'
const signature = signWebhook(secret, body)

describe('the vectors of test/vectors/signature.json', () => {
  test.each(vectors.accepted)('Node and WebCrypto accept: $name', async (vector) => {
    const bytes = bytesOf(vector)
    expect(signWebhook(vector.secret, bytes)).toBe(vector.signature.toLowerCase())
    expect(verifyWebhook(vector.secret, bytes, vector.signature)).toBe(true)
    await expect(isSignedWeb([vector.secret], bytes, vector.signature)).resolves.toBe(true)
    if (vector.body !== undefined) {
      expect(verifyWebhook(vector.secret, vector.body, vector.signature)).toBe(true)
      await expect(isSignedWeb([vector.secret], vector.body, vector.signature)).resolves.toBe(true)
    }
  })

  test.each(vectors.refused)('Node and WebCrypto refuse: $name', async (vector) => {
    const bytes = bytesOf(vector)
    const hostile = vector.signature as WebhookSignature
    expect(verifyWebhook(vector.secret, bytes, hostile)).toBe(false)
    await expect(isSignedWeb([vector.secret], bytes, hostile)).resolves.toBe(false)
  })
})

test.each([0, 20, 39, 40])('a digest that differs at %i is read to its end', (place) => {
  const digest = 'a'.repeat(40)
  const reads: number[] = []
  const given = {
    charCodeAt: (index: number) => {
      reads.push(index)
      return index === place ? 0x62 : digest.charCodeAt(index)
    },
  }
  expect(isSameHex(digest, given as string)).toBe(place === 40)
  expect(reads).toEqual(Array.from(digest, (_, index) => index))
})

describe('a body', () => {
  const bytes = Buffer.from(body)
  const padded = Buffer.from(`xx${body}xx`)

  test.each<[string, unknown]>([
    ['text', body],
    ['a Buffer', bytes],
    ['a Uint8Array', new Uint8Array(bytes)],
    ['a part of a larger buffer', padded.subarray(2, -2)],
    ['a DataView of that part', new DataView(padded.buffer, padded.byteOffset + 2, bytes.length)],
    ['an ArrayBuffer', Uint8Array.from(bytes).buffer],
    ['a parsed object', JSON.parse(body)],
    ['bytes of another realm', runInNewContext(`Uint8Array.from(${JSON.stringify([...bytes])})`)],
    ['an object of another realm', runInNewContext(`(${body})`)],
  ])('as %s is verified over the same bytes', (_form, form) => {
    expect(verifyWebhook(secret, form as string, signature)).toBe(true)
    expect(verifyWebhook('another', form as string, signature)).toBe(false)
    expect(signWebhook(secret, form as string)).toBe(signature)
  })

  test('that is parsed keeps __proto__, number-like keys and escapes as they were signed', () => {
    const odd = '{"2":"b","10":"a","__proto__":{"x":1},"type":"track","event":"\\ud83d 👍 \\u0000"}'
    expect(verifyWebhook(secret, JSON.parse(odd) as object, signWebhook(secret, odd))).toBe(true)
  })

  test('nested a million levels deep is false, raw and parsed', () => {
    const deep = '['.repeat(1e6) + ']'.repeat(1e6)
    let parsed: unknown[] = []
    for (let level = 0; level < 1e6; level++) parsed = [parsed]
    expect(verifyWebhook(secret, deep, signature)).toBe(false)
    expect(verifyWebhook(secret, parsed, signature)).toBe(false)
  })

  test.each<[string, unknown, RegExp]>([
    ['undefined', undefined, /got undefined.*Pass the raw body/],
    ['null', null, /got null/],
    ['a number', 42, /type Number/],
    ['a boolean', true, /type Boolean/],
    ['a BigInt', 42n, /type BigInt/],
    ['with a BigInt', { id: 1n }, /JSON\.stringify refuses/],
  ])(
    'that is %s is false, because a stranger can send it, and cannot be signed',
    (_form, form, message) => {
      expect(verifyWebhook(secret, form as string, signature)).toBe(false)
      expect(verifyWebhook(secret, form as string, signWebhook(secret, String(form)))).toBe(false)
      expect(() => signWebhook(secret, form as string)).toThrow(TypeError)
      expect(() => signWebhook(secret, form as string)).toThrow(message)
    },
  )

  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  test.each<[string, unknown, RegExp]>([
    ['a promise', Promise.resolve(body), /type Promise.*await the promise/],
    ['a Request', new Request('http://localhost', { method: 'POST', body }), /type Request/],
    ['a Web stream', new Blob([body]).stream(), /type ReadableStream/],
    ['a Node stream', { pipe: () => undefined }, /a stream/],
    ['a function', () => body, /type Function/],
    ['circular', circular, /JSON\.stringify refuses/],
  ])('that is %s throws a TypeError that says what to do', (_form, form, message) => {
    expect(() => verifyWebhook(secret, form as string, signature)).toThrow(TypeError)
    expect(() => verifyWebhook(secret, form as string, signature)).toThrow(message)
    expect(() => signWebhook(secret, form as string)).toThrow(message)
  })
})

describe('a secret', () => {
  test('may be one of several while it is rotated, at any place', () => {
    expect(verifyWebhook([secret, 'old'], body, signature)).toBe(true)
    expect(verifyWebhook(['new', secret], body, signature)).toBe(true)
    expect(verifyWebhook(['new', 'old'], body, signature)).toBe(false)
  })

  test.each<[string, unknown, RegExp]>([
    ['empty', '', /got an empty string/],
    ['undefined', undefined, /got undefined.*check that the variable is set/],
    ['null', null, /got null/],
    ['a number', 7, /type Number/],
    ['no list entry', [], /empty list/],
    ['an empty entry of a list', [secret, ''], /got an empty string/],
    ['an undefined entry of a list', [undefined, secret], /got undefined/],
  ])('that is %s throws a TypeError, whatever the signature', (_form, wrong, message) => {
    for (const header of [signature, undefined]) {
      expect(() => verifyWebhook(wrong as string, body, header)).toThrow(TypeError)
      expect(() => verifyWebhook(wrong as string, body, header)).toThrow(message)
    }
  })

  test('in a list is not what signing takes: which of them would be a guess', () => {
    expect(() => signWebhook([secret] as unknown as string, body)).toThrow(TypeError)
  })
})
