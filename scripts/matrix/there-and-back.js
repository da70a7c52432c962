// A call's way from an application through the real destination and back to it as a webhook.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { join } from 'node:path'
import { check, root } from '../workbench.js'

const { readSettings, startDestination } = await import(join(root, 'destination/dist/index.js'))

/** For what takes a moment, on a machine that is busy. */
const PATIENCE_MS = 60_000

const WRITE_KEY = 'matrix-write-key'
const SECRET = 's3cret'

/** Runs `use` while a destination collects, and forwards to `url`. */
export async function withDestination(app, url, use) {
  app.write('hookline.config.json', {
    listen: '127.0.0.1:0',
    store: `sqlite:${join(app.at, 'hookline.db')}`,
    sources: [{ name: 'app', writeKey: WRITE_KEY }],
    destinations: [{ name: 'app', sources: ['app'], sharedSecret: SECRET, webhooks: [{ url }] }],
    allowNetworks: ['127.0.0.0/8'],
  })
  const settings = readSettings(join(app.at, 'hookline.config.json'), {})
  const destination = await startDestination(settings, { debug: no, info: no, warn: no, error: no })
  try {
    return await use({ ENDPOINT: destination.url, SECRET })
  } finally {
    await destination.close()
  }
}

/**
 * Starts the application of `app.ts` by a command, has it record a call, and waits until it has the webhook.
 *
 * @param args - of the command, or a function of the port that gives them
 * @returns what was seen
 */
export async function thereAndBack(app, command, args) {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  await withDestination(app, `${url}/webhook`, async (env) => {
    const given = typeof args === 'function' ? args(port) : args
    const served = serve(app, command, given, { ...env, PORT: String(port) })
    try {
      await Promise.race([use(url), served.ended])
    } finally {
      await served.stop()
    }
  })
  return 'recorded, delivered, verified'
}

async function use(url) {
  await until(() => fetch(url).then((response) => response.ok, no))
  const flushed = await json(`${url}/record`)
  check(flushed.delivered === 1 && flushed.failed === 0, `flush gave ${JSON.stringify(flushed)}`)
  const forged = { method: 'POST', body: '{}', headers: { 'X-Signature': '0'.repeat(40) } }
  const { status } = await fetch(`${url}/webhook`, forged)
  check(status === 401, `A forged webhook was answered ${status}.`)
  let events = []
  await until(async () => (events = await json(`${url}/received`)).length > 0)
  const [{ type, userId, event, properties }] = events
  const came = JSON.stringify([type, userId, event, properties.total])
  check(came === '["track","u1","There And Back",42]', `The webhook was ${came}.`)
}

function serve(app, command, args, env) {
  const child = spawn(command, args, {
    cwd: app.at,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const kill = () => child.kill('SIGKILL')
  process.on('exit', kill)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  const exit = Promise.race([once(child, 'exit'), once(child, 'error')])
  const ended = exit.then(([code]) => {
    throw new Error(`It ended with ${code}: ${output}`)
  })
  ended.catch(no)
  const stop = async () => {
    kill()
    await exit
    process.off('exit', kill)
  }
  return { ended, stop }
}

const no = () => false

const json = async (url) => {
  const response = await fetch(url)
  check(response.ok, `${url} was answered ${response.status}: ${await response.clone().text()}`)
  return response.json()
}

async function until(holds) {
  const end = performance.now() + PATIENCE_MS
  while (!(await holds())) {
    check(performance.now() < end, `Nothing came within ${PATIENCE_MS / 1000} s.`)
    await setTimeout(20)
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
