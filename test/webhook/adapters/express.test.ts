import { createReadStream, readFileSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import express5 from 'express'
// @ts-expect-error -- the types of 4 would clash with those of 5
import untyped from 'express4'
import { adapterContract, type Start } from './contract.js'
import { listening } from './listen.js'
import { post } from './post.js'
import { temporary } from '../../spool/directory.js'
import { webhook } from '../../../src/webhook/adapters/express.js'
import { signedRequest } from '../../../src/testing.js'
import { verifyWebhook } from '../../../src/webhook/index.js'

const express4 = untyped as typeof express5

const startWith =
  (express: typeof express5): Start =>
  (options, handle, before) => {
    const app = express()
    if (before === 'parser') app.use(express.json())
    if (before === 'keeper') {
      const verify = (req: IncomingMessage, _res: unknown, raw: Buffer) =>
        Object.assign(req, { rawBody: raw })
      app.use(express.json({ verify }))
    }
    if (before === 'thief') app.use((req, _res, next) => req.resume().on('end', next))
    const receive = webhook(options, (event, _req, res) => {
      const answer = handle(event)
      if (answer !== undefined) res.status(answer.status)
      if (answer?.text !== undefined) res.send(answer.text)
    })
    app.post('/webhook', receive)
    return listening(app.listen(0))
  }

adapterContract('Express 5', startWith(express5), ['parser', 'keeper', 'thief'])
adapterContract('Express 4', startWith(express4), ['parser', 'keeper', 'thief'])

async function serve(app: express5.Express) {
  const { url, close } = await listening(app.listen(0))
  onTestFinished(async () => {
    await close()
  })
  return url
}

test('Express: an answer that the handler has begun is left to it', async () => {
  const app = express5()
  const handler = (_event: unknown, _req: unknown, res: express5.Response) => {
    res.status(202).write('first, ')
    setImmediate(() => res.end('last'))
  }
  app.post('/webhook', webhook({ secret: 's3cret' }, handler))
  const reply = await post(await serve(app), signedRequest('delete', { userId: 'u1' }, 's3cret'))
  expect(reply).toMatchObject({ status: 202, text: 'first, last' })
})

const page = '<p>from a view</p>'

/** Each of these sends its headers in a later turn of the event loop. */
const LATER: Record<string, (res: express5.Response) => void> = {
  'res.sendFile': (res) => {
    res.sendFile(import.meta.filename)
  },
  'a stream that is piped': (res) => {
    createReadStream(import.meta.filename).pipe(res)
  },
  'res.render': (res) => {
    res.render('view')
  },
}

describe.each([
  ['Express 5', express5],
  ['Express 4', express4],
])('%s', (_, express) => {
  test.each(Object.entries(LATER))(
    '%s is the answer, though it comes later',
    async (name, answer) => {
      const app = express()
      app.engine('html', (_path, _options, done) => {
        setImmediate(done, null, page)
      })
      app.set('view engine', 'html')
      app.set('views', temporary(onTestFinished))
      writeFileSync(join(app.get('views') as string, 'view.html'), '')
      app.post(
        '/webhook',
        webhook({ secret: 's3cret' }, (_event, _req, res) => {
          answer(res.status(202))
        }),
      )
      const request = signedRequest('delete', { userId: 'u1' }, 's3cret')
      const text = name === 'res.render' ? page : readFileSync(import.meta.filename, 'utf8')
      expect(await post(await serve(app), request)).toMatchObject({ status: 202, text })
    },
  )
})

test('Express: a view that the handler renders for something else is no answer', async () => {
  const app = express5()
  app.engine('html', (_path, _options, done) => {
    done(null, page)
  })
  app.set('view engine', 'html')
  app.set('views', temporary(onTestFinished))
  writeFileSync(join(app.get('views') as string, 'view.html'), '')
  const mails: unknown[] = []
  app.post(
    '/webhook',
    webhook({ secret: 's3cret' }, (_event, _req, res) => {
      res.render('view', (_error: unknown, html: unknown) => mails.push(html))
    }),
  )
  const request = signedRequest('delete', { userId: 'u1' }, 's3cret')
  expect(await post(await serve(app), request)).toMatchObject({ status: 204 })
  expect(mails).toEqual([page])
})

test('Express: a connection lives on after a body that was too large', async () => {
  const app = express5()
  app.post(
    '/webhook',
    webhook({ secret: 's3cret', maxBytes: 1000 }, () => undefined),
  )
  const url = await serve(app)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => {
    agent.destroy()
  })
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const large = Buffer.alloc(3_000_000, 'x')
  expect(await post(url, { headers, body: large, chunked: true, agent })).toMatchObject({
    status: 413,
  })
  const [socket] = Object.values(agent.freeSockets).flat()
  expect(await post(url, { headers, body, agent })).toMatchObject({ status: 204 })
  expect(Object.values(agent.freeSockets).flat()).toEqual([socket])
})

test.each([null, undefined, 0, ''])(
  'Express: a handler that throws %j is answered 500, whatever comes behind its route',
  async (thrown) => {
    const app = express5()
    app.post(
      '/webhook',
      webhook({ secret: 's3cret' }, () => Promise.reject(thrown as unknown as Error)),
    )
    app.use((_req, res) => void res.send('somebody else'))
    const request = signedRequest('delete', { userId: 'u1' }, 's3cret')
    expect(await post(await serve(app), request)).toMatchObject({ status: 500 })
  },
)

/** Serves the handler, and an error handler that sets no status. Returns what that got. */
async function failing(handler: () => never) {
  const app = express5()
  const errors: unknown[] = []
  app.post('/webhook', webhook({ secret: 's3cret' }, handler))
  const answer: express5.ErrorRequestHandler = (error, _req, res, next) => {
    errors.push(error)
    if (res.headersSent) next(error)
    else res.send('failed')
  }
  app.use(answer)
  const reply = await post(await serve(app), signedRequest('delete', { userId: 'u1' }, 's3cret'))
  return { errors, status: reply.status }
}

test('Express: an error with the status of another server is passed on as the cause of one that says what to do', async () => {
  const cause = Object.assign(new TypeError('answered 401'), { status: 401 })
  const message =
    'TypeError: answered 401: answered 500, not 401, to get the message again. ' +
    'To refuse it for good: res.status(400).end().'
  const { errors, status } = await failing(() => {
    throw cause
  })
  expect(errors).toEqual([new Error(message, { cause })])
  expect(status).toBe(500)
})

test.each([
  ['any error', {}],
  ['an error with a 503', { status: 503 }],
  ['an error of http-errors', { status: 400, expose: true }],
  ['an HttpException of NestJS', { status: 409, getStatus: () => 409 }],
])('Express: %s is passed on unchanged', async (_, fields) => {
  const error = Object.assign(new Error('of the handler'), fields)
  const { errors } = await failing(() => {
    throw error
  })
  expect(errors[0]).toBe(error)
  const app = express5().set('env', 'test')
  app.post(
    '/webhook',
    webhook({ secret: 's3cret' }, () => Promise.reject(error)),
  )
  const reply = await post(await serve(app), signedRequest('delete', { userId: 'u1' }, 's3cret'))
  expect(reply.status).toBe('status' in fields ? fields.status : 500)
})

test.each(['succeeds', 'fails'])(
  'Express: without next, the promise of the route settles if the handler %s after the client has left',
  async (what) => {
    let done: Promise<void> | undefined
    const app = express5()
    const route = webhook({ secret: 's3cret' }, async (_event, req) => {
      await new Promise((resolve) => {
        req.socket.once('close', resolve).destroy()
      })
      if (what === 'fails') throw new Error('of the handler')
    })
    app.post('/webhook', (req, res) => {
      done = route(req, res)
      done.catch(() => undefined)
    })
    const request = signedRequest('delete', { userId: 'u1' }, 's3cret')
    await expect(post(await serve(app), request)).rejects.toThrow()
    if (what === 'fails') await expect(done).rejects.toThrow('of the handler')
    else await expect(done).resolves.toBeUndefined()
  },
)

test('Express: a simulated request with a parsed body and a response without sendFile are enough', async () => {
  const { headers, body } = signedRequest('delete', { userId: 'u1' }, 's3cret')
  const req = {
    headers: { 'x-signature': headers['X-Signature'] },
    body: JSON.parse(body) as object,
  }
  const res = { statusCode: 200, once: () => res, status: vi.fn(() => res), end: vi.fn() }
  await webhook({ secret: 's3cret' }, () => undefined)(req as never, res as never)
  expect(res.status).toHaveBeenCalledWith(204)
  expect(res.end).toHaveBeenCalledOnce()
})

const forged = { 'X-Signature': '0'.repeat(40) }
test.each<[string, express5.RequestHandler, { headers: Record<string, string>; body?: string }]>([
  ['no body', express5.raw({ type: 'application/json' }), { headers: forged }],
  [
    'a body of another type',
    express5.raw({ type: 'application/json' }),
    { headers: { ...forged, 'Content-Type': 'text/plain' }, body: '{}' },
  ],
  [
    'a number',
    express5.json({ strict: false }),
    { headers: { ...forged, 'Content-Type': 'application/json' }, body: '5' },
  ],
  [
    'null',
    express5.json({ strict: false }),
    { headers: { ...forged, 'Content-Type': 'application/json' }, body: 'null' },
  ],
])('Express: verifyWebhook is false for %s from a stranger', async (_, parser, request) => {
  const app = express5()
  app.post('/webhook', parser, (req, res) => {
    res.sendStatus(verifyWebhook('s3cret', req.body as Buffer, req.get('x-signature')) ? 204 : 401)
  })
  expect(await post(await serve(app), request)).toMatchObject({ status: 401 })
})

test.each([
  ['a parser for forms', express5.urlencoded({ type: '*/*', extended: true })],
  [
    'code that leaves an empty body',
    ((req, _res, next) => {
      req.body = {}
      req.resume().on('end', next)
    }) satisfies express5.RequestHandler,
  ],
])(
  'Express: a body that went to %s is a mistake of the receiver, and is sent again',
  async (_, before) => {
    const app = express5()
    app.use(before)
    app.post(
      '/webhook',
      webhook({ secret: 's3cret' }, () => undefined),
    )
    const reply = await post(await serve(app), signedRequest('delete', { userId: 'u1' }, 's3cret'))
    expect(reply).toMatchObject({ status: 500, json: { error: 'body_consumed' } })
  },
)
