import { bodyParser } from '@koa/bodyparser'
import Koa3, { type Middleware } from 'koa'
// @ts-expect-error -- it has no types of its own
import untyped from 'koa2'
import { expect, onTestFinished, test } from 'vitest'
import { adapterContract, type Start } from './contract.js'
import { listening } from './listen.js'
import { post } from './post.js'
import { signedRequest } from '../../../src/testing.js'
import { webhook } from '../../../src/webhook/adapters/koa.js'

const Koa2 = untyped as typeof Koa3

const startWith =
  (Koa: typeof Koa3): Start =>
  (options, handle, before) => {
    const app = new Koa()
    app.silent = true
    if (before === 'keeper') app.use(bodyParser())
    if (before === 'parser') {
      app.use(bodyParser())
      app.use((ctx, next) => {
        Object.assign(ctx.request, { rawBody: undefined }) // as parsers do that keep the object alone
        return next()
      })
    }
    if (before === 'thief') {
      app.use(async (ctx, next) => {
        await new Promise((resolve) => ctx.req.resume().on('end', resolve))
        await next()
      })
    }
    const receive = webhook(options, (event, ctx) => {
      const answer = handle(event)
      if (answer === undefined) return
      ctx.status = answer.status
      if (answer.text !== undefined) ctx.body = answer.text
    })
    app.use(receive)
    return listening(app.listen(0))
  }

adapterContract('Koa 3', startWith(Koa3), ['parser', 'keeper', 'thief'])
adapterContract('Koa 2', startWith(Koa2), ['parser', 'keeper', 'thief'])

test.each([
  ['Koa 3', Koa3],
  ['Koa 2', Koa2],
])('%s: an error of ctx.throw is the answer', async (_, Koa) => {
  const app = new Koa()
  app.use(webhook({ secret: 's3cret' }, (_event, ctx) => ctx.throw(410)))
  const { url, close } = await listening(app.listen(0))
  onTestFinished(async () => {
    await close()
  })
  const request = signedRequest('delete', { userId: 'u1' }, 's3cret')
  expect(await post(url, request)).toMatchObject({ status: 410 })
})

test.each<[string, Middleware]>([
  ['swallows the error', (_ctx, next) => next().catch(() => undefined)],
  [
    'makes a body of the error, and sets no status',
    (ctx, next) =>
      next().catch((error: unknown) => {
        ctx.body = { error: String(error) }
      }),
  ],
])('Koa: an application that %s does not answer as if it had taken the event', async (_, take) => {
  const app = new Koa3()
  app.use(take)
  const fail = () => {
    throw new Error('of the handler')
  }
  app.use(webhook({ secret: 's3cret', onRefused: fail }, fail))
  const { url, close } = await listening(app.listen(0))
  onTestFinished(async () => {
    await close()
  })
  const request = signedRequest('track', { userId: 'u1', event: 'e', properties: {} }, 's3cret')
  expect(await post(url, request)).toMatchObject({ status: 500 })
  expect(await post(url, { body: '' })).toMatchObject({ status: 500 })
})
