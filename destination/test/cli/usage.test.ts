import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { version } from '../../src/version.js'
import { runInside } from './inside.js'
import { folderWith, run } from './process.js'

const COMMANDS = [
  'serve',
  'listen',
  'send',
  'status',
  'list',
  'tail',
  'trace',
  'replay',
  'pause',
  'resume',
  'test',
  'doctor',
  'sign',
  'verify',
  'store',
  'schedule',
  'completion',
]

describe('the command line', () => {
  test('without arguments prints its commands and exit codes, and is wrong', async () => {
    const { code, stdout, stderr } = await runInside([])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const command of COMMANDS) expect(stderr).toContain(command)
    expect(stderr).toMatch(/Exit codes:\n {2}0 {2}done\n {2}1 {2}failed\n {2}2 /)
  })

  test.each(COMMANDS)('%s --help has examples of it', async (command) => {
    const { code, stdout, stderr } = await runInside([command, '--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain(`\nExamples:\n  $ hookline-destination ${command}`)
  })

  // The routes that they use take both roles: see operate/roles.ts.
  test.each([['pause'], ['resume'], ['replay'], ['test'], ['send', 'That']])(
    '%s --help says that the operator token is enough',
    async (command, what = 'The command') => {
      const { stdout } = await runInside([command, '--help'])
      expect(stdout.replaceAll('\n', ' ')).toContain(
        `${what} needs the admin or the operator token`,
      )
    },
  )

  test.each([
    ['--since', '<when>', ['list', '--since', '2h', '--since=1h']],
    ['-n, --limit', '<number>', ['list', '-n', '5', '--limit', '5']],
    ['--keep', '<which>', ['sources', 'revoke', 'a', '--keep', 'new', '--keep', 'old']],
  ])('%s refuses a second value', async (name, value, args) => {
    expect(await runInside(args)).toEqual({
      code: 2,
      stdout: '',
      stderr: `error: option '${name} ${value}' is given twice. Give it once.\n(see --help)\n`,
    })
  })

  test('migrate refuses two spellings of one SQLite file, and creates nothing', async () => {
    const args = ['migrate', '--from', 'sqlite:./x.db', '--to', 'sqlite:x.db']
    expect(await run(args)).toEqual({
      code: 2,
      stdout: '',
      stderr: '--from and --to name the same store. Give two different stores.\n',
    })
  })

  test.skipIf(process.platform !== 'linux')(
    'migrate says which store can not be used, and ends',
    { tags: 'long' },
    async () => {
      const folder = folderWith({})
      writeFileSync(join(folder, 'a.json'), '{}')
      const args = ['migrate', '--from', 'sqlite:./none.db', '--to', 'sqlite:./b.db']
      for (const from of ['sqlite:./a.json', 'sqlite:/proc/none/x.db']) {
        const { code, stderr } = await run(args.with(2, from), { folder })
        expect(code).toBe(2)
        expect(stderr).toMatch(/^--from: /)
      }
      const store = ['serve', '--config', 'serve.json']
      const settings = {
        store: 'sqlite:/proc/none/x.db',
        sources: [{ name: 'web', writeKey: 'key' }],
        destinations: [
          { name: 'crm', sources: ['web'], webhooks: [{ url: 'https://a.example.com/' }] },
        ],
      }
      writeFileSync(join(folder, 'serve.json'), JSON.stringify(settings))
      const served = await run(store, { folder })
      expect(served.code).not.toBe(0)
      expect(served.stderr + served.stdout).toContain('/proc/none')
    },
  )

  test('that is shipped prints the version', async () => {
    const ended = await run(['--version'])
    expect(ended).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  test.each([
    [['serv'], "error: unknown command 'serv'\n(Did you mean serve?)\n"],
    [['serve', '--confg', 'x'], "error: unknown option '--confg'\n(Did you mean --config?)\n"],
    [['send', 'trak'], "error: command-argument value 'trak' is invalid for argument 'type'."],
    [
      ['send', 'track', '--properties', '{total'],
      "argument '{total' is invalid. This is not valid JSON. Expected an object",
    ],
    [
      ['send', 'track', '--traits', '[]'],
      "argument '[]' is invalid. Expected a JSON object, such as '{\"a\": 1}'.",
    ],
    [['listen', '--port', '65536'], 'Expected a whole number from 0 to 65535.'],
    [
      ['listen', '--status', '500,20'],
      'Expected statuses from 200 to 599, separated by commas, such as 500,500,200.',
    ],
    [['trace', 'm', '--url', 'localhost:3300'], '--url must be a full URL'],
    ...['http://ops:hunter2@127.0.0.1:1', 'https://ops@127.0.0.1:1'].map(
      (url): [string[], string] => [
        ['status', '--url', url],
        '--url must not have a user or a password, because fetch refuses them.',
      ],
    ),
    [['status', '--url', 'ops:hunter2@a.example.com'], 'such as http://127.0.0.1:3300.\n'],
    ...['tok€n', 'first-line\nsecond-line', 'two words'].map((token): [string[], string] => [
      ['status', '--url', 'http://127.0.0.1:1', '--token', token],
      '--token must be ASCII characters without spaces and line breaks, as every adminToken and operatorToken is.\n',
    ]),
    [['trace', 'm'], 'The URL of the destination is not known. Give --url'],
    [['tail', '--event', 'E', '--failed'], 'attempts have no event and no user'],
    [['tail', '--only', 'attempts', '--type', 'track'], '--type, --event and --user choose calls'],
    [['tail', '--only', 'calls', '--failed'], '--destination and --failed choose attempts'],
    [['tail', '--type', 'delete'], 'Allowed choices are identify, track,'],
    [['list', '--state', 'lost'], 'Allowed choices are fresh, backlog'],
    [['listen', '--forward-to', 'localhost'], 'Expected a full URL, such as'],
    [['sign', 'none.json'], 'There is no secret. Give --secret'],
    [['sign', 'none.json', '--secret', 's'], 'Cannot read none.json: '],
    ...[
      [['sign', 'none.json', '--secret', ''], '-s, --secret <secret>'],
      [['verify', '--signature', 'ab', '--secret', ''], '-s, --secret <secret>'],
      [['send', 'track', '-u', 'u', '-e', 'e', '--key='], '-k, --key <key>'],
      [['import', 'none.ndjson', '--name', ''], '--name <name>'],
      [['sources', 'create', 'a', '--actor', ''], '--actor <who>'],
      [['destinations', 'update', 'a', '--endpoint', ''], '-e, --endpoint <url>'],
      [['list', '--destination', ''], '--destination <name>'],
    ].map(([args, option]): [string[], string] => [
      args as string[],
      `error: option '${String(option)}' is empty. Give it a value, or leave it out.\n`,
    ]),
    [['migrate', '--from', '', '--to', ''], "option '--from <url>' is empty. Give it a value.\n"],
    ...[
      ['sources', 'show', ''],
      ['destinations', 'delete', '', '--yes'],
      ['tenants', 'create', ''],
    ].map((args): [string[], string] => [
      args,
      "error: argument 'name' is empty. Give it a value.\n",
    ]),
    [['pause', '', '-r', 'why'], "error: argument 'destination' is empty."],
    [['trace', ''], "error: argument 'messageId' is empty."],
    ...[
      ['source', 'sources', 'show'],
      ['source', 'sources', 'revoke', '--yes'],
      ['destination', 'destinations', 'delete', '--yes'],
      ['tenant', 'tenants', 'update', '--title', 'T'],
      ['destination', 'pause', '-r', 'why'],
      ['destination', 'resume'],
      ['destination', 'test'],
    ].flatMap(([kind, ...args]) =>
      ['.', '..', 'a b/c', 'a?b'].map((name): [string[], string] => [
        [...args, '--url', 'http://127.0.0.1:1', '--', name],
        `${kind}: expected a name of 1 to 64 letters, digits, "-" and "_", got "${name}".\n`,
      ]),
    ),
    [['verify'], "error: required option '--signature <hex>' not specified"],
    [['completion', 'tcsh'], 'Allowed choices are bash, zsh, fish.'],
    [['replay', 'm1'], 'Expected the id of a delivery'],
    [['replay'], 'Say what to replay: ids, --message, a filter'],
    [['replay', '--all', '--destination', 'crm'], 'Give only one of these'],
    [
      ['replay', '--all', '--force', '--url', 'http://127.0.0.1:1'],
      '--force goes only with ids or --message',
    ],
    [
      ['replay', '--destination', 'crm', '--force', '--dry-run', '--url', 'http://127.0.0.1:1'],
      '--force goes only with ids or --message',
    ],
    [['replay', '--since', 'noon'], 'or how long ago, such as 30m, 2h or 1d.'],
    ...['list', 'replay'].flatMap((command): [string[], string][] => {
      const where = ['--url', 'http://127.0.0.1:1']
      const [from, to] = ['2026-11-21T15:00:00.000Z', '2026-11-21T14:00:00.000Z']
      return [
        [
          [command, '--since', '2026-11-21T15:00Z', '--until', '2026-11-21T14:00Z', ...where],
          `--since must be earlier than --until, got --since ${from} and --until ${to}.`,
        ],
        [
          [command, '--since', '2h', '--until', '2h', ...where],
          '--since must be earlier than --until, got',
        ],
        [
          [command, '--code', 'bogus', ...where],
          'Allowed choices are delivered, server_error, throttled, request_timeout, client_error, redirect, timeout,',
        ],
      ]
    }),
    [['doctor', 'a.example.com/hook'], 'Expected a full URL with http or https'],
    [['doctor', 'https://u:p@a.example.com/hook'], 'without a user, a fragment (#…)'],
    [['doctor', 'https://a.example.com/ho\tok'], 'a control character'],
    [['doctor', 'https://a.example.com:0/hook'], 'with a port from 1'],
    [
      ['schedule', '--from', 'noon'],
      'Expected a date and time in ISO 8601 that exist, such as 2026-11-21T14:00:00Z.',
    ],
    ...[
      '2026-02-30T00:00:00Z',
      '2026-06-31T24:00:00Z',
      '2026-11-25 (x)',
      '2026-11-25T25:00Z',
    ].flatMap((when): [string[], string][] => [
      [['list', '--since', when], 'Expected a time that exists'],
      [['replay', '--until', when, '--confirm', '1'], 'Expected a time that exists'],
      [['schedule', '--from', when], 'that exist, such as'],
    ]),
  ])('refuses %j with 2', async (args, message) => {
    const { code, stdout, stderr } = await runInside(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr).not.toMatch(/hunter2|tok€n|second-line|two words/)
  })

  test('takes a token in HOOKLINE_ADMIN_TOKEN that ends with a line break', async () => {
    const env = { HOOKLINE_ADMIN_TOKEN: 'from-a-file\n' }
    const { stderr } = await run(['status', '--url', 'http://127.0.0.1:1'], { env })
    expect(stderr).toContain('The port of http://127.0.0.1:1 cannot be used')
    expect(stderr).not.toContain('HOOKLINE_ADMIN_TOKEN')
  })

  test('refuses a token in HOOKLINE_ADMIN_TOKEN that no destination has, and does not show it', async () => {
    const env = { HOOKLINE_ADMIN_TOKEN: 'first-line\nsecond-line' }
    expect(await run(['status', '--url', 'http://127.0.0.1:1'], { env })).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'HOOKLINE_ADMIN_TOKEN must be ASCII characters without spaces and line breaks, as every adminToken and operatorToken is.\n',
    })
  })
})

describe('with --json, wrong arguments are an error in JSON', () => {
  test.each([
    [['list', '--state', 'nope'], /^option '--state <state>' argument 'nope' is invalid\. Allowed/],
    [['send', 'bogus'], /^command-argument value 'bogus' is invalid for argument 'type'\./],
    [['pause', 'local'], /^required option /],
    [
      ['schedule', '--from', 'x'],
      /^option '--from <.+>' argument 'x' is invalid\. Expected a date/,
    ],
    [['trace'], /^missing required argument 'messageId'/],
    [['listen', '--port', '99999'], /^option .+ Expected a whole number from 0 to 65535\./],
    [['list', '--stat'], /^unknown option '--stat'\n\(Did you mean --state\?\)\n\(see --help\)$/],
    [['serv'], /^unknown command 'serv'/],
    [['list', '--json', '--state', 'nope'], /^option '--state <state>' argument 'nope'/],
    [['sources'], /^unknown option '--json'/],
    [['sources', 'create'], /^missing required argument/],
  ])('%j', async (args, message) => {
    const { code, stdout, stderr } = await runInside(args.concat('--json'))
    expect({ code, stderr }).toEqual({ code: 2, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({
      error: { code: 'usage', message: expect.stringMatching(message) as string },
    })
  })

  test('but not after --', async () => {
    const { code, stdout } = await runInside(['send', 'bogus', '--', '--json'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })
})

test('an error that nobody expected keeps its stack, and is 1', async () => {
  const { code, stderr } = await runInside(
    ['fall'],
    [
      (program) => {
        program.command('fall').action(() => {
          throw new TypeError('of a bug')
        })
      },
    ],
  )
  expect(code).toBe(1)
  expect(stderr).toMatch(/^TypeError: of a bug\n +at /)
})
