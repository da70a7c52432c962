import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import fastify, { type FastifyReply } from 'fastify'
import { expect, test } from 'vitest'
import { adapterContract, type Start } from './contract.js'
import { listening } from './listen.js'
import { post } from './post.js'
import { webhook } from '../../../src/webhook/adapters/fastify.js'
import { signedRequest } from '../../../src/testing.js'

const start: Start = async (options, handle, before) => {
  const app = fastify()
  if (before === 'keeper') {
    app.addHook('preParsing', async (request, _reply, payload) => {
      const rawBody = await buffer(payload)
      Object.assign(request, { rawBody })
      return Readable.from([rawBody])
    })
  }
  if (before === 'thief') {
    app.addHook('preParsing', async (_request, _reply, payload) => {
      await buffer(payload)
      return payload
    })
  }
  const receive = webhook(options, (event, _request, reply) => {
    const answer = handle(event)
    if (answer !== undefined) void reply.code(answer.status)
    return answer?.text === undefined ? undefined : reply.send(answer.text)
  })
  await app.register(receive, { prefix: '/webhook' })
  await app.listen({ port: 0 })
  const { url } = await listening(app.server)
  return { url, close: () => app.close() }
}

adapterContract('Fastify 5', start, ['keeper', 'thief'])

test('Fastify 5: a handler that fails after it has set a status is answered 500, also by an error handler without one', async () => {
  for (const own of [false, true]) {
    const app = fastify()
    if (own) app.setErrorHandler((_error, _request, reply) => reply.send('failed'))
    const fail = (_event: unknown, _request: unknown, reply: FastifyReply) => {
      void reply.code(201)
      throw new Error('of the handler')
    }
    await app.register(webhook({ secret: 's3cret' }, fail), { prefix: '/webhook' })
    await app.listen({ port: 0 })
    const { url } = await listening(app.server)
    const reply = await post(url, signedRequest('delete', { userId: 'u1' }, 's3cret'))
    await app.close()
    expect(reply).toMatchObject({ status: 500 })
  }
})

test('Fastify 5: compressed bytes that a hook has kept are verified', async () => {
  const app = fastify()
  app.addHook('preParsing', async (request, _reply, payload) => {
    Object.assign(request, { rawBody: await buffer(payload) })
    return Readable.from([])
  })
  await app.register(
    webhook({ secret: 's3cret' }, () => undefined),
    { prefix: '/webhook' },
  )
  await app.listen({ port: 0 })
  const { url } = await listening(app.server)
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const packed = { ...headers, 'content-encoding': 'gzip' }
  const reply = await post(url, { headers: packed, body: gzipSync(body) })
  await app.close()
  expect(reply).toMatchObject({ status: 204 })
})

test('Fastify 5: other routes keep their parsers', async () => {
  const app = fastify()
  await app.register(
    webhook({ secret: 's3cret' }, () => undefined),
    { prefix: '/webhook' },
  )
  app.post('/other', (request) => ({ parsed: request.body }))
  await app.listen({ port: 0 })
  const { url } = await listening(app.server)
  const request = { headers: { 'content-type': 'application/json' }, body: '{"a":1}' }
  const reply = await post(url.replace('webhook', 'other'), request)
  await app.close()
  expect(reply.json).toEqual({ parsed: { a: 1 } })
})

test('Fastify 5: what the handler returns is sent', async () => {
  const app = fastify()
  await app.register(
    webhook({ secret: 's3cret' }, (event) => ({ got: event.type })),
    { prefix: '/webhook' },
  )
  await app.listen({ port: 0 })
  const { url } = await listening(app.server)
  const reply = await post(url, signedRequest('delete', { userId: 'u1' }, 's3cret'))
  await app.close()
  expect(reply).toMatchObject({ status: 200, json: { got: 'delete' } })
})

test('Fastify 5: a handler that returns null is answered as one that returns nothing', async () => {
  const app = fastify()
  await app.register(
    webhook({ secret: 's3cret' }, () => null),
    { prefix: '/webhook' },
  )
  await app.listen({ port: 0 })
  const { url } = await listening(app.server)
  const reply = await post(url, signedRequest('delete', { userId: 'u1' }, 's3cret'))
  await app.close()
  expect(reply).toMatchObject({ status: 204, text: '' })
})

test.each(['a stream', 'a text, while a hook takes its time'])(
  'Fastify 5: %s that the handler has sent is the answer',
  async (what) => {
    const app = fastify()
    app.addHook('onSend', async (_request, _reply, payload) => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      return payload
    })
    await app.register(
      webhook({ secret: 's3cret' }, (_event, _request, reply) => {
        void reply.send(what === 'a stream' ? Readable.from(['sent']) : 'sent')
      }),
      { prefix: '/webhook' },
    )
    await app.listen({ port: 0 })
    const { url } = await listening(app.server)
    const reply = await post(url, signedRequest('delete', { userId: 'u1' }, 's3cret'))
    await app.close()
    expect(reply).toMatchObject({ status: 200, text: 'sent' })
  },
)
