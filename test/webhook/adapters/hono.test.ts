import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { adapterContract, type Start } from './contract.js'
import { listening } from './listen.js'
import { webhook } from '../../../src/webhook/adapters/hono.js'

const start: Start = (options, handle, before) => {
  const app = new Hono()
  app.onError((_error, c) => c.text('failed', 500))
  app.use(async (c, next) => {
    if (before === 'parser') await c.req.json().catch(() => undefined)
    if (before === 'keeper') await c.req.text()
    if (before === 'thief') await c.req.raw.text()
    await next()
  })
  const receive = webhook(options, (event) => {
    const answer = handle(event)
    return answer && new Response(answer.text, { status: answer.status })
  })
  app.post('/webhook', receive)
  return listening(serve({ fetch: app.fetch, port: 0 }) as Server)
}

adapterContract('Hono 4', start, ['parser', 'keeper', 'thief'])
