// The configurations of examples/proxy, run by the real programs: TLS outside, and only the paths that clients use.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createAuthority, hasOpenssl } from './post/certificates.js'
import { ADMIN_TOKEN, destination, endpoint, freePort, KEY, settingsFor, start } from './run.js'

const EXAMPLES = join(import.meta.dirname, '../../examples/proxy')
const HOST = 'collect.example.com'

interface Proxy {
  readonly name: string
  /** The argument that prints the version. */
  readonly version: string
  readonly file: string
  /** What the test replaces in the example. Each text must be in it once. */
  readonly changes: (at: Surroundings) => readonly [from: string, to: string][]
  readonly command: (folder: string) => string[]
  /** Ends with 0 if the program accepts the configuration. */
  readonly check: (folder: string) => string[]
}

interface Surroundings {
  readonly folder: string
  readonly port: number
  /** Host and port of the destination. */
  readonly upstream: string
}

/** What the main configuration of nginx has around the example. The folders are for users who may not write elsewhere. */
const MAIN = `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${name};`).join(' ')}
  include nginx.conf;
}`

const proxies: Proxy[] = [
  {
    name: 'nginx',
    version: '-v',
    file: 'nginx.conf',
    changes: ({ folder, port, upstream }) => [
      ['127.0.0.1:3300', upstream],
      ['listen 443', `listen 127.0.0.1:${port}`],
      [`/etc/letsencrypt/live/${HOST}/fullchain.pem`, `${folder}/cert.pem`],
      [`/etc/letsencrypt/live/${HOST}/privkey.pem`, `${folder}/key.pem`],
      ['/var/log/nginx/hookline.log', `${folder}/access.log`],
    ],
    command: (folder) => ['nginx', '-p', folder, '-c', `${folder}/main.conf`],
    check: (folder) => ['nginx', '-t', '-q', '-p', folder, '-c', `${folder}/main.conf`],
  },
  {
    name: 'caddy',
    version: 'version',
    file: 'Caddyfile',
    changes: ({ folder, port, upstream }) => [
      ['127.0.0.1:3300', upstream],
      [`${HOST} {`, `https://${HOST}:${port} {\ntls ${folder}/cert.pem ${folder}/key.pem\n`],
    ],
    command: (folder) => ['caddy', 'run', '--config', `${folder}/Caddyfile`],
    check: () => ['caddy', 'validate', '--config', join(EXAMPLES, 'Caddyfile')],
  },
]

const isInstalled = ({ name, version }: Proxy) => spawnSync(name, [version]).status === 0

for (const proxy of proxies.filter((each) => !isInstalled(each))) {
  console.log(
    `${proxy.name} is not installed: the test of examples/proxy/${proxy.file} is left out.`,
  )
}

test.for(proxies)(
  '$name passes the calls of clients on, and nothing else',
  async (proxy, { skip }) => {
    skip(!isInstalled(proxy) || !hasOpenssl())
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    const { ask, output } = await serve(proxy, new URL(running.url).host)

    const track = { userId: 'u1', event: 'Order Completed' }
    const calls = {
      batch: { batch: [{ type: 'track', ...track }] },
      import: { batch: [{ type: 'track', ...track }] },
      track,
      identify: { userId: 'u1' },
      page: { userId: 'u1' },
      screen: { userId: 'u1' },
      group: { userId: 'u1', groupId: 'g1' },
      alias: { userId: 'u1', previousId: 'v1' },
    }
    for (const [name, body] of Object.entries(calls)) {
      const answer = await ask('POST', `/v1/${name}`, JSON.stringify(body))
      expect({ name, ...answer }).toMatchObject({ name, status: 200, body: '{"success":true}' })
    }
    await crm.has(8)

    const unknown = await ask('POST', '/v1/track', JSON.stringify(track), 'another-key')
    expect(unknown).toMatchObject({ status: 401 })
    const large = await ask('POST', '/v1/batch', ' '.repeat(600_000))
    expect(large.status).toBe(413)
    expect(large.body).toContain('"body_too_large"')

    const inside = [
      '/',
      '/metrics',
      '/readyz',
      '/v1/admin/status',
      '/v1/deletions',
      '/v1/audiences/a',
    ]
    const around = ['/v1/track/../admin/status', '/v1/track/%2e%2e/admin/status', '//metrics']
    for (const path of [...inside, ...around]) {
      const answer = await ask('GET', path)
      expect({ path, status: answer.status }).toEqual({ path, status: 404 })
    }

    await expect.poll(output).toContain('/v1/admin/status')
    expect(output()).not.toContain(KEY)
    expect(output()).not.toContain(btoa(`${KEY}:`))
  },
)

/** Starts a proxy with the example as its configuration. */
async function serve(proxy: Proxy, upstream: string) {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-proxy-'))
  const authority = createAuthority()
  onTestFinished(() => {
    authority.dispose()
    rmSync(folder, { recursive: true })
  })
  const { key, cert } = authority.issue(HOST)
  writeFileSync(join(folder, 'key.pem'), key)
  writeFileSync(join(folder, 'cert.pem'), cert)
  const port = await freePort()
  let text = readFileSync(join(EXAMPLES, proxy.file), 'utf8')
  for (const [from, to] of proxy.changes({ folder, port, upstream })) {
    expect(text.split(from).length, `"${from}" in ${proxy.file}`).toBe(2)
    text = text.replace(from, to)
  }
  writeFileSync(join(folder, proxy.file), text)
  writeFileSync(join(folder, 'main.conf'), MAIN)

  const env = { ...process.env, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const [program = '', ...args] = proxy.check(folder)
  const { status, stderr } = spawnSync(program, args, { env, encoding: 'utf8' })
  expect(status, stderr).toBe(0)

  const [command = '', ...options] = proxy.command(folder)
  const child = spawn(command, options, { env })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill()
    await ended
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => (printed += data.toString()))
  }

  const ask = (method: string, path: string, body = '', writeKey = KEY) =>
    new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
      const authorization =
        method === 'GET' ? `Bearer ${ADMIN_TOKEN}` : `Basic ${btoa(`${writeKey}:`)}`
      const headers = { Host: HOST, Authorization: authorization, 'Content-Length': body.length }
      const host = { host: '127.0.0.1', port, servername: HOST, ca: authority.root, agent: false }
      const sent = request({ ...host, method, path, headers }, (response) => {
        let text = ''
        response.on('data', (data: Buffer) => (text += data.toString()))
        response.on('end', () => {
          resolve({ status: response.statusCode, body: text })
        })
      })
      sent.on('error', reject)
      sent.end(body)
    })
  await expect
    .poll(() => ask('GET', '/').catch(() => undefined), { message: printed })
    .toMatchObject({ status: 404 })
  const accessLog = join(folder, 'access.log')
  const output = () => (existsSync(accessLog) ? readFileSync(accessLog, 'utf8') : printed)
  return { ask, output }
}
