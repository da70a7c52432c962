import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Server } from 'node:http'
import { once } from 'node:events'
import { serve } from '@hono/node-server'
import { afterEach, expect, inject, test, vi } from 'vitest'
import { signedRequest } from '../src/testing.js'
import { startCollector } from './collector.js'
import { listening } from './webhook/adapters/listen.js'
import { gateways, serveLambda } from './webhook/adapters/lambda-server.js'
import { post } from './webhook/adapters/post.js'
import { freePort } from './ports.js'

const secret = 's3cret'
const track = { userId: 'u1', event: 'Signed Up', properties: {} }

const JSON_TYPE = { 'Content-Type': 'application/json' }

const stops: (() => unknown)[] = []
afterEach(async () => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await Promise.all(stops.splice(0).map((stop) => stop()))
})

async function expectVerdicts(url: string): Promise<void> {
  expect(await post(url, signedRequest('track', track, secret))).toMatchObject({ status: 204 })
  const forged = await post(url, signedRequest('track', track, 'guessed'))
  expect(forged).toMatchObject({ status: 401, json: { error: 'signature_mismatch' } })
}

interface Example {
  readonly child: ChildProcessWithoutNullStreams
  readonly output: () => string
  readonly ended: Promise<number | null>
}

function run(name: string, env: Record<string, string>): Example {
  const child = spawn(process.execPath, [`examples/${name}.js`], {
    cwd: inject('compiledDir'),
    env: { ...process.env, ...env },
  })
  stops.push(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => (output += text.toString()))
  }
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return { child, output: () => output, ended }
}

/** Runs an example that serves, until it listens. */
async function start(name: string, env: Record<string, string>): Promise<Example> {
  const example = run(name, env)
  await new Promise<void>((resolve, reject) => {
    example.child.stdout.on('data', () => {
      if (example.output().includes('Listening on')) resolve()
    })
    void example.ended.then(() => {
      reject(new Error(`examples/${name}.ts ended: ${example.output()}`))
    })
  })
  return example
}

test.each(['express', 'fastify', 'hono', 'koa'])(
  'examples/%s.ts starts, takes a signed request and refuses a forged one',
  async (name) => {
    const port = await freePort()
    const { output } = await start(name, { PORT: String(port), WEBHOOK_SECRET: secret })
    await expectVerdicts(`http://localhost:${port}/webhook`)
    expect(output()).toContain('u1 did Signed Up')
  },
)

test.each(['0', '1'])(
  'examples/nest.ts with rawBody %s verifies, and answers an error of the handler with 500 and logs it',
  async (rawBody) => {
    const port = await freePort()
    const env = { PORT: String(port), WEBHOOK_SECRET: secret, RAW_BODY: rawBody }
    const { output } = await start('nest', env)
    const url = `http://localhost:${port}/webhook`
    await expectVerdicts(url)
    expect(output()).toContain('u1 did Signed Up')
    const failing = signedRequest('delete', { userId: 'u1' }, secret)
    expect(await post(url, failing)).toMatchObject({ status: 500 })
    await vi.waitFor(() => {
      expect(output()).toContain('u1 cannot be deleted here')
    }, 60_000)
  },
)

test('examples/express-record.ts sends what it recorded when it is stopped', async () => {
  const collector = await startCollector()
  const port = await freePort()
  const env = { PORT: String(port), ANALYTICS_ENDPOINT: collector.url }
  const { child, ended } = await start('express-record', env)
  const order = { method: 'POST', body: '{"total":42}', headers: JSON_TYPE }
  const response = await fetch(`http://localhost:${port}/orders/u1`, order)
  expect(response.status).toBe(201)
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
  const recorded = { userId: 'u1', event: 'Order Completed', properties: { total: 42 } }
  expect(collector.accepted).toMatchObject([recorded])
})

test.each(['express', 'fastify'])(
  'examples/%s-context.ts gives each call the fields of its request, and of no other',
  async (name) => {
    const collector = await startCollector()
    const port = await freePort()
    const env = { PORT: String(port), ANALYTICS_ENDPOINT: collector.url }
    const { child, ended } = await start(`${name}-context`, env)
    const post = async (path: string, visitor: string, body: object) => {
      const headers = { ...JSON_TYPE, 'X-Visitor-Id': visitor, 'X-Trace-Id': `trace of ${visitor}` }
      const init = { method: 'POST', headers, body: JSON.stringify(body) }
      return (await fetch(`http://localhost:${port}/${path}`, init)).status
    }
    const statuses = await Promise.all([
      post('login', 'v1', { userId: 'u1' }),
      post('orders', 'v2', { total: 42 }),
      post('orders', 'v3', { total: 7 }),
    ])
    expect(statuses).toEqual([204, 201, 201])
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    const sent = collector.accepted.map(({ type, userId, anonymousId, context, properties }) =>
      [type, userId, anonymousId, context?.['traceId'], properties?.['total']].join(),
    )
    expect(sent.sort()).toEqual([
      'identify,u1,v1,trace of v1,',
      'track,,v2,trace of v2,42',
      'track,,v3,trace of v3,7',
    ])
  },
)

test('examples/tenants.ts records for each tenant with its own key', async () => {
  const collector = await startCollector()
  const port = await freePort()
  const WRITE_KEYS = JSON.stringify({ acme: 'key-a', zeta: 'key-z' })
  const env = { PORT: String(port), ANALYTICS_ENDPOINT: collector.url, WRITE_KEYS }
  const { child, ended } = await start('tenants', env)
  const statuses: number[] = []
  for (const tenant of ['acme', 'zeta', 'acme', 'nobody']) {
    statuses.push((await fetch(`http://localhost:${port}/${tenant}`)).status)
  }
  expect(statuses).toEqual([204, 204, 204, 404])
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
  const byKey = collector.arrivals.map(({ headers, messages }) => [
    atob(headers['authorization']?.split(' ')[1] ?? ''),
    messages.map(({ context }) => context?.['tenant']),
  ])
  expect(byKey.sort()).toEqual([
    ['key-a:', ['acme', 'acme']],
    ['key-z:', ['zeta']],
  ])
})

test('examples/cron.ts ends well when all is delivered, and fails when something is lost', async () => {
  const collector = await startCollector()
  const well = run('cron', { ANALYTICS_ENDPOINT: collector.url })
  expect(await well.ended).toBe(0)
  expect(well.output()).toBe('2 delivered, 0 lost\n')
  expect(collector.accepted.map(({ userId }) => userId)).toEqual(['u1', 'u2'])
  collector.otherwise(401)
  const refused = run('cron', { ANALYTICS_ENDPOINT: collector.url })
  expect(await refused.ended).toBe(1)
  expect(refused.output()).toContain('0 delivered, 2 lost')
})

test('examples/queue-worker.ts acknowledges what is delivered, and returns what is not', async () => {
  const collector = await startCollector()
  const rejected = { index: 1, code: 'invalid', message: 'no' }
  collector.script({ status: 200, body: JSON.stringify({ rejected: [rejected] }) })
  const { child, ended, output } = run('queue-worker', { ANALYTICS_ENDPOINT: collector.url })
  const jobs = ['job-1', 'job-2'].map((id) => JSON.stringify({ id, userId: 'u1', plan: 'pro' }))
  child.stdin.end(jobs.join('\n'))
  expect(await ended).toBe(0)
  expect(output().split('\n').sort()).toEqual(['', 'acknowledge job-1', 'return job-2: rejected'])
  const [arrival] = collector.arrivals
  expect(arrival?.messages.map(({ messageId }) => messageId)).toEqual(['job-1', 'job-2'])
})

test('examples/lambda-record.ts has sent what it recorded when it answers', async () => {
  const collector = await startCollector()
  vi.stubEnv('ANALYTICS_ENDPOINT', collector.url)
  const { handler } = await import('../examples/lambda-record.js')
  expect(await handler({ userId: 'u1' })).toEqual({ statusCode: 201 })
  expect(collector.accepted).toMatchObject([{ userId: 'u1', event: 'Signed Up' }])
})

async function expectServed(server: Promise<{ url: string; close: () => unknown }>) {
  const log = vi.spyOn(console, 'log').mockReturnValue(undefined)
  const { url, close } = await server
  stops.push(close)
  await expectVerdicts(url)
  expect(log.mock.calls).toEqual([['u1', 'did', 'Signed Up']])
}

const served = (fetch: (request: Request) => Promise<Response>) =>
  listening(serve({ fetch, port: 0 }) as Server)

test('examples/lambda.ts takes a signed request and refuses a forged one', async () => {
  vi.stubEnv('WEBHOOK_SECRET', secret)
  const { handler } = await import('../examples/lambda.js')
  await expectServed(serveLambda(handler, gateways.v2))
})

test('examples/next-route.ts takes a signed request and refuses a forged one', async () => {
  const { POST } = await import('../examples/next-route.js') // as a build does, without the secret
  vi.stubEnv('WEBHOOK_SECRET', secret)
  await expectServed(served((request) => POST(request)))
})

test('examples/worker.ts takes a signed request and refuses a forged one', async () => {
  const { default: worker } = await import('../examples/worker.js')
  await expectServed(served((request) => worker.fetch(request, { WEBHOOK_SECRET: secret })))
})
