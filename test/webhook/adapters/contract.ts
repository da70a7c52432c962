import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { signedRequest } from '../../../src/testing.js'
import { signWebhook, type WebhookEvent, type WebhookSecret } from '../../../src/webhook/index.js'
import { abort, post, postEndless } from './post.js'

/** The options of an adapter, as far as all of them are alike. */
export interface Options {
  secret: WebhookSecret | undefined | (() => Promise<WebhookSecret | undefined>)
  maxBytes?: number
  onRefused?: (error: Error) => void
}

/** What the handler of a test answers, for the adapter's own way of answering: a status without a text; or it throws. */
export type Handle = (event: WebhookEvent) => { status: number; text?: string } | undefined

/**
 * What stands before the adapter: nothing, the framework's own JSON parser, something that keeps the raw
 * body, or something that reads it and keeps nothing.
 */
export type Before = 'nothing' | 'parser' | 'keeper' | 'thief'

/** An adapter in its framework, listening on a free port. */
export type Start = (
  options: Options,
  handle: Handle,
  before: Before,
) => Promise<{ url: string; close: () => Promise<unknown> }>

const secret = 's3cret'

/** What a handler returns that returns what its database gave it. */
export const ROWS: readonly [row: unknown][] = [
  [{ id: 10n, email: 'ada@example.com' }],
  [{ id: 1, status: 404, headers: {} }],
  [[{ id: 1 }]],
  [2],
  ['OK'],
  [false],
]

/** JavaScript may give a function anything. */
const untyped = (given: unknown) => given as never
const track = { userId: 'u1', event: 'Signed Up', properties: { plan: 'pro' } }

/** What every adapter promises. */
export function adapterContract(name: string, start: Start, before: readonly Before[]): void {
  const open: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    await Promise.all(open.splice(0).map((close) => close()))
  })

  async function receiver(
    options: Partial<Options> = {},
    handle: Handle = () => undefined,
    stage: Before = 'nothing',
  ) {
    const handler = vi.fn(handle)
    const { url, close } = await start({ secret, ...options }, handler, stage)
    open.push(close)
    return { url, handler }
  }

  describe(`${name}: a signed request`, () => {
    test('reaches the handler as its event and is answered 204', async () => {
      const { url, handler } = await receiver()
      const request = signedRequest('track', track, secret)
      expect(await post(url, request)).toMatchObject({ status: 204, text: '' })
      expect(handler.mock.calls).toEqual([[JSON.parse(request.body)]])
    })

    test.each([
      ['in chunks that cut characters', 'track', 'é👍'.repeat(50)],
      ['of 150 KB', 'track', 'x'.repeat(150_000)],
      ['of almost 1 MiB', 'track', 'x'.repeat(1_048_300)],
    ])('%s reaches it whole', async (_claim, type, event) => {
      const { url, handler } = await receiver()
      const request = signedRequest('track', { ...track, event }, secret)
      expect(await post(url, { ...request, chunked: true })).toMatchObject({ status: 204 })
      expect(handler.mock.calls[0]?.[0]).toMatchObject({ type, event })
    })

    test('compressed with gzip on its way reaches it', async () => {
      const { url, handler } = await receiver()
      const { headers, body } = signedRequest('track', track, secret)
      const request = { headers: { ...headers, 'content-encoding': 'gzip' }, body: gzipSync(body) }
      expect(await post(url, request)).toMatchObject({ status: 204 })
      expect(await post(url, { ...request, chunked: true })).toMatchObject({ status: 204 })
      expect(handler).toHaveBeenCalledTimes(2)
    })

    test('with a byte order mark reaches it', async () => {
      const { url, handler } = await receiver()
      const { headers, body } = signedRequest('track', track, secret)
      const marked = `\uFEFF${body}`
      const signature = signWebhook(secret, marked)
      const request = { headers: { ...headers, 'X-Signature': signature }, body: marked }
      expect(await post(url, request)).toMatchObject({ status: 204 })
      expect(handler.mock.calls).toEqual([[JSON.parse(body)]])
    })

    test('without a content type reaches it', async () => {
      const { url, handler } = await receiver()
      const { headers, body } = signedRequest('track', track, secret)
      await post(url, { headers: { 'X-Signature': headers['X-Signature'] }, body })
      expect(handler).toHaveBeenCalledOnce()
    })

    test('is answered as the handler answers', async () => {
      const { url } = await receiver({}, () => ({ status: 202, text: 'later' }))
      const reply = await post(url, signedRequest('track', track, secret))
      expect(reply).toMatchObject({ status: 202, text: 'later' })
    })

    test.each([201, 404, 410, 503])(
      'is answered %i if that is all that the handler says',
      async (status) => {
        const { url } = await receiver({}, () => ({ status }))
        expect(await post(url, signedRequest('track', track, secret))).toMatchObject({ status })
      },
    )

    test('whose handler throws is answered 500 by the framework, and the next one is served', async () => {
      const { url, handler } = await receiver()
      handler.mockImplementationOnce(() => {
        throw new Error('of the handler')
      })
      const request = signedRequest('track', track, secret)
      expect(await post(url, request)).toMatchObject({ status: 500 })
      expect(await post(url, request)).toMatchObject({ status: 204 })
    })

    test.each([
      ['status', 401],
      ['statusCode', 404],
      ['statusCode', ' 401 '],
      ['status', 404.5],
      ['status', '403'],
      ['status', 301],
      ['status', 200],
      ['code', 'ENOENT'],
    ])('whose handler throws an error with the %s %j is answered 500', async (field, value) => {
      const { url } = await receiver({}, () => {
        throw Object.assign(new Error('of another server'), { [field]: value })
      })
      expect(await post(url, signedRequest('track', track, secret))).toMatchObject({ status: 500 })
    })

    test('is answered 500 if the function of the secret or onRefused fails with a 403', async () => {
      const error = Object.assign(new Error('of another server'), { status: 403 })
      const unknown = await receiver({ secret: () => Promise.reject(error) })
      const onRefused = () => {
        throw error
      }
      const refusing = await receiver({ onRefused })
      const request = signedRequest('track', track, secret)
      expect(await post(unknown.url, request)).toMatchObject({ status: 500 })
      expect(await post(refusing.url, { body: '' })).toMatchObject({ status: 500 })
    })

    test.each(['route', 'router', null, undefined, 0, ''])(
      'whose handler throws %j is answered 500',
      async (thrown) => {
        const { url } = await receiver({}, () => {
          throw thrown as unknown as Error
        })
        expect(await post(url, signedRequest('track', track, secret))).toMatchObject({
          status: 500,
        })
      },
    )
  })

  describe(`${name}: a secret`, () => {
    test('may be one of several, or come from a promise', async () => {
      const request = signedRequest('track', track, secret)
      const rotated = await receiver({ secret: ['new', secret] })
      const later = await receiver({ secret: () => Promise.resolve([secret]) })
      expect(await post(rotated.url, request)).toMatchObject({ status: 204 })
      expect(await post(later.url, request)).toMatchObject({ status: 204 })
    })

    test.each([undefined, '', [] as string[]])(
      'that is %j is refused at the start',
      async (unset) => {
        await expect(receiver({ secret: unset })).rejects.toThrow(/^secret: expected .* got /)
      },
    )

    test('that is unset when the request comes makes it a 500, never an accepted one', async () => {
      const { url, handler } = await receiver({ secret: () => Promise.resolve(undefined) })
      const { headers, body } = signedRequest('track', track, 'undefined')
      expect(await post(url, { headers, body })).toMatchObject({ status: 500 })
      expect(handler).not.toHaveBeenCalled()
    })
  })

  test.each([0, -1, NaN, '1mb'])(
    `${name}: maxBytes of %s is refused at the start`,
    async (maxBytes) => {
      await expect(receiver(untyped({ maxBytes }))).rejects.toThrow('maxBytes: expected a number')
    },
  )

  test.each([
    [{ maxbytes: 10 }, 'maxbytes: there is no such option, only secret, maxBytes and onRefused.'],
    [{ onRefuse: vi.fn() }, 'onRefuse: there is no such option'],
    [{ onRefused: 5 }, 'onRefused: expected a function, got a value of type Number.'],
  ])(`${name}: %o is refused at the start`, async (options, message) => {
    await expect(receiver(untyped(options))).rejects.toThrow(message)
  })

  describe(`${name}: a request is refused`, () => {
    const { headers, body } = signedRequest('track', track, secret)
    const signature = headers['X-Signature']
    const sign = (value: string | string[]) => ({ ...headers, 'X-Signature': value })
    const packed = (encoding: string) => ({ ...headers, 'content-encoding': encoding })
    const empty = signWebhook(secret, '')
    const bomb = gzipSync(Buffer.alloc(3_000_000, ' '))
    const text = '{"type":'

    test.each([
      ['401 without a signature', 401, 'missing_signature', {}, body],
      ['401 with half a signature', 401, 'malformed_signature', sign(signature.slice(20)), body],
      ['401 with the prefix sha1=', 401, 'malformed_signature', sign(`sha1=${signature}`), body],
      ['401 with two', 401, 'malformed_signature', sign([signature, signature]), body],
      ['401 under another secret', 401, 'signature_mismatch', sign(signWebhook('x', body)), body],
      ['401 with another body', 401, 'signature_mismatch', headers, body.replace('pro', 'max')],
      ['401 with an empty body', 401, 'signature_mismatch', sign(empty), ''],
      [
        '400 when it is signed and no JSON',
        400,
        'invalid_json',
        sign(signWebhook(secret, text)),
        text,
      ],
      ['415 in brotli', 415, 'unsupported_encoding', packed('br'), brotliCompressSync(body)],
      [
        '415 in broken gzip',
        415,
        'unsupported_encoding',
        packed('gzip'),
        gzipSync(body).subarray(0, 30),
      ],
      ['413 when it is gzip of 3 MB', 413, 'body_too_large', packed('gzip'), bomb],
      ['413 when it is larger than 1 MiB', 413, 'body_too_large', headers, 'x'.repeat(1_048_577)],
    ])('%s', async (_claim, status, error, sent, content) => {
      const onRefused = vi.fn()
      const { url, handler } = await receiver({ onRefused })
      const message = expect.stringMatching(/^Expected .* got /) as string
      for (const chunked of [false, true]) {
        const reply = await post(url, { headers: sent, body: content, chunked })
        expect(reply).toMatchObject({ status, json: { error, message } })
      }
      expect(onRefused.mock.calls[0]?.[0]).toMatchObject({ code: error })
      expect(onRefused).toHaveBeenCalledTimes(2)
      expect(handler).not.toHaveBeenCalled()
    })

    test('413 over its own maxBytes, and not at them', async () => {
      const { url } = await receiver({ maxBytes: body.length })
      expect(await post(url, { headers, body })).toMatchObject({ status: 204 })
      const over = await post(url, { headers, body: `${body} `, chunked: true })
      expect(over).toMatchObject({ status: 413, json: { error: 'body_too_large' } })
    })

    test('413 while 8 MB are still being sent, in time to be read', async () => {
      const { url } = await receiver()
      const request = { headers, body: Buffer.alloc(8_000_000, 'x') }
      expect(await post(url, request)).toMatchObject({ status: 413 })
      expect(await post(url, { ...request, chunked: true })).toMatchObject({ status: 413 })
    })

    test('by nobody when the client leaves mid-body, and the next one is served', async () => {
      const { url, handler } = await receiver()
      await abort(url, headers, body)
      expect(await post(url, { headers, body })).toMatchObject({ status: 204 })
      expect(handler).toHaveBeenCalledOnce()
    })
  })

  const later = before.filter((stage) => stage === 'parser' || stage === 'keeper')
  describe.each(later)(`${name}: a body that a %s has read first`, (stage) => {
    test('is verified and reaches the handler', async () => {
      const { url, handler } = await receiver({}, () => undefined, stage)
      const event = 'é👍 \u2028'.repeat(50)
      const request = signedRequest('track', { ...track, event }, secret)
      expect(await post(url, { ...request, chunked: true })).toMatchObject({ status: 204 })
      expect(handler.mock.calls).toEqual([[JSON.parse(request.body)]])
    })

    test('is refused when it was not signed', async () => {
      const { url, handler } = await receiver({}, () => undefined, stage)
      const request = signedRequest('track', track, 'another')
      const reply = await post(url, request)
      expect(reply).toMatchObject({ status: 401, json: { error: 'signature_mismatch' } })
      expect(handler).not.toHaveBeenCalled()
    })

    test('is refused when it is empty', async () => {
      const { url, handler } = await receiver({}, () => undefined, stage)
      const { headers } = signedRequest('track', track, secret)
      const reply = await post(url, {
        headers: { ...headers, 'X-Signature': signWebhook(secret, '') },
      })
      expect(reply.status).toBeGreaterThanOrEqual(400)
      expect(handler).not.toHaveBeenCalled()
    })
  })

  if (before.includes('keeper')) {
    test(`${name}: a body that was kept is verified over its bytes, not over its parsed form`, async () => {
      const { url } = await receiver({}, () => undefined, 'keeper')
      const { headers } = signedRequest('track', track, secret)
      const body = '{ "type": "delete" }\n'
      const request = { headers: { ...headers, 'X-Signature': signWebhook(secret, body) }, body }
      expect(await post(url, request)).toMatchObject({ status: 204 })
    })
  }

  if (before.includes('thief')) {
    test(`${name}: a body without an end is 413, and a declared one before it is sent`, async () => {
      const { url } = await receiver()
      const { headers } = signedRequest('track', track, secret)
      expect(await postEndless(url, headers)).toBe(413)
      const declared = { ...headers, 'content-length': 2_000_000 }
      expect(await postEndless(url, declared, () => false)).toBe(413)
    })

    test(`${name}: a body without a signature is 401 before it is sent`, async () => {
      const { url, handler } = await receiver()
      expect(await postEndless(url, { 'content-length': 2_000_000 }, () => false)).toBe(401)
      expect(await postEndless(url, {}, () => false)).toBe(401)
      expect(handler).not.toHaveBeenCalled()
    })

    test(`${name}: a body that is gone is a 500 at once, and the message says what to do`, async () => {
      const onRefused = vi.fn()
      const { url, handler } = await receiver({ onRefused }, () => undefined, 'thief')
      const reply = await post(url, signedRequest('track', track, secret))
      const message = expect.stringContaining('something read it before. ') as string
      expect(reply).toMatchObject({ status: 500, json: { error: 'body_consumed', message } })
      expect(onRefused).toHaveBeenCalledOnce()
      expect(handler).not.toHaveBeenCalled()
    })
  }
}
