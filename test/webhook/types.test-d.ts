import type {
  ALBEvent,
  ALBHandler,
  APIGatewayProxyHandler,
  APIGatewayProxyHandlerV2,
  LambdaFunctionURLHandler,
} from 'aws-lambda'
import type { Request as ExpressRequest, Response as ExpressResponse } from 'express'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import type Koa from 'koa'
import { describe, expectTypeOf, test } from 'vitest'
import { webhook as express } from '../../src/webhook/adapters/express.js'
import { webhook as fastify } from '../../src/webhook/adapters/fastify.js'
import { webhook as fetch } from '../../src/webhook/adapters/fetch.js'
import { webhook as hono } from '../../src/webhook/adapters/hono.js'
import { webhook as koa } from '../../src/webhook/adapters/koa.js'
import { webhook as lambda } from '../../src/webhook/adapters/lambda.js'
import { signedRequest } from '../../src/testing.js'
import {
  parseWebhook,
  signWebhook,
  verifyWebhook,
  type AliasEvent,
  type DeleteEvent,
  type WebhookEvent,
} from '../../src/webhook/index.js'

const secret = 's3cret'
const request = { headers: {} as NodeJS.Dict<string | string[]>, body: {} as unknown }

describe('an event', () => {
  const event = parseWebhook(secret, '', '')

  test('is told by its type', () => {
    expectTypeOf(event.type).toEqualTypeOf<
      'page' | 'screen' | 'identify' | 'track' | 'alias' | 'group' | 'delete'
    >()
    if (event.type === 'track') expectTypeOf(event.event).toEqualTypeOf<string>()
    if (event.type === 'page') {
      expectTypeOf(event.properties.url).toEqualTypeOf<unknown>() // the collector takes any value
      expectTypeOf([event.name, event.category]).toEqualTypeOf<(string | undefined)[]>()
    }
    if (event.type === 'screen') {
      expectTypeOf(event.name).toEqualTypeOf<string>()
      expectTypeOf(event.category).toEqualTypeOf<string | undefined>()
      expectTypeOf(event.properties).toEqualTypeOf<Record<string, unknown> | undefined>()
    }
    if (event.type === 'alias') expectTypeOf(event['Previous ID']).toEqualTypeOf<string>()
    if (event.type === 'identify') {
      expectTypeOf(event.traits).toEqualTypeOf<Record<string, unknown>>()
      expectTypeOf(event.userId).toEqualTypeOf<string | undefined>()
    }
  })

  test('has the fields of its type alone', () => {
    expectTypeOf<DeleteEvent>().not.toHaveProperty('version')
    expectTypeOf<DeleteEvent['userId']>().toEqualTypeOf<string>()
    expectTypeOf<AliasEvent>().not.toHaveProperty('userId')
    expectTypeOf(event).not.toHaveProperty('event') // before it is known to be a track
  })
})

test('a signature is what a header gives, and the body comes second', () => {
  expectTypeOf(verifyWebhook(secret, '', request.headers['x-signature'])).toEqualTypeOf<boolean>()
  expectTypeOf(verifyWebhook([secret], new ArrayBuffer(0), null)).toEqualTypeOf<boolean>()
  expectTypeOf(signWebhook(secret, {})).toEqualTypeOf<string>()
  // @ts-expect-error -- swapped: bytes are no signature
  verifyWebhook(secret, '', new Uint8Array())
  // @ts-expect-error -- an unset variable is no secret
  verifyWebhook(undefined, '', '')
  // @ts-expect-error -- a body that may be missing is for parseWebhook, which says body_consumed
  verifyWebhook(secret, undefined, '')
})

test('the adapters give an event and what their framework gives', () => {
  express({ secret }, (event, req, res) => {
    expectTypeOf(event).toEqualTypeOf<WebhookEvent>()
    expectTypeOf(req).toEqualTypeOf<ExpressRequest>()
    expectTypeOf(res).toEqualTypeOf<ExpressResponse>()
  })
  fastify({ secret }, (event, request, reply) => {
    expectTypeOf(event).toEqualTypeOf<WebhookEvent>()
    expectTypeOf(request).toEqualTypeOf<FastifyRequest>()
    expectTypeOf(reply).toEqualTypeOf<FastifyReply>()
  })
  koa({ secret: (ctx) => ctx.get('x-tenant') }, (_event, ctx) => {
    expectTypeOf(ctx).toEqualTypeOf<Koa.Context>()
  })
})

test('Hono types the bindings that a secret comes from', () => {
  interface App {
    Bindings: { SECRET: string }
  }
  new Hono<App>().post(
    '/',
    hono<App>({ secret: (c) => c.env.SECRET }, (_event, c) => {
      expectTypeOf(c.env.SECRET).toEqualTypeOf<string>()
      return c.text('ok')
    }),
  )
})

test('a fetch handler is a Next.js route, and a Worker with its environment', () => {
  expectTypeOf(fetch({ secret }, () => undefined)).toEqualTypeOf<
    (r: Request) => Promise<Response>
  >()
  fetch<[env: { SECRET: string }]>({ secret: (_request, env) => env.SECRET }, () => new Response())
  // @ts-expect-error -- what a handler returns is sent, so it is a response
  fetch({ secret }, () => 'ok')
})

test('a Lambda handler serves every gateway', () => {
  const handler = lambda({ secret }, () => undefined)
  expectTypeOf(handler).toExtend<APIGatewayProxyHandler>()
  expectTypeOf(handler).toExtend<APIGatewayProxyHandlerV2>()
  expectTypeOf(handler).toExtend<LambdaFunctionURLHandler>()
  expectTypeOf(lambda<ALBEvent>({ secret }, () => undefined)).toExtend<ALBHandler>()
})

test('a signed request takes the fields of its type', () => {
  expectTypeOf(signedRequest('delete', { userId: 'u1' }, secret)).toExtend<RequestInit>()
  // @ts-expect-error -- a track needs its properties
  signedRequest('track', { userId: 'u1', event: 'Signed Up' }, secret)
  // @ts-expect-error -- a delete has no traits
  signedRequest('delete', { userId: 'u1', traits: {} }, secret)
})
