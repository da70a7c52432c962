// What the commands say if --url belongs to another server that answers with JSON, or to a proxy without a destination.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_TOKEN, destination, endpoint, settingsFor, start } from '../run.js'
import { runInside } from './inside.js'

/** Starts a server that gives every request the same answer. */
async function answering(status: number, body: string, headers: Record<string, string> = {}) {
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(body)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const where = (url: string) => ['--url', url, '--token', 'token-0123456789abcdef']

const notOne = (url: string, status: number) =>
  `${url} answered ${status}, but not as a hookline destination does. Check --url. If a destination of an older version runs there, update it.`

describe('a server that answers everything with {"status":"ok"}', () => {
  test.each([
    'pause crm --reason x',
    'resume crm',
    'sources list',
    'sources create web',
    'sources delete a --yes',
    'destinations show a',
    'destinations disable a',
    'destinations delete a --yes',
    'settings export',
    'replay --all --confirm 3',
    'replay --all --dry-run',
    'replay 1',
    'test crm',
    'status',
    'list',
    'trace m1',
    'tail --count 1',
  ])('is an error of %s', async (line) => {
    const url = await answering(200, '{"status":"ok"}')
    expect(await runInside([...line.split(' '), ...where(url)])).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(notOne(url, 200)) as string,
    })
  })

  test('is an error of send --wait, and nothing is sent', async () => {
    const url = await answering(200, '{"status":"ok"}')
    const call = ['send', 'track', '--user', 'u', '--event', 'E', '--key', 'k', '--to', url]
    const { code, stdout, stderr } = await runInside([...call, '--wait', ...where(url)])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${notOne(url, 200)}\nNothing was sent.\n`)
  })
})

test.each([
  [200, '{"deliveries":[],"now":1}', 1],
  [200, '', 1],
  [403, '{"error":{}}', 1],
  [404, '{"error":"Not Found"}', 1],
  [404, '{"error":{"code":"unknown_message","message":"m"}}', 1],
  [429, '{"error":"Too Many Requests"}', 3],
  [500, '{"error":{"code":"x","message":"m","problems":5}}', 1],
  [502, '{"error":"Bad Gateway","status":502}', 3],
  [503, '<html></html>', 3],
  [504, 'null', 3],
])('%i %s without the name of a destination is the exit code %i', async (status, body, exit) => {
  const url = await answering(status, body)
  const message = notOne(url, status)
  for (const command of ['status', 'tail']) {
    const { code, stderr } = await runInside([command, ...where(url)])
    expect({ code, stderr }).toEqual({ code: exit, stderr: `${message}\n` })
  }
  const { stdout } = await runInside(['list', '--json', ...where(url)])
  expect(JSON.parse(stdout)).toEqual({ error: { code: 'no_destination', message } })
})

test.each([
  ['{"error":"Bad Gateway"}', undefined],
  ['{"error":{"code":"x"}}', undefined],
  ['{"error":{"code":"x","message":"m","problems":5}}', 'm'],
  [
    '{"error":{"code":"x","message":"m","problems":[1,null,{"path":"a"},{"path":"b","message":"c"},{"path":"d","message":"e"}]}}',
    'm\n  d: e',
  ],
])('an error of a destination is read with care: %s', async (body, message) => {
  const url = await answering(500, body, { 'X-Hookline': 'destination' })
  const { code, stderr } = await runInside(['status', ...where(url)])
  expect({ code, stderr }).toEqual({ code: 1, stderr: `${message ?? notOne(url, 500)}\n` })
})

test.each([404, 502])(
  'a proxy that answers %i while send --wait follows the message is the code not_followed',
  async (status) => {
    const one = await start(settingsFor([destination([await endpoint()])]))
    let requests = 0
    const proxy = createServer((request, response) => {
      requests++
      // The first one asks whether the message could be followed, before it is sent.
      if (requests > 1) {
        response.writeHead(status).end('{"error":"no upstream"}')
        return
      }
      const headers = request.headers as Record<string, string>
      void fetch(`${one.adminUrl}${request.url}`, { headers }).then(async (answer) => {
        const name = answer.headers.get('x-hookline')
        response.writeHead(answer.status, { 'X-Hookline': name ?? '' }).end(await answer.text())
      })
    }).listen(0, '127.0.0.1')
    onTestFinished(() => {
      proxy.closeAllConnections()
      proxy.close()
    })
    await once(proxy, 'listening')
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const call = ['send', 'track', '--user', 'u', '--event', 'E', '--key', 'web-key', '--json']
    const { code, stdout } = await runInside([
      ...[...call, '--to', one.url, '--wait', '--timeout', '1500', '--url', url],
      ...['--token', ADMIN_TOKEN],
    ])
    expect(code).toBe(3)
    expect(JSON.parse(stdout)).toMatchObject({
      delivered: false,
      error: {
        code: 'not_followed',
        message: `Its delivery could not be followed: ${notOne(url, status)}`,
      },
    })
  },
)

test.each([6000, 10080])('a URL with the port %i, which fetch refuses, is 2', async (port) => {
  const url = `http://127.0.0.1:${port}`
  for (const command of [['status'], ['tail'], ['trace', 'm1']]) {
    expect(await runInside([...command, ...where(url)])).toEqual({
      code: 2,
      stdout: '',
      stderr: `The port of ${url} cannot be used: the fetch of Node refuses it, as browsers do. Set "listen", or "adminListen" if the settings have it, to another port.\n`,
    })
  }
})
