import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { Hono, type Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { ContentfulStatusCode, StatusCode } from 'hono/utils/http-status'
import { expect, test } from 'vitest'
import { gzipSync } from 'node:zlib'
import { adapterContract, ROWS, type Start } from './contract.js'
import { listening } from './listen.js'
import { post } from './post.js'
import { signedRequest } from '../../../src/testing.js'
import { webhook } from '../../../src/webhook/adapters/hono.js'

const statusOf = (error: Error & { status?: unknown; statusCode?: unknown }) =>
  Number(error.status ?? error.statusCode ?? 500) as ContentfulStatusCode

const start: Start = (options, handle, before) => {
  const app = new Hono()
  // As many applications do. A status that is no number makes Hono fail, which is answered 500.
  app.onError((error, c) => c.text('failed', statusOf(error)))
  app.use(async (c, next) => {
    if (before === 'parser') await c.req.json().catch(() => undefined)
    if (before === 'keeper') await c.req.text()
    if (before === 'thief') await c.req.raw.text()
    await next()
  })
  const receive = webhook(options, (event, c) => {
    const answer = handle(event)
    if (answer !== undefined) c.status(answer.status as StatusCode)
    return answer?.text === undefined ? undefined : c.text(answer.text)
  })
  app.post('/webhook', receive)
  return listening(serve({ fetch: app.fetch, port: 0 }) as Server)
}

adapterContract('Hono 4', start, ['parser', 'keeper', 'thief'])

test('Hono 4: an HTTPException is the answer', async () => {
  const app = new Hono()
  const refuse = () => {
    throw new HTTPException(410)
  }
  app.post('/', webhook({ secret: 's3cret' }, refuse))
  const response = await app.request('/', signedRequest('delete', { userId: 'u1' }, 's3cret'))
  expect(response.status).toBe(410)
})

test('Hono 4: an error of http-errors keeps its status for an onError that answers with it', async () => {
  const app = new Hono()
  app.onError((error, c) => c.text('failed', statusOf(error)))
  const refuse = () => {
    throw Object.assign(new Error('gone'), { status: 410, expose: true })
  }
  app.post('/', webhook({ secret: 's3cret' }, refuse))
  const response = await app.request('/', signedRequest('delete', { userId: 'u1' }, 's3cret'))
  expect(response.status).toBe(410)
})

test('Hono 4: a handler that fails is answered 500 by an onError that sets no status', async () => {
  const app = new Hono()
  app.onError((error, c) => c.text(error.message))
  const fail = (_event: unknown, c: Context) => {
    c.status(202)
    throw Object.assign(new Error('of the CRM'), { status: 401 })
  }
  app.post('/', webhook({ secret: 's3cret' }, fail))
  const response = await app.request('/', signedRequest('delete', { userId: 'u1' }, 's3cret'))
  expect(response.status).toBe(500)
  expect(await response.text()).toBe(
    'Error: of the CRM: answered 500, not 401, to get the message again. To refuse it for good: c.status(400).',
  )
})

test.each<[string, number, (c: Context) => unknown]>([
  // Hono 4.5 to 4.12 leaves an object in its cache, and reads no JSON.
  ['c.req.parseBody()', 204, ({ req }) => Object.assign(req.bodyCache, { parsedBody: {} })],
  ['c.req.text() without waiting', 204, ({ req }) => void req.text()],
  ['c.req.formData()', 500, ({ req }) => req.formData().catch(() => undefined)],
])('Hono 4: a body after %s is answered %i', async (_, status, before) => {
  const app = new Hono()
  app.use(async (c, next) => {
    await before(c)
    await next()
  })
  app.post(
    '/',
    webhook({ secret: 's3cret' }, () => undefined),
  )
  const response = await app.request('/', signedRequest('delete', { userId: 'u1' }, 's3cret'))
  expect(response.status).toBe(status)
  if (status === 500) expect(await response.text()).toContain('read it with c.req.arrayBuffer().')
})

test.each([
  ['arrayBuffer', 204],
  ['blob', 204],
  ['text', 500],
] as const)(
  'Hono 4: gzip that other code has read with c.req.%s is answered %i',
  async (read, status) => {
    const app = new Hono()
    app.use(async (c, next) => {
      await c.req[read]()
      await next()
    })
    app.post(
      '/',
      webhook({ secret: 's3cret' }, () => undefined),
    )
    const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
    const response = await app.request('/', {
      method: 'POST',
      headers: { ...headers, 'content-encoding': 'gzip' },
      body: gzipSync(body),
    })
    expect(response.status).toBe(status)
    if (status === 500) expect(await response.json()).toMatchObject({ error: 'body_consumed' })
  },
)

test.each(ROWS)('Hono 4: what the handler returns is no answer if it is %o', async (row) => {
  for (const status of [undefined, 410] as const) {
    const app = new Hono()
    const save = (_event: unknown, c: Context) => {
      if (status) c.status(status)
      return Promise.resolve(row as undefined)
    }
    app.post('/webhook', webhook({ secret: 's3cret' }, save))
    const { url, close } = await listening(serve({ fetch: app.fetch, port: 0 }) as Server)
    const reply = await post(url, signedRequest('delete', { userId: 'u1' }, 's3cret'))
    await close()
    expect(reply).toMatchObject({ status: status ?? 204, text: '' })
  }
})
