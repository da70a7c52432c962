import fc from 'fast-check'
import {
  parseWebhook,
  signWebhook,
  verifyWebhook,
  type WebhookSignature,
} from '../../src/webhook/index.js'
import { isSignedWeb } from '../../src/webhook/web-signature.js'
import { parsing, runAsync } from '../../src/webhook/parse.js'
import { anyCharacter } from '../characters.js'

const HEX = Array.from('0123456789abcdefABCDEF')

const secret = fc.oneof(
  fc.string({ minLength: 1 }),
  fc.string({ minLength: 1, maxLength: 3, unit: fc.constantFrom(' ', '\n', 'a') }),
  fc.string({ minLength: 1, unit: anyCharacter }),
)
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: anyCharacter, maxLength: 300 }),
  fc.json(),
  fc
    .record({ type: fc.string(), properties: fc.jsonValue() })
    .map((value) => JSON.stringify(value)),
)
const body = fc.oneof(text, fc.uint8Array({ maxLength: 300 }))

/** What a header can hold, and what a careless server can pass instead. */
const hostile = fc.oneof(
  fc.anything(),
  fc.string({ minLength: 40, maxLength: 40, unit: anyCharacter }),
  fc.string({ minLength: 40, maxLength: 40, unit: fc.constantFrom(...HEX) }),
  fc.array(fc.string()),
)

/** A right signature with something done to it. */
const damage = fc.oneof(
  fc.tuple(fc.nat(39), fc.string({ unit: anyCharacter, maxLength: 2 })),
  fc.tuple(
    fc.nat(39),
    fc.nat(0xffff).map((code) => String.fromCharCode(code)),
  ),
)

const isEmpty = (content: string | Uint8Array) => content.length === 0

/** Claims that hold for every secret, body and signature; each may be run alone. */
export const properties = {
  'what is signed is verified, by Node and by WebCrypto, in either case': fc.asyncProperty(
    secret,
    body,
    async (key, content) => {
      const signature = signWebhook(key, content)
      for (const given of [signature, signature.toUpperCase()]) {
        if (verifyWebhook(key, content, given) === isEmpty(content)) return false
        if ((await isSignedWeb([key], content, given)) === isEmpty(content)) return false
      }
      return true
    },
  ),

  'any other signature is false and never a throw': fc.asyncProperty(
    secret,
    body,
    hostile,
    async (key, content, signature) => {
      const given = signature as WebhookSignature
      const right = signWebhook(key, content)
      const expected =
        typeof given === 'string' && given.toLowerCase() === right && !isEmpty(content)
      return (
        verifyWebhook(key, content, given) === expected &&
        (await isSignedWeb([key], content, given)) === expected
      )
    },
  ),

  'a damaged signature is false': fc.asyncProperty(
    secret,
    body,
    damage,
    async (key, content, [at, junk]) => {
      const right = signWebhook(key, content)
      const given = right.slice(0, at) + junk + right.slice(at + 1)
      const expected = /^[\da-fA-F]{40}$/.test(given) && given.toLowerCase() === right
      return (
        verifyWebhook(key, content, given) === (expected && !isEmpty(content)) &&
        (await isSignedWeb([key], content, given)) === (expected && !isEmpty(content))
      )
    },
  ),

  'another secret or another body is false': fc.property(
    fc.tuple(secret, secret),
    fc.tuple(body, body),
    ([key, other], [content, changed]) => {
      const signature = signWebhook(key, content)
      const sameBody = Buffer.from(changed).equals(Buffer.from(content))
      fc.pre(!Buffer.from(key).equals(Buffer.from(other)) && !sameBody)
      // HMAC pads a short key with zeros (RFC 2104), so keys that differ in those alone are one key.
      fc.pre(key.replace(/\0+$/, '') !== other.replace(/\0+$/, ''))
      return !verifyWebhook(other, content, signature) && !verifyWebhook(key, changed, signature)
    },
  ),

  'a parsed body is verified like the text that the destination signs': fc.property(
    secret,
    fc.oneof(fc.json(), fc.json({ stringUnit: 'binary' })),
    (key, json) => {
      const signed = JSON.stringify(JSON.parse(json)) // the destination's fixed point
      const parsed: unknown = JSON.parse(signed)
      fc.pre(typeof parsed === 'object' && parsed !== null)
      return verifyWebhook(key, parsed, signWebhook(key, signed))
    },
  ),

  'a parse gives an event or a reason, the same by Node and by WebCrypto': fc.asyncProperty(
    secret,
    body,
    fc.oneof(hostile, fc.constant('right')),
    async (key, content, given) => {
      const signature = given === 'right' ? signWebhook(key, content) : given
      const settle = async (parse: () => unknown) => {
        try {
          return JSON.stringify({ event: await parse() })
        } catch (error) {
          // By name: tests of the built package have the class twice, as `parsing` is not public.
          if (error instanceof Error && error.name === 'WebhookVerificationError') {
            return error.message
          }
          throw error
        }
      }
      const byNode = await settle(() => parseWebhook(key, content, signature as WebhookSignature))
      const byWeb = await settle(() => runAsync(parsing(key, content, signature), isSignedWeb))
      const isEvent = byNode.startsWith('{"event":{')
      return byNode === byWeb && (!isEvent || verifyWebhook(key, content, signature as string))
    },
  ),
}
