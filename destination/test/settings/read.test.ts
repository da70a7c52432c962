import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeSettings } from '../../src/settings/describe.js'
import { exampleSettings } from '../../src/settings/example.js'
import { findSettings } from '../../src/settings/file.js'
import { readSettingsAside } from '../../src/settings/read-aside.js'
import { readSettings } from '../../src/settings/read.js'
import { SettingsError } from '../../src/settings/settings-error.js'
import { parseJson } from '../../src/settings/syntax.js'

const folder = () => mkdtempSync(join(tmpdir(), 'hookline-settings-'))

function write(text: string | Buffer, name = 'hookline.config.json'): string {
  const file = join(folder(), name)
  writeFileSync(file, text)
  return file
}

function refusal(act: () => unknown): SettingsError {
  try {
    act()
  } catch (error) {
    if (error instanceof SettingsError) return error
    throw error
  }
  throw new Error('it was not refused')
}

const YAML = `
# What a JSON file can't have: a comment.
sources:
  - { name: web, writeKey: "\${WEB_KEY}" }
destinations:
  - name: crm
    sources: [web]
    webhooks:
      - url: https://a.example.com/hook
        headers: { X-Team: growth }
`

test.each(['settings.yaml', 'settings.yml', 'SETTINGS.YML'])('YAML is read from %s', (name) => {
  const { sources, destinations } = readSettings(write(YAML, name), { WEB_KEY: 'wk1' })
  expect(sources).toEqual([{ name: 'web', writeKey: 'wk1' }])
  expect(destinations[0]?.webhooks[0]?.headers).toEqual({ 'X-Team': 'growth' })
})

test('JSON is read, with a byte order mark too', () => {
  const file = write(`\uFEFF${exampleSettings('wk1', 'hush', 'hush-admin-0123456')}`)
  expect(readSettings(file, {}).sources).toEqual([{ name: 'web', writeKey: 'wk1' }])
})

test(
  'a thread of its own reads the same, and makes the same error of mistakes',
  { tags: 'long' },
  async () => {
    const right = write(exampleSettings('wk1', 'hush', 'hush-admin-0123456'))
    expect(await readSettingsAside(right)).toEqual(readSettings(right, process.env))
    for (const wrong of [write('{ "listen": "x" }'), write('{'), join(folder(), 'nowhere.json')]) {
      const error = refusal(() => readSettings(wrong, process.env))
      await expect(readSettingsAside(wrong)).rejects.toThrow(SettingsError)
      const { code, file, problems, message } = error
      await expect(readSettingsAside(wrong)).rejects.toMatchObject({
        code,
        file,
        problems,
        message,
      })
    }
  },
)

test('every mistake is in the message, each on its own line with its path', () => {
  const file = write(
    '{ "listen": "x", "sources": [{ "name": "web", "writeKey": "hush:hush" }], "destination": [] }',
  )
  const error = refusal(() => readSettings(file, {}))
  expect(error.code).toBe('settings_invalid')
  expect(error.message.split('\n')).toEqual([
    `${file} has 4 problems:`,
    expect.stringMatching(/^ {2}listen: expected a host and a port/),
    '  sources[0].writeKey: expected a key without a colon, got a string of 9 characters. Clients send the key as the user name of HTTP Basic authentication, which ends at the first colon.',
    '  destinations: expected a list of destinations, got nothing.',
    '  destination: there is no such field. Did you mean destinations?',
  ])
  expect(error.problems).toHaveLength(4)
})

const DOUBLE = 'a name in double quotes'
const UNENDED = '. The string does not end on its line, or it contains an invalid escape (\\).'

/** Invalid JSON texts, the line and column of the fault, and its message. */
const faults: [text: string, place: string, message: string][] = [
  ['', '1:1', 'expected a value, got the end of the file.'],
  ['{"a": 1,\n}', '2:1', `expected ${DOUBLE}, got }. Remove the comma before it.`],
  ['{"a": [1, 2,]}', '1:13', 'expected a value, got ]. Remove the comma before it.'],
  ['{\n  "a": 1\n  "b": 2\n}', '3:3', 'expected a comma or }, got ".'],
  ['["a" "b"]', '1:6', 'expected a comma or ], got ".'],
  ['{"a" 1}', '1:6', 'expected a colon, got 1.'],
  ["{'a': 1}", '1:2', `expected ${DOUBLE} or }, got '. Write strings in double quotes.`],
  ['{a: 1}', '1:2', `expected ${DOUBLE} or }, got a.`],
  [
    '// no\n{}',
    '1:1',
    'expected a value, got /. JSON does not allow comments. A YAML file (*.yaml) does.',
  ],
  ['{"a": hush}', '1:7', 'expected a value, got h.'],
  ['{"a": truest}', '1:7', 'expected a value, got t.'],
  ['{"a": 01}', '1:7', 'expected a value, got 0.'],
  ['{"a": "hush\n"}', '1:7', `expected a value, got "${UNENDED}`],
  ['{"a": "hu\\sh"}', '1:7', `expected a value, got "${UNENDED}`],
  ['{"a": [1, 2', '1:12', 'expected a comma or ], got the end of the file.'],
  ['{"a": 1} {', '1:10', 'expected the end of the file, got {.'],
  ['{"a": [}', '1:8', 'expected a value or ], got }.'],
  [
    '{"a": 1,\n "a": 2}',
    '2:2',
    'this field occurs twice in the same object. Remove one of the two.',
  ],
]

test.each(faults)('the fault of %j is found at %s', (text, place, message) => {
  const { code, problems } = refusal(() => readSettings(write(text), {}))
  const [line, column] = place.split(':')
  expect(code).toBe('settings_syntax')
  expect(problems).toEqual([{ path: `line ${line}, column ${column}`, message }])
})

test.each([
  ['hookline.config.json', '{\n  "store": "ïé"', 'line 2, column 13'],
  ['hookline.config.yaml', '# caf\uFFFD: hush\nstore: sqlite:caïn', 'line 2, column 17'],
  ['hookline.config.json', '\uFEFF{ "store": "é', 'line 1, column 13'],
])('%s is refused if it is not UTF-8, with the place: %j', (name, text, place) => {
  // What comes before the last letters but one is in UTF-8, and the rest in Latin-1.
  const at = text.search(/[éï]/)
  const bytes = Buffer.concat([
    Buffer.from(text.slice(0, at)),
    Buffer.from(text.slice(at), 'latin1'),
  ])
  const { code, problems } = refusal(() => readSettings(write(bytes, name), {}))
  expect(code).toBe('settings_syntax')
  expect(problems).toEqual([
    { path: place, message: 'there is a byte that is not UTF-8. Save the file as UTF-8.' },
  ])
})

test('an environment variable that is not UTF-8 is refused', () => {
  const problems = (WEB_KEY: string) => {
    const file = write(YAML, 'settings.yaml')
    return refusal(() => readSettings(file, { WEB_KEY })).problems
  }
  // Node replaces the bytes itself.
  const printed = execFileSync(
    'sh',
    ['-c', 'WEB_KEY=$(printf "ca\\351f") exec "$0" -p process.env.WEB_KEY', process.execPath],
    { encoding: 'utf8' },
  )
  expect(problems(printed.trim())).toEqual([
    {
      path: 'sources[0].writeKey',
      message: 'the environment variable WEB_KEY has a byte that is not UTF-8. Set it in UTF-8.',
    },
  ])
})

test('a second YAML document is refused at its start', () => {
  const { problems } = refusal(() => readSettings(write(`${YAML}---\nlisten: 4\n`, 'a.yaml'), {}))
  expect(problems).toEqual([
    {
      path: 'line 11, column 1',
      message: 'a second document begins here (---). Remove it: only one is read.',
    },
  ])
})

test.each([`${YAML}---\n`, `${YAML}---\n# the end\n---\n`, `---\n---\n${YAML}`])(
  'a YAML document without content is no second one: %j',
  (text) => {
    const env = { WEB_KEY: 'key' }
    const expected = readSettings(write(YAML, 'a.yaml'), env)
    expect(readSettings(write(text, 'a.yaml'), env)).toEqual(expected)
  },
)

test.each(['a.yaml', 'a.json'])('%s in UTF-16 without its mark is named', (name) => {
  const bytes = Buffer.from('{}\n', 'utf16le')
  const { code, problems } = refusal(() => readSettings(write(bytes, name), {}))
  expect(code).toBe('settings_syntax')
  expect(problems).toEqual([
    {
      path: 'line 1, column 2',
      message: 'there is a byte 0, as in UTF-16. Save the file as UTF-8.',
    },
  ])
})

test('a field occurs twice only if one object has the same name twice', () => {
  const twice = (text: string) => {
    const parsed = parseJson(text)
    return 'faults' in parsed ? parsed.faults.map(({ line, column }) => `${line}:${column}`) : []
  }
  expect(twice('{"a":{"a":[{"a":1},{"a":"b"}]},"b":"a","c":["a","a",{"}":"{"}]}')).toEqual([])
  expect(twice('{"{":1,"[":[],"\\"":2,",":"\\\\","__proto__":3}')).toEqual([])
  expect(twice('{"a":1,"b":{"x":[{"y":0,"y":0}]},\n"\\u0061":[{}],"b":{}}')).toEqual([
    '1:25',
    '2:1',
    '2:15',
  ])
})

test.each([
  ['a: [1', 'line 1, column 6'],
  ['a: 1\na: 2', 'line 2, column 1'],
  ['a: "hush" hush', 'line 1, column 11'],
  ['a:\n\tb: 1', 'line 2, column 1'],
  ['a: *hush', 'line 1, column 4'],
  ['sources: &hush [*hush]', 'line 1, column 17'],
  ['a: &hush\n  b: *hush', 'line 2, column 6'],
  ['a: &hush\n  <<: *hush', 'line 2, column 7'],
  ['a: &hush [1, &b [2, *hush]]', 'line 1, column 21'],
  ['a: !hush', 'line 1, column 4'],
  ['a:\n  - !secret hush', 'line 2, column 5'],
  ['a: !<tag:example.com,2026:hush> 1', 'line 1, column 4'],
  ['a: !!int hush', 'line 1, column 4'],
])('the fault of the YAML %j is found, and nothing of the file repeated', (text, path) => {
  const error = refusal(() => readSettings(write(text, 'a.yaml'), {}))
  expect(error.code).toBe('settings_syntax')
  expect(error.problems.map((problem) => problem.path)).toEqual([path])
  expect(error.message).not.toContain('hush')
})

test('a tag in YAML is refused, because the name of the variable behind it would become the secret', () => {
  const text = YAML.replace('"${WEB_KEY}"', '!env WEB_KEY')
  const { problems } = refusal(() => readSettings(write(text, 'a.yaml'), { WEB_KEY: 'wk1' }))
  expect(problems).toEqual([
    {
      path: 'line 4, column 28',
      message:
        'the tag (!name) of this value cannot be used. Remove it. Write ${NAME} for an environment variable, and put a text that begins with ! in quotes.',
    },
  ])
  const known = YAML.replace('"${WEB_KEY}"', '!!str 12345')
  expect(readSettings(write(known, 'a.yaml'), {}).sources).toMatchObject([{ writeKey: '12345' }])
})

test('an alias in YAML may refer to any value that has ended', () => {
  const text = `x-team: &team { X-Team: growth }\n${YAML.replace('{ X-Team: growth }', '&team [*team]')}`
  const { problems } = refusal(() => readSettings(write(text, 'a.yaml'), {}))
  expect(problems.map(({ path }) => path)).toEqual(['line 11, column 25'])
  const ok = text.replace('&team [*team]', '*team').replace('x-team: &team', 'x: &team')
  const read = refusal(() => readSettings(write(ok, 'a.yaml'), { WEB_KEY: 'wk1' }))
  expect(read.problems.map(({ path }) => path)).toEqual(['x'])
})

test('a file that is not there is named, with its folder', () => {
  const file = join(folder(), 'mine.json')
  const { code, message } = refusal(() => readSettings(file, {}))
  expect(code).toBe('settings_not_found')
  expect(message).toBe(`${file}: there is no file mine.json in ${join(file, '..')}.`)
})

test('a file that is a folder can’t be read', () => {
  expect(refusal(() => readSettings(folder(), {})).code).toBe('settings_unreadable')
})

test('the settings of a folder are found, JSON before YAML', () => {
  const file = write('{}', 'hookline.config.yml')
  const found = join(file, '..')
  expect(findSettings(found)).toBe(file)
  writeFileSync(join(found, 'hookline.config.json'), '{}')
  expect(findSettings(found)).toBe(join(found, 'hookline.config.json'))
})

test('a folder without settings is told, with the names that were looked for', () => {
  const empty = folder()
  const { code, message } = refusal(() => findSettings(empty))
  expect(code).toBe('settings_not_found')
  expect(message).toBe(
    `${empty}: there is no hookline.config.json, hookline.config.yaml or hookline.config.yml.`,
  )
})

test('the description of settings has no secret in it', () => {
  const secrets = ['hush-key', 'hush-shared', 'hush-admin-0123456', 'hush-header', 'hush-password']
  const [writeKey, sharedSecret, adminToken, header, password] = secrets
  const file = write(
    JSON.stringify({
      sources: [{ name: 'web', writeKey }],
      destinations: [
        {
          name: 'crm',
          sources: ['web'],
          sharedSecret,
          webhooks: [{ url: 'https://a.example.com/hook', headers: { 'X-Token': header } }],
        },
      ],
      store: `postgres://hookline:${password}@db/hookline`,
      adminToken,
    }),
  )
  const description = describeSettings(readSettings(file, {}))
  expect(description).toEqual({
    listen: '127.0.0.1:3300',
    traceContext: false,
    store: 'postgres://hookline:***@db/hookline',
    retention: '7d',
    admin: true,
    operator: false,
    settingsKeys: 0,
    allowNetworks: [],
    ca: 0,
    sources: ['web'],
    rateLimits: {},
    destinations: [
      {
        name: 'crm',
        sources: ['web'],
        enabled: true,
        signed: true,
        webhooks: [{ url: 'https://a.example.com/hook', headers: ['X-Token'], concurrency: 128 }],
      },
    ],
  })
})
