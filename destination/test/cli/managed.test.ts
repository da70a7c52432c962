// @module-tag long
// The commands that show and change sources and destinations, at a running destination.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningDestination } from '../../src/destination.js'
import type { ManagedSetting, SettingChanged, SettingsApplied } from '../../src/model/answers.js'
import { ask, SETTINGS_KEY } from '../manage/api.js'
import { ADMIN_TOKEN, endpoint, post, settingsFor, start, track, type Later } from '../run.js'
import { runInside } from './inside.js'
import { readObject, textOf } from '../../src/cli/settings-text.js'
import { emptyFolder, run, start as startProcess, startOnTerminal } from './process.js'

const later: (() => unknown)[] = []
const atTheEnd: Later = (cleanUp) => later.unshift(cleanUp)
afterAll(async () => {
  for (const cleanUp of later) await cleanUp()
})

let one: RunningDestination
let where: string[]
beforeAll(async () => {
  one = await start(
    settingsFor([], { settingsKeys: [SETTINGS_KEY] }, atTheEnd),
    undefined,
    atTheEnd,
  )
  where = ['--url', one.adminUrl, '--token', ADMIN_TOKEN]
})

const cli = (...args: string[]) => runInside([...args, ...where])

async function json<T>(...args: string[]): Promise<T> {
  const { stdout } = await cli(...args, '--json')
  return JSON.parse(stdout) as T
}

const endsWith = (text: string) => expect.stringMatching(`${text}$`) as string

const get = async (path: string) => (await ask(one, 'GET', path)).body as ManagedSetting

describe('sources', () => {
  test.skipIf(!existsSync('/dev/full'))(
    'that are created while the key cannot be printed are an error that says so',
    async () => {
      const args = ['sources', 'create', 'full', ...where]
      expect(await run(args, { stdout: openSync('/dev/full', 'w') })).toMatchObject({
        code: 1,
        stderr:
          'Cannot write the output: ENOSPC: no space left on device. Apart from its output, the command succeeded.\n',
      })
      expect((await get('/sources/full')).settings).toEqual({ name: 'full' })
      await cli('sources', 'delete', 'full', '--yes')
    },
  )

  test('are created with a key that is printed once, changed, listed, rotated and deleted', async () => {
    const made = await cli('sources', 'create', 'shop', '--rate-limit', '100')
    const [, first = ''] =
      /^The source shop is created\.\nwriteKey: (\S{32})\nKeep what was generated: it will not be shown again\.\n$/.exec(
        made.stdout,
      ) ?? []
    expect((await post(one, [track('m')], first)).status).toBe(200)
    expect(await cli('sources', 'create', 'shop', '--rate-limit', '100')).toMatchObject({
      code: 0,
      stdout: 'The source shop has these settings already.\n',
    })
    expect(await cli('sources', 'create', 'shop')).toMatchObject({
      code: 1,
      stderr: endsWith('To change it, run: hookline-destination sources update shop\n'),
    })

    await cli('sources', 'update', 'shop', '--rate-limit', '5', '--actor', 'Zoë 李')
    expect((await get('/sources/shop')).settings['rateLimit']).toMatchObject({ callsPerSecond: 5 })
    expect((await ask(one, 'GET', '/audit?limit=1')).body.entries[0]).toMatchObject({
      by: 'Zoë 李',
    })
    expect((await cli('sources', 'list', '-q', 'SHO')).stdout).toBe(
      'NAME  KEPT IN  WRITE KEYS  RATE LIMIT\nshop  store    1           5 calls/s\n',
    )
    await cli('sources', 'update', 'shop', '--rate-limit', 'none')
    expect((await get('/sources/shop')).settings).toEqual({ name: 'shop' })

    expect(await cli('sources', 'revoke', 'shop', '--yes')).toMatchObject({
      code: 1,
      stderr: endsWith('To start one, run: hookline-destination sources rotate shop\n'),
    })
    const rotated = await cli('sources', 'rotate', 'shop')
    expect(rotated.stdout).toContain('run: hookline-destination sources revoke shop\n')
    expect(await cli('sources', 'rotate', 'shop')).toMatchObject({
      code: 1,
      stderr: endsWith('To end it, run: hookline-destination sources revoke shop\n'),
    })
    expect(await cli('sources', 'revoke', 'shop')).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'From then on, the old writeKey of shop is not valid.\nNothing was changed. Give --yes to revoke it.\n',
    })
    expect((await post(one, [track('m')], first)).status).toBe(200)
    expect(await cli('sources', 'revoke', 'shop', '--yes')).toMatchObject({ code: 0 })
    expect((await post(one, [track('m')], first)).status).toBe(401)

    expect(await cli('sources', 'delete', 'shop')).toMatchObject({ code: 2 })
    expect(await cli('sources', 'delete', 'web')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is in the settings file') as string,
    })
    expect(await cli('sources', 'delete', 'shop', '--yes')).toEqual({
      code: 0,
      stdout: 'The source shop is deleted.\n',
      stderr: '',
    })
    expect(await cli('sources', 'show', 'shop')).toMatchObject({ code: 1 })
  })

  test('are listed page by page', async () => {
    for (const name of ['p1', 'p2']) await cli('sources', 'create', name)
    const { stdout, stderr } = await cli('sources', 'list', '-q', 'p', '-n', '1')
    expect(stdout).toContain('p1')
    expect(stderr).toBe('2 match in all. Continue with --after p1.\n')
    expect((await cli('sources', 'list', '-q', 'p', '--after', 'p1')).stdout).toContain('p2')
    expect((await cli('sources', 'list', '-q', 'none')).stdout).toBe('No source matches.\n')
  })
})

describe('destinations', () => {
  test('without a secret get their only one by a rotation, which has no end', async () => {
    const made = ['destinations', 'create', 'bare', '-s', 'web', '-e', 'https://a.example/']
    expect(await cli(...made)).toMatchObject({ code: 0 })
    const rotate = ['destinations', 'rotate', 'bare', '--secret', 'webhookSecret']
    const [first, second] = [await cli(...rotate), await cli(...rotate)]
    const end = 'so this is the only one.\n'
    expect(first.stdout).toMatch(/\nwebhookSecret: whsec_/)
    expect(first.stdout.endsWith(`\nThere was no webhookSecret before, ${end}`)).toBe(true)
    expect(second.stdout).toContain('revoke bare --secret webhookSecret\n')
    expect((await cli(...rotate)).stderr).toMatch(/ revoke bare --secret webhookSecret\n$/)

    await ask(one, 'PATCH', '/destinations/bare', { sharedSecret: null })
    const shared = await cli('destinations', 'rotate', 'bare')
    expect(shared.stdout.endsWith(`\nThere was no sharedSecret before, ${end}`)).toBe(true)
    await cli('destinations', 'delete', 'bare', '--yes')
  })

  test('keep the headers of an endpoint that stays, and what waits until it is decided', async () => {
    const crm = await endpoint(503)
    const file = join(emptyFolder(), 'acme.yaml')
    writeFileSync(
      file,
      `sources: [web]\nwebhooks: [{ url: '${crm.url}/a?key=1', headers: { X-Team: growth } }]\n`,
    )
    const made = await json<SettingChanged>('destinations', 'create', 'acme', '--from', file)
    expect(made).toMatchObject({
      created: true,
      generated: { sharedSecret: expect.any(String) as string },
    })
    const urls = ['-e', `${crm.url}/a?key=1`, '--endpoint', `${crm.url}/b`, '--rate-limit', '2.5']
    expect(await cli('destinations', 'update', 'acme', ...urls)).toMatchObject({ code: 0 })
    await post(one, [track('m1')])
    await crm.has(2)
    const headers = crm.received.map(({ path, headers }) => [path, headers['x-team']])
    expect(headers.sort()).toEqual([
      ['/hook/a?key=1', 'growth'],
      ['/hook/b', undefined],
    ])
    const { webhooks } = (await get('/destinations/acme')).settings as { webhooks: object[] }
    expect(webhooks).toMatchObject([
      { headers: { 'X-Team': '•••' }, rateLimit: { requestsPerSecond: 2.5 } },
      { headers: {}, rateLimit: { requestsPerSecond: 2.5 } },
    ])
    await cli('destinations', 'disable', 'acme')
    const shown = await cli('destinations', 'show', 'acme')
    expect(shown.stdout).toMatch(
      /^# The destination acme is in the store, version \d+\. It has 1 sharedSecret and 0 webhookSecret\.\nname: acme\n/,
    )
    expect(shown.stdout).toContain('\nenabled: false\n')
    expect((await cli('destinations', 'enable', 'acme')).stdout).toBe(
      'The destination acme is enabled.\n',
    )
    expect(await cli('destinations', 'rotate', 'acme', '--secret', 'webhookSecret')).toMatchObject({
      stdout: expect.stringMatching(/webhookSecret: whsec_/) as string,
    })
    expect(await cli('destinations', 'delete', 'acme')).toMatchObject({
      code: 2,
      stderr:
        'Messages that wait for acme: 1.\nNothing was changed. Give --waiting keep or --waiting discard, and --yes.\n',
    })
    expect(await cli('destinations', 'delete', 'acme', '--yes')).toMatchObject({
      code: 1,
      stderr: endsWith('to delete it. Give --waiting keep or --waiting discard.\n'),
    })
    expect(
      (await cli('destinations', 'delete', 'acme', '--yes', '--waiting', 'discard')).stdout,
    ).toBe('The destination acme is deleted.\nMessages deleted with it: 1.\n')
  })

  test('keep the headers of endpoints whose URLs differ in their queries, and the limits of each', async () => {
    const crm = await endpoint(200)
    const [first, second] = [`${crm.url}?k=1`, `${crm.url}?k=2`]
    await ask(one, 'PUT', '/destinations/twins', {
      sources: ['web'],
      webhooks: [
        { url: first, headers: { 'X-Team': 'one' }, concurrency: 7 },
        { url: second, headers: { 'X-Team': 'two' }, concurrency: 9 },
      ],
    })
    const endpoints = async () =>
      ((await get('/destinations/twins')).settings as { webhooks: object[] }).webhooks
    const update = ['destinations', 'update', 'twins']
    expect(await cli(...update, '--rate-limit', '50')).toMatchObject({ code: 0 })
    await post(one, [track('m-twins')])
    await crm.has(2)
    const sent = crm.received.map(({ path, headers }) => [path, headers['x-team']])
    expect(sent.sort()).toEqual([
      ['/hook?k=1', 'one'],
      ['/hook?k=2', 'two'],
    ])
    const rateLimit = { requestsPerSecond: 50 }
    const limited = [
      { concurrency: 7, rateLimit },
      { concurrency: 9, rateLimit },
    ]
    expect(await endpoints()).toMatchObject(limited)

    expect(await cli(...update, '-e', second)).toEqual({
      code: 2,
      stdout: '',
      stderr: `--endpoint: several endpoints have the URL ${crm.url}, and their queries are hidden, so it is not clear which one stays. Give all endpoints with --from, each with its full URL. A header with the value ••• keeps its value.\n`,
    })
    expect(await endpoints()).toMatchObject(limited)
    const file = join(emptyFolder(), 'second.yaml')
    writeFileSync(file, `webhooks: [{ url: '${second}', headers: { X-Team: ••• } }]\n`)
    expect(await cli(...update, '--from', file)).toMatchObject({ code: 0 })
    await post(one, [track('m-second')])
    await crm.has(3)
    expect(crm.received[2]).toMatchObject({ path: '/hook?k=2', headers: { 'x-team': 'two' } })
    await cli('destinations', 'delete', 'twins', '--yes')
  })

  test('get the fields of --from, with what the options say of a part of them', async () => {
    const file = join(emptyFolder(), 'fields.yaml')
    const [old, kept, next] = ['old', 'kept', 'next'].map((name) => `https://${name}.example.com/`)
    await ask(one, 'PUT', '/destinations/both', {
      sources: ['web'],
      webhooks: [{ url: old }, { url: kept, concurrency: 6 }],
    })
    const update = async (...args: string[]) => {
      expect(await cli('destinations', 'update', 'both', ...args, '--from', file)).toMatchObject({
        code: 0,
      })
      return ((await get('/destinations/both')).settings as { webhooks: object[] }).webhooks
    }
    writeFileSync(
      file,
      `webhooks: [{ url: '${next}', headers: { X-Team: growth }, concurrency: 5 }]\n`,
    )
    const given = { url: next, headers: { 'X-Team': '•••' }, concurrency: 5 }
    expect(await update('-e', String(next), '-e', String(kept))).toMatchObject([
      given,
      { url: kept, concurrency: 6 },
    ])
    expect(await update('--rate-limit', '50')).toMatchObject([
      { ...given, rateLimit: { requestsPerSecond: 50 } },
    ])
    await cli('destinations', 'delete', 'both', '--yes')

    writeFileSync(file, 'rateLimit: { callsPerSecond: 1, burst: 50 }\n')
    await cli('sources', 'create', 'both')
    await cli('sources', 'update', 'both', '--rate-limit', '7', '--from', file)
    const rateLimit = { callsPerSecond: 7, burst: 50 }
    expect((await get('/sources/both')).settings).toMatchObject({ rateLimit })
    await cli('sources', 'delete', 'both', '--yes')
  })

  test('say every mistake, and what is missing', async () => {
    const wrong = await cli('destinations', 'create', 'x', '-s', 'none', '-e', 'x.example.com')
    expect(wrong).toMatchObject({ code: 2, stdout: '' })
    expect(wrong.stderr).toMatch(/have 2 mistakes\. webhooks\[0\]\.url: .*\n {2}sources\[0\]: /)
    expect(await cli('destinations', 'update', 'x', '--rate-limit', 'fast')).toMatchObject({
      code: 2,
    })
    expect(await cli('sources', 'create', 'y')).toMatchObject({ code: 0 })
    expect(await cli('sources', 'update', 'y')).toMatchObject({
      code: 2,
      stderr: 'Say what to change. See --help.\n',
    })
    const file = join(emptyFolder(), 'wrong.json')
    writeFileSync(file, '{ "writeKey": "${HOOKLINE_TEST_UNSET}" }')
    expect(await cli('sources', 'update', 'y', '--from', file)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /writeKey: the environment variable HOOKLINE_TEST_UNSET is not set/,
      ) as string,
    })
    writeFileSync(file, '{ "webhooks": ["https://a.example.com/"] }')
    const limited = ['destinations', 'create', 'x', '--rate-limit', '5', '--from', file]
    expect(await cli(...limited)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/webhooks\[0\]: expected an object/) as string,
    })
    writeFileSync(file, Buffer.from('{ "writeKey": "é" }', 'latin1'))
    expect(await cli('sources', 'update', 'y', '--from', file)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/wrong\.json: line 1, column 16: .* not UTF-8/) as string,
    })
  })
})

test('tenants own sources and destinations, and are deleted after them', async () => {
  expect(await cli('tenants', 'create', 'corp', '--title', 'Corp Ltd.')).toEqual({
    code: 0,
    stdout: 'The tenant corp is created.\n',
    stderr: '',
  })
  await cli('sources', 'create', 'corp-shop', '--tenant', 'corp')
  expect((await get('/sources/corp-shop')).settings).toMatchObject({ tenant: 'corp' })
  await cli('tenants', 'update', 'corp', '--title', 'Corp Inc.')
  expect((await cli('tenants', 'list')).stdout).toBe(
    'NAME  KEPT IN  TITLE\ncorp  store    Corp Inc.\n',
  )
  expect((await cli('tenants', 'show', 'corp')).stdout).toMatch(
    /^# The tenant corp is in the store, version \d+\.\nname: corp\n/,
  )
  expect(await cli('tenants', 'delete', 'corp', '--yes')).toMatchObject({ code: 1 })
  await cli('sources', 'delete', 'corp-shop', '--yes')
  expect(await cli('tenants', 'delete', 'corp', '--yes')).toMatchObject({ code: 0 })
  expect(await cli('tenants', 'rotate', 'corp')).toMatchObject({ code: 2 })
})

test('a secret comes from the environment or the standard input, and no argument of a process has it', async () => {
  const secret = 'a-secret-of-the-environment'
  const env = { HOOKLINE_ADMIN_TOKEN: ADMIN_TOKEN, SHOP_KEY: secret }
  const creating = startProcess(
    ['sources', 'create', 'env', '--url', one.adminUrl, '--from', '-'],
    {
      env,
      input: '',
    },
  )
  // It waits for the end of its standard input.
  const args = execFileSync('ps', ['-o', 'args=', '-p', String(creating.pid)], { encoding: 'utf8' })
  expect(args).toContain('sources create env')
  expect(args).not.toContain(secret)
  creating.end('{ "writeKey": "${SHOP_KEY}" }')
  expect(await creating.ended).toMatchObject({ code: 0, stdout: 'The source env is created.\n' })
  expect((await post(one, [track('m')], secret)).status).toBe(200)
  for (const name of ['sources', 'destinations']) {
    for (const verb of ['create', 'update']) {
      const { stdout } = await runInside([name, verb, '--help'])
      expect(stdout).not.toMatch(/--(write-key|shared-secret|webhook-secret)/)
    }
  }
})

// The program `script` of util-linux gives a process a terminal.
const hasTerminal = spawnSync('script', ['--version']).status === 0

test.runIf(hasTerminal)(
  'on a terminal, a deletion asks what becomes of messages, and for the name',
  async () => {
    const crm = await endpoint(503)
    const put = () =>
      ask(one, 'PUT', '/destinations/asked', { sources: ['web'], webhooks: [{ url: crm.url }] })
    const remove = async (...typed: string[]) => {
      const args = ['destinations', 'delete', 'asked', '--url', one.adminUrl]
      const running = startOnTerminal(args, { HOOKLINE_ADMIN_TOKEN: ADMIN_TOKEN })
      for (const text of typed) {
        await running.printed(/: $/)
        running.type(text)
      }
      return running.ended
    }
    await put()
    for (const [key, character] of [
      ['C', '\u0003'],
      ['D', '\u0004'],
    ] as const) {
      const ended = await remove(character)
      expect(ended, `Ctrl-${key}`).toMatch(/Type asked to delete it: \s*Nothing was changed\.\s*$/)
    }
    expect(await remove('wrong')).toMatch(/asked will get no more calls\..*Nothing was changed\./s)
    await post(one, [track('m-asked')])
    await crm.has(1)
    expect(await remove('discard', 'asked')).toMatch(
      /Messages that wait for asked: 1\..*Messages that will be deleted with it: 1\..*The destination asked is deleted\.\s+Messages deleted with it: 1\./s,
    )
    expect((await ask(one, 'GET', '/destinations/asked')).status).toBe(404)
  },
)

test.runIf(hasTerminal)(
  'what somebody else changes while a command asks is not overwritten, and the error says what to run',
  async () => {
    const file = join(emptyFolder(), 'late.json')
    writeFileSync(file, '{ "sources": [{ "name": "late", "rateLimit": { "callsPerSecond": 7 } }] }')
    for (const [command, typed, next] of [
      [['sources', 'delete', 'late'], 'late', 'run: hookline-destination sources show late'],
      [['settings', 'apply', file], 'yes', 'Run the command again: it shows'],
    ] as const) {
      await ask(one, 'PUT', '/sources/late', {})
      const running = startOnTerminal([...command, ...where], {})
      await running.printed(/: $/)
      await ask(one, 'PATCH', '/sources/late', { rateLimit: { callsPerSecond: 5 } })
      running.type(typed)
      expect(await running.ended).toContain(next)
      expect((await get('/sources/late')).settings['rateLimit']).toMatchObject({
        callsPerSecond: 5,
      })
      await ask(one, 'DELETE', '/sources/late')
    }
  },
)

test.each([
  ['a name without an extension', 'fields', 'title: Ten Ltd'],
  ['another extension', 'fields.conf', '# The owner.\ntitle: "Ten Ltd"'],
  ['YAML with braces', 'fields', '{ title: Ten Ltd }'],
  ['JSON', 'fields', '{ "title": "Ten Ltd" }'],
  ['the extension .json', 'fields.JSON', '{ "title": "Ten Ltd" }'],
])('fields are read as YAML or JSON from a file with %s', async (_what, name, text) => {
  const file = join(emptyFolder(), name)
  writeFileSync(file, text)
  expect(await readObject(file)).toEqual({ title: 'Ten Ltd' })
})

test('fields of the standard input may be YAML with braces', async () => {
  const args = ['tenants', 'create', 'ten', '--url', one.adminUrl, '--from', '-']
  const creating = startProcess(args, { env: { HOOKLINE_ADMIN_TOKEN: ADMIN_TOKEN }, input: '' })
  creating.end('{ title: Ten Ltd }')
  expect(await creating.ended).toMatchObject({ code: 0, stdout: 'The tenant ten is created.\n' })
  expect((await get('/tenants/ten')).settings).toMatchObject({ title: 'Ten Ltd' })
})

// fast-check prints the seed and the path of a failure: give them to `fc.assert` to see it again.
test('settings that are printed are read back as they were', async () => {
  const file = join(emptyFolder(), 'settings.yaml')
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('$', '{', '}', 'A', '•', '\n', ':', '#') }),
  )
  const settings = fc.dictionary(
    text,
    fc.oneof(
      text,
      fc.array(text),
      fc.dictionary(text, fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null))),
    ),
  )
  await fc.assert(
    fc.asyncProperty(settings, fc.constantFrom(true, undefined), async (given, json) => {
      writeFileSync(file, `${await textOf(given, json)}\n`)
      expect(await readObject(file)).toEqual(given)
    }),
  )
})

describe('settings', () => {
  test('are exported, shown before they change, changed together, and then the same', async () => {
    const folder = emptyFolder()
    const own = await start(settingsFor([], { settingsKeys: [SETTINGS_KEY] }))
    const env = { HOOKLINE_ADMIN_TOKEN: ADMIN_TOKEN, TOKEN: 'hidden-token' }
    const at = (...args: string[]) =>
      run(['settings', ...args, '--url', own.adminUrl], { folder, env })
    const file = join(folder, 'settings.yaml')
    const text = `
sources:
  - name: shop
  - { name: old, writeKey: old-key }
destinations:
  - name: acme
    sources: [shop]
    filters: [{ where: { properties.plan: 'a $\${literal} text' } }]
    webhooks: [{ url: 'https://acme.example.com/hook?key=1', headers: { X-Token: '\${TOKEN}' } }]
`
    writeFileSync(file, text)
    const planned = await at('apply', 'settings.yaml', '--dry-run')
    expect(planned).toMatchObject({ code: 0, stderr: '' })
    expect(planned.stdout.split('\n').slice(0, 3)).toEqual([
      '+ source shop',
      '    + name: "shop"',
      '    + writeKey[0]: "•••"',
    ])
    expect(planned.stdout).toMatch(/\nTo create: 3, to change: 0, to delete: 0, unchanged: 0\.\n$/)
    expect(await at('apply', 'settings.yaml')).toMatchObject({
      code: 2,
      stderr: 'Changes to make: 3.\nNothing was changed. Give --yes to make them.\n',
    })
    expect((await ask(own, 'GET', '/settings')).text).not.toContain('shop')
    const applied = await at('apply', 'settings.yaml', '--yes')
    expect(applied.stdout).toMatch(
      /\nChanges made: 3\.\nsource shop {2}writeKey: \S{32}\ndestination acme {2}sharedSecret: \w{64}\nKeep what was generated: it will not be shown again\.\n$/,
    )
    const exported = await at('export')
    expect(exported.stdout).toContain('X-Token: •••')
    expect(exported.stdout).toContain('$${literal}')
    for (const hidden of ['hidden-token', 'old-key', 'key=1']) {
      expect(exported.stdout + planned.stdout).not.toContain(hidden)
    }
    writeFileSync(file, exported.stdout)
    expect((await at('apply', 'settings.yaml', '--prune')).stdout).toBe(
      'To create: 0, to change: 0, to delete: 0, unchanged: 3.\n',
    )
    const asJson = await at('export', '--json')
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      sources: [{ name: 'old' }, { name: 'shop' }],
    })

    const changed = readFileSync(file, 'utf8')
      .replace(/ {2}- name: old\n {4}writeKey: •••\n/, '')
      .replace('enabled: true', 'enabled: false')
    writeFileSync(file, changed)
    const pruned = await at('apply', 'settings.yaml', '--prune', '--yes')
    expect(pruned.stdout).toBe(
      [
        '- source old',
        '~ destination acme',
        '    ~ enabled: true → false',
        'To create: 0, to change: 1, to delete: 1, unchanged: 1.',
        'Changes made: 2.\n',
      ].join('\n'),
    )
    writeFileSync(file, 'sources: [{ name: shop, limit: 1 }]\ndestination: []\n')
    const wrong = await at('apply', 'settings.yaml', '--json')
    expect(wrong.code).toBe(2)
    const { error } = JSON.parse(wrong.stdout) as { error: { code: string; message: string } }
    expect(error.code).toBe('invalid_settings')
    expect(error.message).toMatch(
      /destination: there is no such field.*\n {2}sources\[0\]\.limit: there is no such field/,
    )
  })

  test('that would delete a destination with messages need a choice', async () => {
    const crm = await endpoint(503)
    await ask(one, 'PUT', '/destinations/slow', { sources: ['web'], webhooks: [{ url: crm.url }] })
    await post(one, [track('m7')])
    await crm.has(1)
    const file = join(emptyFolder(), 'none.json')
    writeFileSync(file, '{ "destinations": [] }')
    const refused = await cli('settings', 'apply', file, '--prune', '--yes')
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Give --waiting keep or') as string,
    })
    expect(refused.stdout).toContain('- destination slow, and messages that wait for it: 1\n')
    const how = ['--prune', '--yes', '--waiting', 'discard']
    const done = await json<SettingsApplied>('settings', 'apply', file, ...how)
    expect(done).toMatchObject({ dryRun: false, discarded: 1, changes: [{ name: 'slow' }] })
  })
})
