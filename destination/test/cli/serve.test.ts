import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  constants,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'vitest'
import { startEndpoint } from '../endpoint.js'
import { emptyFolder, folderWith, run, start, type Ended } from './process.js'
import { freePort } from '../../../test/ports.js'

type Raw = Record<string, unknown>

const settings = (fields: Raw = {}, name = 'crm', url = 'https://a.example.com/'): Raw => ({
  listen: '127.0.0.1:0',
  sources: [{ name: 'web', writeKey: 'hush-key' }],
  destinations: [
    {
      name,
      sources: ['web'],
      sharedSecret: 'hush-secret',
      webhooks: [{ url, headers: { 'X-Token': 'hush-header' } }],
    },
  ],
  store: 'sqlite:store.db',
  allowNetworks: ['127.0.0.0/8'],
  adminToken: 'hush-admin-0123456',
  ...fields,
})

/** Sends one call to the collector. */
async function track(url: string, event: string): Promise<void> {
  await fetch(`${url}/v1/track`, {
    method: 'POST',
    body: JSON.stringify({ writeKey: 'hush-key', userId: 'u1', event }),
  })
}

const file = (folder: string) => join(folder, 'hookline.config.json')
const LISTENING = /"url":"([^"]+)".*"msg":"listening"/

/** Options of Node with which a process gets a signal when it begins to load its commands. */
function signalAtLoad(signal: NodeJS.Signals): string {
  const hook = `
    export async function load(url, context, next) {
      if (/\\/main[^/]*$/.test(url)) process.kill(process.pid, '${signal}')
      return next(url, context)
    }`
  const url = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
  const script = `import { register } from 'node:module'; register(${JSON.stringify(url(hook))})`
  return `--no-warnings --import=${url(script)}`
}

/** Makes a pipe that is full, because nobody reads it. A process that writes its log into it waits for ever. */
function fullPipe(folder: string): number {
  const path = join(folder, 'log')
  execFileSync('mkfifo', [path])
  const pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  try {
    for (;;) writeSync(pipe, Buffer.alloc(4_096))
  } catch {
    return openSync(path, 'r+')
  }
}

/** The same with a socket. */
async function fullSocket(folder: string): Promise<Socket> {
  const path = join(folder, 'socket')
  const server = createServer({ pauseOnConnect: true }).listen(path)
  await once(server, 'listening')
  const socket = connect(path)
  await once(socket, 'connect')
  while (socket.write(Buffer.alloc(65_536)));
  return socket
}

describe.concurrent('serve', () => {
  test.for([
    ['whose reader of the log has stopped, a pipe', fullPipe],
    ['whose reader of the log has stopped, a socket as of systemd', fullSocket],
    ['whose log is on a full disk', () => openSync('/dev/full', 'w')],
  ] as const)(
    '%s, is ended by signals: by the first in time, and by the second at once',
    { tags: 'long' },
    async ([, open], { expect }) => {
      await using crm = await startEndpoint([() => undefined])
      for (const isBusy of [false, true]) {
        const listen = `127.0.0.1:${await freePort()}`
        const folder = folderWith(settings({ listen }, 'crm', crm.url))
        const service = start(['serve', '--no-pretty'], { folder, stdout: await open(folder) })
        const isListening = () =>
          fetch(`http://${listen}/readyz`).then(
            ({ ok }) => ok,
            () => false,
          )
        await expect.poll(isListening).toBe(true)
        if (isBusy) {
          await track(`http://${listen}`, 'E')
          await crm.has(1)
        }
        service.kill('SIGTERM')
        await expect.poll(isListening).toBe(false)
        if (isBusy) service.kill('SIGINT')
        expect(await service.ended).toEqual({ code: isBusy ? 1 : 0, stdout: '', stderr: '' })
      }
    },
  )

  test(
    'takes signals from its first moment on, while its files are loaded',
    { tags: 'long' },
    async ({ expect }) => {
      const folder = folderWith(settings())
      const begin = (signal: NodeJS.Signals, ...args: string[]) =>
        start(['serve', ...args], { folder, env: { NODE_OPTIONS: signalAtLoad(signal) } })
      const reloaded = begin('SIGHUP')
      await reloaded.printed(LISTENING)
      reloaded.kill('SIGTERM')
      expect((await reloaded.ended).code).toBe(0)

      const nothing = { code: 0, stdout: '', stderr: '' }
      expect(await begin('SIGTERM').ended).toEqual(nothing)
      expect(await begin('SIGINT').ended).toEqual(nothing)
      expect((await begin('SIGINT', '--check').ended).code).toBe(null) // it has checked nothing
    },
  )

  test(
    'says the same of an alias without an end at its start and at SIGHUP, and keeps its settings',
    { tags: 'long' },
    async ({ expect }) => {
      await using crm = await startEndpoint()
      const folder = folderWith('')
      const yaml = join(folder, 'settings.yaml')
      const circular = 'sources: &a [*a]\n'
      const words = 'this alias (*name) is inside the value that it refers to. Remove it.'
      writeFileSync(yaml, circular)
      const refused = await run(['serve', '--config', yaml], { folder })
      const stderr = expect.stringContaining(`line 1, column 14: ${words}\n`) as string
      expect(refused).toEqual({ code: 2, stdout: '', stderr })

      writeFileSync(yaml, JSON.stringify(settings({}, 'crm', crm.url)))
      const service = start(['serve', '--config', yaml], { folder })
      const [, url = ''] = await service.printed(LISTENING)
      writeFileSync(yaml, circular)
      service.kill('SIGHUP')
      const [line] = await service.printed(/\{"level":"error".*not reloaded.*/)
      expect(JSON.parse(line)).toMatchObject({
        problems: [{ path: 'line 1, column 14', message: words }],
      })
      await track(url, 'first')
      await crm.has(1)
      service.kill('SIGTERM')
      expect((await service.ended).code).toBe(0)
    },
  )

  test('listens, reloads, keeps its settings when the new ones are wrong, and stops with 0', async ({
    expect,
  }) => {
    await using crm = await startEndpoint()
    await using erp = await startEndpoint()
    const folder = folderWith(settings({}, 'crm', `${crm.url}?key=hush-query`))
    const service = start(['serve'], { folder })
    const [, url = ''] = await service.printed(LISTENING)
    await track(url, 'first')
    await crm.has(1)

    writeFileSync(file(folder), JSON.stringify(settings({}, 'erp', erp.url)))
    service.kill('SIGHUP')
    await service.printed(/"destinations":\["erp"\],"msg":"reloaded"/)
    await track(url, 'second')
    await erp.has(1)

    writeFileSync(
      file(folder),
      JSON.stringify({ ...settings({ listen: 'x', retention: '1h' }), sources: [] }),
    )
    service.kill('SIGHUP')
    const [problems] = await service.printed(/\{"level":"error".*"path":"listen".*not reloaded.*/)
    expect(problems).toMatch(
      /"path":"sources".*"path":"retention".*not reloaded: the old settings stay in use/,
    )

    writeFileSync(file(folder), JSON.stringify(settings({ store: 'sqlite:elsewhere' }, 'new')))
    service.kill('SIGHUP')
    await service.printed(/"error":"store can't change.*not reloaded/)
    await track(url, 'third')
    await erp.has(2)

    service.kill('SIGTERM')
    const { code, stdout, stderr } = await service.ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect([crm, erp].map(({ received }) => received.map(({ event }) => event['event']))).toEqual([
      ['first'],
      ['second', 'third'],
    ])
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Raw)
    expect(lines.map(({ msg }) => msg)).toEqual([
      'destination',
      'listening',
      'attempt',
      'reloaded',
      'attempt',
      'not reloaded: the old settings stay in use',
      'not reloaded: the old settings stay in use',
      'attempt',
      'stopping: requests under way may finish',
      'stopped',
    ])
    expect(lines[0]).toMatchObject({ destination: 'crm', signed: true, endpoints: [crm.url] })
    expect(lines[2]).toEqual({
      ...{ level: 'info', time: expect.any(String) as unknown, msg: 'attempt' },
      ...{ messageId: expect.any(String) as unknown, source: 'web', destination: 'crm' },
      ...{ endpoint: crm.url, attempt: 1, code: 'delivered', status: 204 },
      ...{ ms: expect.any(Number) as unknown, next: 'done' },
    })
    expect(stdout).not.toContain('hush')
  })

  test(
    'that waits for an endpoint is ended by a second signal, with 1, and loses nothing',
    { tags: 'long' },
    async ({ expect }) => {
      await using hung = await startEndpoint([() => undefined, 204])
      const folder = folderWith(settings({}, 'hung', hung.url))
      const service = start(['serve', '--log-level', 'debug'], { folder })
      const [, url = ''] = await service.printed(LISTENING)
      await track(url, 'never answered')
      await hung.has(1)
      service.kill('SIGINT')
      await service.printed(/"signal":"SIGINT"/)
      service.kill('SIGINT')
      const { code, stdout } = await service.ended
      expect(code).toBe(1)
      expect(stdout).not.toContain('"stopped"')

      const next = start(['serve'], { folder })
      await hung.has(2)
      next.kill('SIGTERM')
      expect((await next.ended).code).toBe(0)
      const [first, second] = hung.received.map(({ headers }) => headers['x-message-id'])
      expect(second).toBe(first)
    },
  )

  test(
    'in a role that needs others ends with 2 where nobody can share the store',
    { tags: 'long' },
    async ({ expect }) => {
      for (const args of [[], ['--check']]) {
        const ended = await run(['serve', '--role', 'worker', ...args], {
          folder: folderWith(settings({})),
        })
        expect(ended).toMatchObject({ code: 2, stdout: '' })
        expect(ended.stderr).toContain('the role worker needs PostgreSQL')
        expect(ended.stderr).toContain('Set "store" to a postgres:// URL')
      }
      const wrong = await run(['serve', '--role', 'sender'])
      expect(wrong.code).toBe(2)
      expect(wrong.stderr).toContain('Allowed choices are all, collector, worker.')
    },
  )

  test('never shows the password of the store', { tags: 'long' }, async ({ expect }) => {
    const folders = ['postgres://u:hush-hush@127.0.0.1:1/db', 'postgres://u:hush-hush/@h/db'].map(
      (store) => folderWith({ ...settings({}), store }),
    )
    const serve = async (folder: string): Promise<Ended> => {
      const service = start(['serve', '--role', 'worker'], { folder })
      const waits = service.printed(/waiting for the store/).then(
        () => {
          service.kill('SIGTERM')
        },
        () => undefined, // it ended, because the URL is not valid
      )
      await waits
      return service.ended
    }
    const endings = await Promise.all(
      folders.flatMap((folder) => [run(['serve', '--check', '--json'], { folder }), serve(folder)]),
    )
    expect(endings[1]?.stdout).toContain('stopped before the store could be reached')
    for (const { stdout, stderr } of endings) expect(stdout + stderr).not.toContain('hush-hush')
    expect(endings.map(({ code }) => code)).toEqual([0, 0, 2, 2])
  })

  test(
    'without settings says where it looked, and prints some that are right',
    { tags: 'long' },
    async ({ expect }) => {
      const folder = emptyFolder()
      const { code, stdout, stderr } = await run(['serve'], { folder })
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain(
        `${folder}: there is no hookline.config.json, hookline.config.yaml or hookline.config.yml.\n`,
      )
      writeFileSync(file(folder), stderr.slice(stderr.indexOf('{')))
      const checked = await run(['serve', '--check'], { folder })
      expect(checked).toMatchObject({ code: 0, stderr: '' })
      expect(checked.stdout).toMatch(
        /^hookline\.config\.json is valid:\n\nlisten: 127\.0\.0\.1:3300\n/,
      )
    },
  )

  test(
    '--init writes settings that are right, for its owner alone, and never over others',
    { tags: 'long' },
    async ({ expect }) => {
      const folder = emptyFolder()
      const first = await run(['serve', '--init', '--check', '--json'], { folder })
      expect(first.code).toBe(0)
      expect(first.stderr).toMatch(/^Wrote hookline\.config\.json/)
      expect(JSON.parse(first.stdout)).toMatchObject({
        ok: true,
        settings: { sources: ['web'], admin: true, adminListen: '127.0.0.1:3301' },
      })
      expect(statSync(file(folder)).mode & 0o777).toBe(0o600)
      const written = readFileSync(file(folder), 'utf8')
      expect(written).toMatch(
        /"writeKey": "[\da-f]{32}"[^]*"sharedSecret": "[\da-f]{32}"[^]*"adminToken": "[\da-f]{32}"/,
      )
      expect(first.stdout + first.stderr).not.toMatch(/[\da-f]{32}/)

      const second = await run(['serve', '--init'], { folder })
      expect(second).toEqual({
        code: 2,
        stdout: '',
        stderr:
          'Could not write hookline.config.json: the file exists already. Leave out --init to start with it.\n',
      })
      expect(readFileSync(file(folder), 'utf8')).toBe(written)

      const nowhere = await run(['serve', '--init', '--config', 'none/hookline.json'], { folder })
      expect(nowhere.code).toBe(2)
      expect(nowhere.stderr).toMatch(/ENOENT.*With --config, name a file in a folder to which/)

      // The commands that it prints find a file with another name.
      expect(first.stderr).toContain('\n  npx hookline-destination listen\n')
      for (const [name, shown] of [
        ['x.json', 'x.json'],
        ["Bob's x.json", `'Bob'\\''s x.json'`],
      ] as const) {
        const named = await run(['serve', '--init', '--check', '--config', name], { folder })
        expect(named.stderr).toContain(`\n  npx hookline-destination listen --config ${shown}\n`)
        expect(named.stderr).toMatch(/ send track .* --user u1 --config .*x\.json'?$/m)
      }

      // They would be used in place of the others.
      const other = emptyFolder()
      writeFileSync(join(other, 'hookline.config.yaml'), 'sources: []\n')
      const third = await run(['serve', '--init'], { folder: other })
      expect(third.code).toBe(2)
      expect(third.stderr).toMatch(
        /^Could not write hookline\.config\.yaml: the file exists already\./,
      )
      expect(readdirSync(other)).toEqual(['hookline.config.yaml'])
    },
  )

  test(
    '--init writes what a replay needs, and says where the page and its token are',
    { tags: 'long' },
    async ({ expect }) => {
      const folder = emptyFolder()
      await run(['serve', '--init', '--check'], { folder })
      const free = (text: string) => text.replace(/127\.0\.0\.1:330\d/g, '127.0.0.1:0')
      writeFileSync(file(folder), free(readFileSync(file(folder), 'utf8')))
      const service = start(['serve', '--pretty'], { folder })
      const [, page = ''] = await service.printed(
        /The page is at (http:\S+)\/\. It asks for the "adminToken" of hookline\.config\.json\.\n/,
      )
      const replay = ['replay', '--all', '--dry-run', '--url', page]
      const [, token = ''] = /"adminToken": "(\w+)"/.exec(readFileSync(file(folder), 'utf8')) ?? []
      expect(await run([...replay, '--token', token])).toMatchObject({
        code: 0,
        stdout: 'There is nothing to replay.\n',
      })
      service.kill('SIGTERM')
      expect((await service.ended).code).toBe(0)
    },
  )

  test(
    'does not start with an endpoint that it may never reach, and --check and SIGHUP say the same',
    { tags: 'long' },
    async ({ expect }) => {
      const urls = ['http://127.0.0.1:4000/', 'http://[::1]/', 'http://localhost:4000/']
      for (const url of urls) {
        const folder = folderWith(settings({ allowNetworks: [] }, 'crm', url))
        const address = url.includes('::1') ? '::1' : '127.0.0.1'
        const stderr = `hookline.config.json: destinations[0].webhooks[0].url: ${address} is not a public address, so every message would be refused. To allow it, set "allowNetworks": ["${address}"].\n`
        for (const args of [['serve'], ['serve', '--check']]) {
          expect(await run(args, { folder })).toEqual({ code: 2, stdout: '', stderr })
        }
      }
      const folder = folderWith(settings())
      const service = start(['serve'], { folder })
      await service.printed(LISTENING)
      writeFileSync(
        file(folder),
        JSON.stringify(settings({ allowNetworks: [] }, 'crm', 'http://10.0.0.1/')),
      )
      service.kill('SIGHUP')
      await service.printed(/10\.0\.0\.1 is not a public address.*not reloaded/)
      service.kill('SIGTERM')
      expect((await service.ended).code).toBe(0)
    },
  )

  test(
    'does not start with a store that there can not be, and --check says the same',
    { tags: 'long' },
    async ({ expect }) => {
      const parent = emptyFolder()
      writeFileSync(join(parent, 'file'), '')
      const stores = [
        [parent, `${parent} is a folder. Name a file in it, such as sqlite:${parent}/hookline.db.`],
        [
          join(parent, 'file/a.db'),
          `a part of the path ${parent}/file is not a folder. Name a file in a folder.`,
        ],
      ]
      for (const [path, problem] of stores) {
        const folder = folderWith(settings({ store: `sqlite:${path}` }))
        const stderr = `hookline.config.json: store: ${problem}\n`
        for (const args of [['serve'], ['serve', '--check']]) {
          expect(await run(args, { folder })).toEqual({ code: 2, stdout: '', stderr })
        }
      }
    },
  )

  test('tells every mistake in its settings, and does not start', async ({ expect }) => {
    const folder = folderWith(settings({ listen: 'x', sourcs: [], adminToken: 'hush' }))
    const { code, stdout, stderr } = await run(['serve'], { folder })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(
      /^hookline\.config\.json has 3 problems:\n {2}listen: expected [^]*\n {2}adminToken: expected [^]*\n {2}sourcs: there is no such field\. Did you mean sources\?\n$/,
    )
    expect(stderr).not.toContain('hush')
  })

  test('--check --json tells mistakes to a program', async ({ expect }) => {
    const folder = folderWith(settings({ retention: 'x' }))
    const { code, stdout, stderr } = await run(['serve', '--check', '--json'], { folder })
    expect({ code, stderr }).toEqual({ code: 2, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      code: 'settings_invalid',
      problems: [{ path: 'retention' }],
      error: {
        code: 'settings_invalid',
        message: expect.stringMatching(/^hookline\.config\.json: retention: expected /) as string,
      },
    })
  })

  test(
    'on a port that is taken says which, and how to change it',
    { tags: 'long' },
    async ({ expect }) => {
      const other = createServer()
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
      const { port } = other.address() as AddressInfo
      const folder = folderWith(settings({ listen: `127.0.0.1:${port}` }))
      const ended = await run(['serve'], { folder })
      other.close()
      expect(ended).toEqual({
        code: 1,
        stdout: '',
        stderr: `Could not listen on 127.0.0.1:${port}: another process listens there. Stop it, or set "listen" in hookline.config.json to another port.\n`,
      })
    },
  )

  test.skipIf(process.platform !== 'linux')(
    'with an address for the operator that cannot be used names this one',
    { tags: 'long' },
    async ({ expect }) => {
      // All addresses of 127.0.0.0/8 are this machine only on Linux.
      const other = createServer()
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.2', resolve))
      const { port } = other.address() as AddressInfo
      const at = (listen: string, adminListen: string) =>
        run(['serve'], { folder: folderWith(settings({ listen, adminListen })) })
      const taken =
        'another process listens there. Stop it, or set "adminListen" in hookline.config.json to another port.'
      expect(await at(`127.0.0.1:${port}`, `127.0.0.2:${port}`)).toMatchObject({
        code: 1,
        stderr: `Could not listen on 127.0.0.2:${port}: ${taken}\n`,
      })
      expect(await at(`127.0.0.2:${port}`, `127.0.0.1:${port}`)).toMatchObject({
        code: 1,
        stderr: `Could not listen on 127.0.0.2:${port}: ${taken.replace('adminListen', 'listen')}\n`,
      })
      other.close()
      expect(await at('127.0.0.1:0', 'none.invalid:1')).toMatchObject({
        code: 1,
        stderr:
          'Could not listen on none.invalid:1: there is no such host. Set "adminListen" in hookline.config.json to another address.\n',
      })
    },
  )

  test(
    'whose store another one has says so, without a stack',
    { tags: 'long' },
    async ({ expect }) => {
      const folder = folderWith(settings())
      const first = start(['serve'], { folder })
      await first.printed(LISTENING)
      const second = await run(['serve'], { folder, env: { LOG_LEVEL: 'silent' } })
      first.kill('SIGTERM')
      expect(second).toEqual({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /^Could not start: .*store\.db is the store of another running process\. End that process, or name another file.*\n$/,
        ) as unknown,
      })
      expect((await first.ended).code).toBe(0)
    },
  )

  test(
    'with a LOG_LEVEL that is none does not start, and --check says the same',
    { tags: 'long' },
    async ({ expect }) => {
      const folder = folderWith(settings())
      for (const args of [['serve'], ['serve', '--check']]) {
        expect(await run(args, { folder, env: { LOG_LEVEL: 'loud' } })).toEqual({
          code: 2,
          stdout: '',
          stderr: 'LOG_LEVEL is wrong: Expected one of debug, info, warn, error, silent.\n',
        })
      }
    },
  )

  test('says which of several settings files it uses', { tags: 'long' }, async ({ expect }) => {
    const folder = folderWith(settings())
    writeFileSync(join(folder, 'hookline.config.yaml'), '')
    const unclear = await run(['serve', '--check'], { folder })
    expect(unclear).toMatchObject({
      code: 0,
      stderr:
        'hookline.config.json is used, and hookline.config.yaml is not. Keep only one, or name it with --config.\n',
    })
    const clear = await run(['serve', '--check', '--config', 'hookline.config.json'], { folder })
    expect(clear).toEqual({ ...unclear, stderr: '' })
  })
})
