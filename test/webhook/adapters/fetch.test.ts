import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { expect, test } from 'vitest'
import { adapterContract, ROWS, type Start } from './contract.js'
import { listening } from './listen.js'
import { webhook } from '../../../src/webhook/adapters/fetch.js'
import { signedRequest } from '../../../src/testing.js'

const start: Start = (options, handle, before) => {
  const receive = webhook(options, (event) => {
    const answer = handle(event)
    return answer && new Response(answer.text, { status: answer.status })
  })
  const fetch = async (request: Request) => {
    if (before === 'thief') await request.text()
    // As itty-router and h3 do.
    return receive(request).catch((error: unknown) => {
      const { status, statusCode } = error as Record<string, number | undefined>
      return Response.json({}, { status: status ?? statusCode ?? 500 })
    })
  }
  return listening(serve({ fetch, port: 0 }) as Server)
}

adapterContract('a Web Request', start, ['thief'])

const url = 'http://localhost/webhook'
const signed = () => new Request(url, signedRequest('delete', { userId: 'u1' }, 's3cret'))

test('a Web Request: what the runtime passes goes on to the secret and to the handler', async () => {
  const receive = webhook<[env: { SECRET: string }, context: { waitUntil: () => void }]>(
    { secret: (_request, env) => env.SECRET },
    (event, request, env, context) => Response.json([event.type, request.url, env, typeof context]),
  )
  const reply = await receive(signed(), { SECRET: 's3cret' }, { waitUntil: () => undefined })
  expect(await reply.json()).toEqual(['delete', url, { SECRET: 's3cret' }, 'object'])
})

test('a Web Request: one that someone holds the reader of is refused at once', async () => {
  const request = signed()
  request.body?.getReader()
  const reply = await webhook({ secret: 's3cret' }, () => undefined)(request)
  expect(reply.status).toBe(500)
  expect(await reply.json()).toMatchObject({ error: 'body_consumed' })
})

test('a Web Request: one that was read and let go is refused at once, not taken for empty', async () => {
  const request = signed()
  const reader = request.body?.getReader()
  while ((await reader?.read())?.done === false);
  reader?.releaseLock()
  const reply = await webhook({ secret: 's3cret' }, () => undefined)(request)
  expect(reply.status).toBe(500)
  expect(await reply.json()).toMatchObject({ error: 'body_consumed' })
})

test('a Web Request: one whose clone was read is verified', async () => {
  const request = signed()
  await request.clone().json()
  const reply = await webhook({ secret: 's3cret' }, () => undefined)(request)
  expect(reply.status).toBe(204)
})

test('a Web Request: what the handler throws reaches the runtime', async () => {
  const receive = webhook({ secret: 's3cret' }, () => Promise.reject(new Error('of the handler')))
  await expect(receive(signed())).rejects.toThrow('of the handler')
})

test('a Web Request: an error with the status of another server loses it, and says how to refuse the message', async () => {
  const cause = Object.assign(new Error('of the CRM'), { status: 401 })
  const error = await webhook({ secret: 's3cret' }, () => Promise.reject(cause))(signed()).catch(
    (thrown: unknown) => thrown,
  )
  expect(error).toMatchObject({
    message: expect.stringContaining('return new Response(null, { status: 400 })') as string,
    cause,
  })
  expect(error).not.toHaveProperty('status')
})

test.each(ROWS)('a Web Request: what the handler returns is no answer if it is %o', async (row) => {
  const receive = webhook({ secret: 's3cret' }, () => Promise.resolve(row as undefined))
  const reply = await receive(signed())
  expect([reply.status, await reply.text()]).toEqual([204, ''])
})

test('a Web Request: the Response of another class than that of the runtime is the answer', async () => {
  const answer = { status: 202, [Symbol.toStringTag]: 'Response' } as unknown as Response
  expect(await webhook({ secret: 's3cret' }, () => answer)(signed())).toBe(answer)
})
