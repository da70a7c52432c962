import { readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createProxy, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startDestination, type RunningDestination } from '../../src/destination.js'
import type { ShownTrace } from '../../src/model/answers.js'
import { openStore } from '../../src/store/open.js'
import { newDelivery, settlement } from '../store/contract.js'
import { ask, OTHER_KEY, SETTINGS_KEY } from '../manage/api.js'
import {
  ADMIN_TOKEN,
  destination,
  endpoint,
  freePort,
  post,
  settingsFor,
  silent,
  start,
  track,
} from '../run.js'
import { runInside } from './inside.js'
import { folderWith } from './process.js'

/** Runs the command line with the URL and the token of a running destination. */
const as = (one: Pick<RunningDestination, 'adminUrl'>) => {
  const where = ['--url', one.adminUrl, '--token', ADMIN_TOKEN]
  return (...args: string[]) => runInside([...args, ...where])
}

/** Starts a destination with an endpoint that refuses every message, and turns the given messages into dead letters. */
async function withDead(...messages: string[]) {
  const crm = await endpoint(400)
  const one = await start(settingsFor([destination([crm])]))
  await post(
    one,
    messages.map((id) => track(id)),
  )
  const dead = async () => (await one.stats())[0]?.dead ?? 0
  const has = async (count: number) => {
    while ((await dead()) !== count) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await has(messages.length)
  return { crm, one, has, cli: as(one) }
}

describe('trace', () => {
  test('counts from the time of the store, whatever the clock of this machine shows', async () => {
    const now = Date.now() + 3_600_000
    const waits = { state: 'backlog', receivedAt: now, dueAt: now + 30_000, attempts: [] }
    const delivery = { ...waits, messageId: 'm', deadlineAt: null, hold: null }
    await using proxy = createProxy((_request, response) => {
      response.setHeader('X-Hookline', 'destination')
      response.end(JSON.stringify({ deliveries: [delivery], now }))
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const { port } = proxy.address() as AddressInfo
    const { stdout } = await as({ adminUrl: `http://127.0.0.1:${port}` })('trace', 'm')
    expect(stdout).toMatch(/The next attempt is due .*, in 30 s\.\n$/)
  })

  test('tells of a message what became of it', async () => {
    const { crm, cli } = await withDead('m/1')
    const { code, stdout } = await cli('trace', 'm/1')
    expect(code).toBe(0)
    const lines = stdout.trimEnd().split('\n')
    const time = '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\dZ'
    expect(lines[0]).toBe('m/1  track "Signed Up" of u1  from web to crm  (delivery 1)')
    expect(lines[1]).toMatch(new RegExp(`^  ${time}  accepted$`))
    expect(lines[2]).toMatch(
      new RegExp(`^  ${time}  attempt 1  400 client_error  \\d+ ms  ${crm.url}$`),
    )
    expect(lines[3]).toBe('      The endpoint answered 400.')
    expect(lines[4]).toMatch(/^ {2}It is a dead letter: every endpoint refused it/)
    const json = await cli('trace', 'm/1', '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ deliveries: [{ state: 'dead' }] })
  })

  test.each(['.', '..', 'a/../b', '%2e', '?', '#'])(
    'finds a message whose id means something in a path: %s',
    async (id) => {
      const { cli } = await withDead(id)
      const { code, stdout } = await cli('trace', id, '--json')
      expect(code).toBe(0)
      expect(JSON.parse(stdout)).toMatchObject({ deliveries: [{ messageId: id }] })
    },
  )

  test('finds a message by the X-Message-Id that its receiver got', async () => {
    const { cli } = await withDead('SW 1é%')
    const { stdout } = await cli('trace', 'SW%201%C3%A9%25', '--json')
    expect(JSON.parse(stdout)).toMatchObject({ deliveries: [{ messageId: 'SW 1é%' }] })
    expect((await cli('trace', 'SW%202')).stderr).toContain('There is no message "SW 2"')
  })

  test('shows what the endpoint answered, and only the start of a long answer', async () => {
    const crm = await endpoint((response, { event }) => {
      const isLong = event['event'] === 'Long'
      response.writeHead(422).end(isLong ? 'x'.repeat(600) : '{"error":\n"Unknown event type"}')
    })
    const one = await start(settingsFor([destination([crm])]))
    await post(one, [track('short'), track('long', { event: 'Long' })])
    while ((await one.stats())[0]?.dead !== 2) await new Promise((done) => setTimeout(done, 5))
    const short = await as(one)('trace', 'short')
    expect(short.stdout).toContain('\n      answer: {"error":\\n"Unknown event type"}\n')
    const long = await as(one)('trace', 'long')
    expect(long.stdout).toContain(`\n      answer: ${'x'.repeat(500)} …\n`)
  })

  test('of what is not known is 1, and JSON for a script', async () => {
    const { cli } = await withDead()
    const json = await cli('trace', 'none', '--json')
    expect({ ...json, stdout: JSON.parse(json.stdout) as unknown }).toEqual({
      code: 1,
      stderr: '',
      stdout: {
        error: {
          code: 'unknown_message',
          message: expect.stringContaining('There is no message "none"') as string,
        },
      },
    })
    expect(await cli('trace', 'none')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('There is no message "none"') as string,
    })
  })

  test('of a message that waits for a destination that gets nothing says so, and what to do', async () => {
    const crm = await endpoint(500)
    const crmOf = destination([crm])
    const settings = settingsFor([crmOf])
    const one = await start(settings)
    await post(one, [track('m')])
    await crm.has(1)
    const lastLine = async () => (await as(one)('trace', 'm')).stdout.trimEnd().split('\n').at(-1)
    await expect.poll(lastLine).toMatch(/^ {2}It is in the backlog\. The next attempt is due /)
    await one.reload({ ...settings, destinations: [{ ...crmOf, enabled: false }] })
    expect(await lastLine()).toBe(
      '  The destination is disabled, so no attempt is made. Set "enabled": true and reload the settings to send it.',
    )
    await one.reload({ ...settings, destinations: [{ ...crmOf, name: 'other' }] })
    expect(await lastLine()).toBe(
      '  The settings have no destination of this name, so no attempt is made. Add the destination and reload the settings to send it.',
    )
    const { stdout } = await as(one)('trace', 'm', '--json')
    expect(JSON.parse(stdout)).toMatchObject({ deliveries: [{ hold: 'removed' }] })
  })

  test('of nobody who answers is 3', async () => {
    expect(await runInside(['trace', 'm', '--url', await nobody()])).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(
        /^No answer from http:.* \(ECONNREFUSED\)\. Check that the destination runs there\.\n$/,
      ) as string,
    })
  })

  test('reads the store itself where nothing runs', async () => {
    const folder = folderWith('{}')
    onTestFinished(() => {
      rmSync(folder, { recursive: true })
    })
    const url = `sqlite:${join(folder, 'store.db')}`
    const config = (store: string, listen: string) =>
      join(folderWith({ ...SETTINGS, store, listen }), 'hookline.config.json')
    const listen = (await nobody()).replace('http://', '')
    const absent = await runInside(['trace', 'm', '--config', config(url, listen)])
    expect(absent).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(
        `There is no store at ${join(folder, 'store.db')} to read instead.\n`,
      ) as string,
    })
    const loop = join(folder, 'loop.db')
    symlinkSync(loop, loop)
    const closed = await runInside(['trace', 'm', '--config', config(`sqlite:${loop}`, listen)])
    expect(closed).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(
        /The store at \S+loop\.db can't be opened instead: ELOOP.*\.\n$/,
      ) as string,
    })
    const elsewhere = await runInside(['trace', 'm', '--config', config('sqlite:./a.db', listen)])
    expect(elsewhere.stderr).toContain(
      `There is no store at ${resolve('a.db')} to read instead. The path in the settings is relative: run the command in the ` +
        'folder where the destination runs.\n',
    )

    const store = await openStore(url)
    const held = await runInside(['trace', 'm', '--config', config(url, listen)])
    expect(held).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('is the store of another running process') as string,
    })
    const inJson = await runInside(['trace', 'm', '--config', config(url, listen), '--json'])
    expect(JSON.parse(inJson.stdout)).toMatchObject({ error: { code: 'locked' } })
    const [id = 0] = await store.put([newDelivery({ messageId: 'm', state: 'leased' })])
    await store.settle([settlement({ id, attempt: 1 }, { state: 'backlog', delayMs: 60_000 })])
    await store.close()
    const { code, stdout, stderr } = await runInside([
      ...['trace', 'm', '--config', config(url, listen)],
    ])
    const told = `No destination runs. This is what its store has, ${join(folder, 'store.db')}:\n`
    expect({ code, stdout, stderr }).toMatchObject({
      code: 0,
      stderr: told,
      stdout: expect.stringMatching(
        /It is in the backlog\. The next attempt is due .*Z, in (\d\d s|1 min); the last one is at .*Z\.\n$/,
      ) as string,
    })
    const none = await runInside(['trace', 'x', '--config', config(url, listen)])
    expect(none).toMatchObject({ code: 1, stderr: `${told}There is no message "x".\n` })
    const secret = config(url, listen)
    const { destinations } = SETTINGS
    const withSecret = { ...SETTINGS, destinations: [{ ...destinations[0], sharedSecret: UNSET }] }
    writeFileSync(secret, JSON.stringify({ ...withSecret, store: url, listen }))
    expect(await runInside(['trace', 'm', '--config', secret])).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(
        /^No answer .* Its store can't be read instead, because of the settings\.\n.*HOOKLINE_TEST_UNSET is not set\.\n$/,
      ) as string,
    })
  })

  test('ends the reason of a dead letter with a full stop', async () => {
    const folder = folderWith('{}')
    onTestFinished(() => {
      rmSync(folder, { recursive: true })
    })
    const url = `sqlite:${join(folder, 'store.db')}`
    const store = await openStore(url)
    await store.put([newDelivery({ messageId: 'm' })])
    await store.sweep(-1, 9)
    await store.close()
    const listen = (await nobody()).replace('http://', '')
    const config = join(folder, 'hookline.config.json')
    writeFileSync(config, JSON.stringify({ ...SETTINGS, store: url, listen }))
    expect((await runInside(['trace', 'm', '--config', config])).stdout).toMatch(
      / {2}It is a dead letter: older than the retention\. `replay` sends it again\.\n$/,
    )
  })

  test('knows there the destinations that the store has, and which are paused', async () => {
    const down = await endpoint(503)
    const listen = { host: '127.0.0.1', port: await freePort() }
    const gone = destination([down], { name: 'gone' })
    const settings = settingsFor([gone], { listen, settingsKeys: [SETTINGS_KEY] })
    const one = await start(settings)
    for (const name of ['made', 'held', 'off']) {
      const webhooks = [{ url: down.url }]
      const made = await ask(one, 'PUT', `/destinations/${name}`, { sources: ['web'], webhooks })
      expect(made.status).toBe(201)
    }
    await post(one, [track('m')])
    await down.has(4)
    await ask(one, 'POST', '/destinations/held/pause', { reason: 'maintenance' })
    await ask(one, 'PATCH', '/destinations/off', { enabled: false })
    await expect
      .poll(async () => (await one.stats()).every(({ leased }) => leased === 0))
      .toBe(true)
    await one.close()

    const holdsWith = async (settingsKey: string) => {
      const { store } = settings
      const file = { ...{ store, settingsKey }, listen: `127.0.0.1:${listen.port}` }
      const folder = folderWith({ ...file, sources: SETTINGS.sources })
      const config = join(folder, 'hookline.config.json')
      const { stdout } = await runInside(['trace', 'm', '--json', '--config', config])
      const { deliveries } = JSON.parse(stdout) as { deliveries: ShownTrace[] }
      return Object.fromEntries(deliveries.map(({ destination, hold }) => [destination, hold]))
    }
    const known = { made: null, held: 'paused', off: 'disabled', gone: 'removed' }
    expect(await holdsWith(SETTINGS_KEY)).toEqual(known)
    // What is encrypted with another key is in the store nevertheless.
    expect(await holdsWith(OTHER_KEY)).toEqual({ ...known, off: null })
  })

  test('creates no store in a file that is empty', async () => {
    const folder = folderWith('{}')
    const file = join(folder, 'store.db')
    writeFileSync(file, '')
    const listen = (await nobody()).replace('http://', '')
    const config = folderWith({ ...SETTINGS, store: `sqlite:${file}`, listen })
    const { code, stderr } = await runInside([
      'trace',
      'm',
      '--config',
      join(config, 'hookline.config.json'),
    ])
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining(`there is no store at ${file}`) as string,
    })
    expect(readdirSync(folder).sort()).toEqual(['hookline.config.json', 'store.db'])
    expect(statSync(file).size).toBe(0)
  })
})

const FILE = 'hookline.config.json'

const SETTINGS = {
  sources: [{ name: 'web', writeKey: 'k' }],
  destinations: [
    { name: 'crm', sources: ['web'], webhooks: [{ url: 'https://a.example.com/hook' }] },
  ],
}

/** A reference to a variable of the environment that only the service has. */
const UNSET = '${HOOKLINE_TEST_UNSET}'

describe('commands beside a service, whose secrets only it has', () => {
  const settings = (changes: object = {}) => ({
    adminToken: UNSET,
    sources: [{ name: 'web', writeKey: UNSET }],
    destinations: [{ ...SETTINGS.destinations[0], sharedSecret: UNSET }],
    ...changes,
  })
  const unset = (path: string) =>
    `${path}: the environment variable HOOKLINE_TEST_UNSET is not set.\n`

  test('need only the URL and the token', async () => {
    const crm = await endpoint(200)
    const listen = { host: '127.0.0.1', port: await freePort() }
    const one = await start(settingsFor([destination([crm])], { listen }))
    const config = join(folderWith(settings({ listen: `127.0.0.1:${listen.port}` })), FILE)
    const where = ['--config', config]
    const ok = { code: 0, stderr: '' }
    const token = ['--token', ADMIN_TOKEN]
    expect(await runInside(['status', ...where, '--url', one.adminUrl, ...token])).toMatchObject(ok)
    expect(await runInside(['list', ...where, ...token])).toMatchObject(ok)
    vi.stubEnv('HOOKLINE_ADMIN_TOKEN', ADMIN_TOKEN)
    onTestFinished(() => {
      vi.unstubAllEnvs()
    })
    expect(await runInside(['status', ...where])).toMatchObject(ok)
  })

  test('name what they lack', async () => {
    const config = join(folderWith(settings()), FILE)
    const { code, stderr } = await runInside(['status', '--config', config])
    expect({ code, stderr }).toEqual({ code: 2, stderr: `${config}: ${unset('adminToken')}` })
    const wrong = join(folderWith(settings({ listen: 'x' })), FILE)
    const named = await runInside(['status', '--config', wrong, '--token', ADMIN_TOKEN])
    expect(named).toMatchObject({ code: 2, stderr: expect.stringMatching(/: listen: /) as string })
  })

  test('that sign, send or look at the store need no other secret', async () => {
    const file = join(folderWith(settings({ destinations: 'x', store: `sqlite:${UNSET}` })), FILE)
    const sign = await runInside(['sign', file, '--config', file])
    expect(sign.stderr).toMatch(/: destinations: expected a list/)
    const send = ['send', 'track', '--user', 'u', '--event', 'E', '--config', file]
    expect((await runInside(send)).stderr).toBe(`${file}: ${unset('sources[0].writeKey')}`)
    const shares = await runInside(['store', 'shares', '--config', file])
    expect(shares.stderr).toBe(`${file}: ${unset('store')}`)
  })

  test('need of sources and destinations only what they use', async () => {
    const url = await nobody()
    const secret = { sharedSecret: 's3cret' }
    const file = join(
      folderWith({
        listen: new URL(url).host,
        sources: [
          { name: 'web', writeKey: 'key' },
          { name: 'shop', writeKey: UNSET },
        ],
        destinations: [
          { name: 'crm', sources: ['web'], webhooks: [{ url: UNSET }], ...secret },
          {
            ...{ name: 'erp', sources: ['web'], ...secret },
            webhooks: [{ url }, { url: UNSET, headers: { 'X-Key': UNSET } }],
          },
          { name: 'other', sources: ['web'], webhooks: [{ url: UNSET }], sharedSecret: UNSET },
        ],
      }),
      FILE,
    )
    const where = ['--config', file]
    const sign = (...more: string[]) => runInside(['sign', file, ...where, ...more])
    expect(await sign('--destination', 'crm')).toMatchObject({ code: 0, stderr: '' })
    expect((await sign()).stderr).toBe(`${file}: ${unset('destinations[2].sharedSecret')}`)
    const doctor = await runInside(['doctor', url, '--no-post', ...where])
    expect(doctor.stderr).toBe(
      `The endpoint belongs to the destination erp in ${file}. Its settings are used.\n`,
    )
    const stranger = await runInside(['doctor', `${url}/other`, '--no-post', ...where])
    expect(stranger.stderr).toMatch(
      /^No destination in \S+ has this URL\. .* Some URLs are not known here: the environment variable \S+ is not set\.\n$/,
    )
    const call = ['track', '--user', 'u', '--event', 'E', '--timeout', '1']
    expect((await runInside(['send', ...call, ...where])).stderr).toMatch(/^Not accepted: /)
  })
})

/** A URL at which nothing listens. */
async function nobody(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}`
}

describe('replay', () => {
  test('of all counts first, and sends them once the count is confirmed', async () => {
    const { crm, cli, has } = await withDead('a', 'b')
    crm.answer(204)
    const dry = await cli('replay', '--all', '--dry-run')
    const choice = /To send them, give --confirm 2 --as-of \d+\.\n$/
    expect(dry).toMatchObject({ code: 0, stderr: '' })
    expect(dry.stdout.replace(choice, '')).toBe('Deliveries to replay: 2 (2 for crm).\n')
    expect(await cli('replay', '--all')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(choice) as string,
    })
    const other = await cli('replay', '--all', '--confirm', '3')
    expect(other.code).toBe(1)
    expect(other.stderr.replace(choice, '')).toBe('The count is 2, not 3. Nothing was sent. ')
    for (const [args, code] of [
      [[], 'not_confirmed'],
      [['--confirm', '3'], 'count_changed'],
    ] as const) {
      const { stdout } = await cli('replay', '--all', ...args, '--json')
      expect(JSON.parse(stdout)).toMatchObject({ error: { code } })
    }
    expect(crm.received).toHaveLength(2)
    expect(await cli('replay', '--all', '--confirm', '2')).toMatchObject({
      code: 0,
      stdout: 'Deliveries sent again: 2 (2 for crm). Use `trace` to see the result of each.\n',
    })
    await crm.has(4)
    await has(0)
    const none = await cli('replay', '--all', '--json')
    expect(none.code).toBe(0)
    expect(JSON.parse(none.stdout)).toEqual({
      ...{ matched: 0, replayed: 0, byDestination: [], kept: [], dryRun: true },
      asOf: expect.any(Number) as number,
    })
  })

  test('sends what was counted, although others die before it is confirmed', async () => {
    const { crm, one, has } = await withDead('a', 'b')
    const forward = async (request: IncomingMessage, response: ServerResponse) => {
      const body = await text(request)
      const { method, url, headers } = request
      const answer = await fetch(`${one.adminUrl}${url}`, {
        ...{ method: method ?? 'GET', body },
        headers: { authorization: headers.authorization ?? '' },
      })
      if (body.includes('"dryRun":true')) {
        await post(one, [track('c')])
        await has(3)
      }
      const name = answer.headers.get('x-hookline') ?? ''
      response.writeHead(answer.status, { 'X-Hookline': name }).end(await answer.text())
    }
    const proxy = createProxy((request, response) => void forward(request, response))
    onTestFinished(() => void proxy.close())
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const { port } = proxy.address() as AddressInfo
    const cli = as({ adminUrl: `http://127.0.0.1:${port}` })
    const { code, stdout } = await cli('replay', '--all', '--confirm', '2')
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'Deliveries sent again: 2 (2 for crm). Use `trace` to see the result of each.\n',
    })
    await crm.has(5)
  })

  test.for([
    ['all', ['--all']],
    ['a message', ['--message', 'a']],
  ] as const)(
    'of %s with what the dry run printed sends what was counted, and nothing twice',
    async ([, which]) => {
      const { crm, one, cli, has } = await withDead('a')
      const { stdout } = await cli('replay', ...which, '--dry-run')
      const [, confirm = '', asOf = ''] = /--confirm (\d+) --as-of (\d+)\./.exec(stdout) ?? []
      // Another one dies before the second command.
      await post(one, [track('b')])
      await has(2)
      const choice = ['--confirm', confirm, '--as-of', asOf]
      expect(await cli('replay', ...which, ...choice)).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('Deliveries sent again: 1 (1 for crm)') as string,
      })
      await crm.has(3)
      await has(2)
      const again = await cli('replay', ...which, ...choice)
      expect(again).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('The count is 0, not 1. Nothing was sent') as string,
      })
      expect(crm.received).toHaveLength(3)
    },
  )

  test('of a filter, a message or an id sends no others', async () => {
    const { crm, cli, has } = await withDead('a', 'b', 'c')
    expect(await cli('replay', '--message', 'a', '--confirm', '2')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('The count is 1, not 2. Nothing was sent by') as string,
    })
    const times = async (count: number) => {
      await crm.has(count)
      await has(3)
    }
    await cli('replay', '--user', 'u1', '--since', '1h', '--until', '2100-01-01', '--confirm', '3')
    await times(6)
    expect(await cli('replay', '--status', '422', '--dry-run')).toMatchObject({
      stdout: 'There is nothing to replay.\n',
    })
    const none = await cli('replay', '--status', '422', '--confirm', '3')
    expect(none).toMatchObject({ code: 1, stdout: 'There is nothing to replay.\n' })
    expect(none.stderr).toBe('The count is 0, not 3. Nothing was sent.\n')
    const json = await cli('replay', '--status', '422', '--confirm', '3', '--json')
    expect(JSON.parse(json.stdout)).toEqual({
      error: { code: 'count_changed', message: 'The count is 0, not 3. Nothing was sent.' },
    })
    expect(await cli('replay', '--status', '422', '--confirm', '0')).toMatchObject({ code: 0 })
    expect(await cli('replay', '--status', '400', '--dry-run')).toMatchObject({
      stdout: expect.stringMatching(/^Deliveries to replay: 3 \(3 for crm\)\.\n/) as string,
    })
    expect(await cli('replay', '--message', 'b')).toMatchObject({ code: 0 })
    await times(7)
    expect(await cli('replay', '1', '3')).toMatchObject({ code: 0 })
    await times(9)
    const again = crm.received.slice(6).map(({ headers }) => headers['x-message-id'])
    expect(again).toEqual(['b', ...again.slice(1)])
    expect(again.slice(1).sort()).toEqual(['a', 'c'])
    expect(await cli('replay', '--message', 'none')).toMatchObject({
      code: 1,
      stdout: 'There is nothing to replay.\n',
    })
    expect(crm.received).toHaveLength(9)
  })

  test.each([
    ['--destination', 'crn', 'There is no destination "crn". Known destinations: crm.\n'],
    ['--source', 'wbe', 'There is no source "wbe". Known sources: web.\n'],
  ])('of a %s that does not exist is 2', async (flag, name, stderr) => {
    const { cli } = await withDead('a')
    const ended = { code: 2, stdout: '', stderr }
    expect(await cli('replay', flag, name)).toEqual(ended)
    expect(await cli('replay', flag, name, '--dry-run')).toEqual(ended)
  })

  test('without the token is refused, with the fix', async () => {
    const { one } = await withDead('a')
    const { code, stderr } = await runInside(['replay', '1', '--url', one.adminUrl])
    expect(code).toBe(1)
    expect(stderr).toContain('Give the token with --token, or set HOOKLINE_ADMIN_TOKEN.')
  })
})

test('what a destination answers while its store is away is 3, and may succeed later', async () => {
  const [listen, store] = [await freePort(), await freePort()]
  const stop = new AbortController()
  const settings = settingsFor([], {
    listen: { host: '127.0.0.1', port: listen },
    store: `postgres://127.0.0.1:${store}/none`,
  })
  const starting = startDestination(settings, silent, 'all', stop.signal).catch(() => undefined)
  onTestFinished(async () => {
    stop.abort()
    await starting
  })
  const adminUrl = `http://127.0.0.1:${listen}`
  await expect
    .poll(() =>
      fetch(adminUrl).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(503)
  for (const args of [
    ['status'],
    ['list'],
    ['trace', 'm'],
    ['pause', 'crm', '-r', 'why'],
    ['resume', 'crm'],
    ['replay', '1'],
    ['test', 'crm'],
    ['tail'],
    ['sources', 'create', 'a'],
  ]) {
    const { code, stdout, stderr } = await as({ adminUrl })(...args)
    expect({ args, code, stdout }).toEqual({ args, code: 3, stdout: '' })
    expect(stderr).toContain('it waits for its store. The request was not accepted. Send it again')
  }
})
