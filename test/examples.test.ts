import { spawn } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { serve } from '@hono/node-server'
import { afterEach, expect, test, vi } from 'vitest'
import { signedRequest } from '../src/testing.js'
import { listening } from './webhook/adapters/listen.js'
import { gateways, serveLambda } from './webhook/adapters/lambda-server.js'
import { post } from './webhook/adapters/post.js'

const secret = 's3cret'
const track = { userId: 'u1', event: 'Signed Up', properties: {} }

const stops: (() => unknown)[] = []
afterEach(async () => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await Promise.all(stops.splice(0).map((stop) => stop()))
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function expectVerdicts(url: string): Promise<void> {
  expect(await post(url, signedRequest('track', track, secret))).toMatchObject({ status: 204 })
  const forged = await post(url, signedRequest('track', track, 'guessed'))
  expect(forged).toMatchObject({ status: 401, json: { error: 'signature_mismatch' } })
}

test.each(['express', 'fastify', 'hono', 'koa'])(
  'examples/%s.ts starts, takes a signed request and refuses a forged one',
  async (name) => {
    const port = await freePort()
    const env = { ...process.env, PORT: String(port), WEBHOOK_SECRET: secret }
    const child = spawn(process.execPath, ['--import', 'tsx', `examples/${name}.ts`], { env })
    stops.push(() => child.kill())
    let output = ''
    child.stderr.on('data', (text: Buffer) => (output += text.toString()))
    await new Promise<void>((resolve, reject) => {
      child.stdout.on('data', (text: Buffer) => {
        output += text.toString()
        if (output.includes('Listening on')) resolve()
      })
      child.on('exit', () => {
        reject(new Error(`examples/${name}.ts ended: ${output}`))
      })
    })
    await expectVerdicts(`http://localhost:${port}/webhook`)
    expect(output).toContain('u1 did Signed Up')
  },
)

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
