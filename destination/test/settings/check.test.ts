import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { checkSettings } from '../../src/settings/check.js'
import type { Environment } from '../../src/settings/environment.js'

type Raw = Record<string, unknown>

const webhook = (fields: Raw = {}): Raw => ({ url: 'https://a.example.com/hook', ...fields })
const destination = (fields: Raw = {}): Raw => ({
  name: 'crm',
  sources: ['web'],
  webhooks: [webhook()],
  ...fields,
})
const settings = (fields: Raw = {}): Raw => ({
  sources: [{ name: 'web', writeKey: 'wk1' }],
  destinations: [destination()],
  ...fields,
})
const withDestination = (fields: Raw): Raw => settings({ destinations: [destination(fields)] })
const withWebhook = (fields: Raw): Raw => withDestination({ webhooks: [webhook(fields)] })
const withHeaders = (headers: unknown): Raw => withWebhook({ headers })
const withSource = (fields: Raw): Raw =>
  settings({ sources: [{ name: 'web', writeKey: 'wk1', ...fields }] })

function problemsOf(raw: unknown, env: Environment = {}, folder = tmpdir()): string[] {
  const checked = checkSettings(raw, env, folder)
  if ('settings' in checked) return []
  return checked.problems.map(({ path, message }) => `${path}: ${message}`)
}

function settingsOf(raw: unknown, env: Environment = {}, folder = tmpdir()) {
  const checked = checkSettings(raw, env, folder)
  if ('settings' in checked) return checked.settings
  throw new Error(JSON.stringify(checked.problems))
}

test('the fewest settings there can be get every default', () => {
  expect(settingsOf(settings())).toStrictEqual({
    listen: { host: '127.0.0.1', port: 3300 },
    sources: [{ name: 'web', writeKey: 'wk1' }],
    destinations: [
      {
        name: 'crm',
        sources: ['web'],
        enabled: true,
        sharedSecret: undefined,
        webhooks: [{ url: 'https://a.example.com/hook', headers: {}, concurrency: 128 }],
      },
    ],
    tenants: [],
    traceContext: false,
    store: 'sqlite:./data/hookline.db',
    adminToken: undefined,
    allowNetworks: [],
    ca: [],
    retentionMs: 604_800_000,
  })
})

test('a store can have several servers', () => {
  const store = [
    { name: 'a', url: 'postgres://u:p@one/db' },
    { name: 'b', url: 'postgres://u:p@two/db' },
  ]
  expect(settingsOf(settings({ store })).store).toEqual(store)
})

test('every setting that is given is taken', () => {
  const given = settings({
    listen: '[::1]:0',
    destinations: [
      destination({
        enabled: false,
        sharedSecret: 's',
        webhooks: [
          webhook({
            headers: { 'X-Team': 'growth', 'X-Empty': '' },
            concurrency: 1_000,
            rateLimit: { requestsPerSecond: 0.5 },
          }),
        ],
      }),
    ],
    store: 'postgres://u:p@h/db',
    adminToken: '0123456789abcdef',
    operatorToken: 'fedcba9876543210',
    portal: {
      url: 'https://example.com/hooks/',
      frameAncestors: ['https://app.example.com', 'http://localhost:8080', 'https://*.example.org'],
    },
    allowNetworks: ['10.20.0.0/16', '127.0.0.1', 'fd00::/8', '::1'],
    retention: '4h',
  })
  expect(settingsOf(given)).toMatchObject({
    listen: { host: '::1', port: 0 },
    portal: { url: 'https://example.com/hooks' },
    destinations: [
      {
        enabled: false,
        sharedSecret: 's',
        webhooks: [
          {
            headers: { 'X-Team': 'growth', 'X-Empty': '' },
            concurrency: 1_000,
            rateLimit: 0.5,
          },
        ],
      },
    ],
    store: 'postgres://u:p@h/db',
    adminToken: '0123456789abcdef',
    operatorToken: 'fedcba9876543210',
    allowNetworks: ['10.20.0.0/16', '127.0.0.1/32', 'fd00::/8', '::1/128'],
    retentionMs: 14_400_000,
  })
})

describe('listen', () => {
  test.each([
    ['0.0.0.0:80', { host: '0.0.0.0', port: 80 }],
    ['localhost:3300', { host: 'localhost', port: 3300 }],
    ['[::]:65535', { host: '::', port: 65_535 }],
    ['8080', { host: '127.0.0.1', port: 8080 }],
    [8080, { host: '127.0.0.1', port: 8080 }],
  ])('%s is read', (listen, expected) => {
    expect(settingsOf(settings({ listen })).listen).toEqual(expected)
  })

  test.each([
    '',
    'localhost',
    ':3300',
    '::1:3300',
    '[a]:1',
    '1.2.3.4:65536',
    'http://a:1',
    -1,
    1.5,
    true,
    null,
  ])('%j is refused', (listen) => {
    expect(problemsOf(settings({ listen }))).toEqual([
      expect.stringMatching(/^listen: expected a host and a port, such as "127\.0\.0\.1:3300"/),
    ])
  })
})

const HOUR = 3_600_000

test.each([
  [
    {},
    {
      afterMs: [HOUR, 24 * HOUR, 120 * HOUR],
      pauseAfterMs: 120 * HOUR,
      deadLetters: { count: 100, withinMs: HOUR },
    },
  ],
  [
    { destination: 'crm', after: ['2h', '30m', '2h'], pauseAfter: false, deadLetters: false },
    { destination: 'crm', afterMs: [HOUR / 2, 2 * HOUR] },
  ],
  [
    { after: ['1m'], pauseAfter: '90d', deadLetters: { count: 1, within: '1m' } },
    {
      afterMs: [60_000],
      pauseAfterMs: 90 * 24 * HOUR,
      deadLetters: { count: 1, withinMs: 60_000 },
    },
  ],
])('the alerts %j are read', (alerts, expected) => {
  expect(settingsOf(settings({ alerts })).alerts).toEqual(expected)
})

test.each([
  ['7d', 604_800_000],
  ['12h', 43_200_000],
  ['300m', 18_000_000],
])('the retention %s is %i ms', (retention, ms) => {
  expect(settingsOf(settings({ retention })).retentionMs).toBe(ms)
})

/** Settings that break one rule, and the problem that is reported. */
const refusals: [raw: unknown, problem: string][] = [
  [undefined, ': expected an object with named fields, got nothing.'],
  [[], ': expected an object with named fields, got an empty list.'],
  ['x', ': expected an object with named fields, got "x".'],

  [
    settings({ sources: [] }),
    'sources: expected a list of at least one source, got an empty list.',
  ],
  [settings({ destinations: {} }), 'destinations: expected a list of destinations, got an object.'],
  [
    settings({ sources: [7], destinations: [] }),
    'sources[0]: expected an object with named fields, got 7.',
  ],
  [
    withDestination({ name: 'a b' }),
    'destinations[0].name: expected a name of 1 to 64 letters, digits, "-" and "_", got "a b".',
  ],
  [
    withDestination({ name: 'x'.repeat(65) }),
    `destinations[0].name: expected a name of 1 to 64 letters, digits, "-" and "_", got "${'x'.repeat(60)}"… (65 characters).`,
  ],
  [
    withSource({ writeKey: '' }),
    'sources[0].writeKey: expected a non-empty string, got an empty string.',
  ],
  [withSource({ writeKey: 42 }), 'sources[0].writeKey: expected a non-empty string, got a number.'],
  [
    withSource({ writeKey: 'a:b' }),
    'sources[0].writeKey: expected a key without a colon, got a string of 3 characters. Clients send the key as the user name of HTTP Basic authentication, which ends at the first colon.',
  ],
  [
    withSource({ writeKey: 'key\n' }),
    'sources[0].writeKey: expected no white space at the start or the end, got a string of 4 characters that has some. Remove it: a program that trims its copy of the value would use a different one.',
  ],
  [
    settings({
      sources: [
        { name: 'web', writeKey: 'k1' },
        { name: 'web', writeKey: 'k2' },
      ],
    }),
    'sources[1].name: is the same name as sources[0].name. Change or remove one of the two.',
  ],
  [
    settings({
      sources: [
        { name: 'web', writeKey: 'k1' },
        { name: 'app', writeKey: 'k1' },
      ],
    }),
    'sources[1].writeKey: is the same write key as sources[0].writeKey. Change or remove one of the two.',
  ],
  [
    settings({ destinations: [destination(), destination()] }),
    'destinations[1].name: is the same name as destinations[0].name. Change or remove one of the two.',
  ],

  [
    withDestination({ sources: ['web', 'app'] }),
    'destinations[0].sources[1]: expected the name of one of the sources ("web"), got "app".',
  ],
  [
    withDestination({ sources: ['web', 'web'] }),
    'destinations[0].sources[1]: is the same source as destinations[0].sources[0]. Change or remove one of the two.',
  ],
  [
    withDestination({ sources: 'web' }),
    'destinations[0].sources: expected a list of source names, got "web".',
  ],
  [
    withDestination({ enabled: 'yes' }),
    'destinations[0].enabled: expected true or false, got "yes".',
  ],
  [
    withDestination({ sharedSecret: '' }),
    'destinations[0].sharedSecret: expected a non-empty string, got an empty string. Remove the field to send requests without a signature.',
  ],
  [
    withDestination({ sharedSecret: null }),
    'destinations[0].sharedSecret: expected a string, got null.',
  ],
  [
    withDestination({ sharedSecret: ' hush' }),
    'destinations[0].sharedSecret: expected no white space at the start or the end, got a string of 5 characters that has some. Remove it: a program that trims its copy of the value would use a different one.',
  ],
  [
    withDestination({ webhooks: [] }),
    'destinations[0].webhooks: expected a list of 1 to 5 webhooks, got an empty list.',
  ],
  [
    withDestination({ webhooks: [1, 2, 3, 4, 5, 6].map((n) => webhook({ url: `http://h${n}/` })) }),
    'destinations[0].webhooks: expected a list of 1 to 5 webhooks, got a list of 6.',
  ],
  [
    withDestination({
      webhooks: [webhook({ url: 'http://a.example' }), webhook({ url: 'HTTP://A.example:80/' })],
    }),
    'destinations[0].webhooks[1].url: is the same URL as destinations[0].webhooks[0].url. Change or remove one of the two.',
  ],

  ...['example.com/hook', 'ftp://example.com', '/hook', '', 'http:/a', 'http://', undefined].map(
    (url): [Raw, string] => [
      withWebhook({ url }),
      `destinations[0].webhooks[0].url: expected a full URL with http or https, such as "https://example.com/hook", got ${url === undefined ? 'nothing' : url === '' ? 'an empty string' : `"${url}"`}.`,
    ],
  ),
  ...['https://h.ex\tample/', 'https://h.example/a\nb', 'https://h.example/ '].map(
    (url): [Raw, string] => [
      withWebhook({ url }),
      `destinations[0].webhooks[0].url: expected a URL without control characters and without white space at the end, got ${JSON.stringify(url)}.`,
    ],
  ),
  [
    withWebhook({ url: 'https://h.example:0/' }),
    'destinations[0].webhooks[0].url: expected a port from 1 to 65535, got "https://h.example:0/".',
  ],
  [
    withHeaders(JSON.parse('{"__proto__":"x","X-B":"y"}')),
    "destinations[0].webhooks[0].headers.__proto__: a header with this name can't be sent. Remove it.",
  ],
  [
    settings({ store: 'sqlite::memory:' }),
    'store: sqlite::memory: would lose all accepted calls when the process stops. Name a file, such as sqlite:./data/hookline.db.',
  ],
  [
    settings({ store: 'sqlite://host/x.db' }),
    'store: expected sqlite: and a path, such as sqlite:./data/hookline.db, got "sqlite://host/x.db".',
  ],
  ...['https://user@h.example', 'https://user:word@h.example'].map((url): [Raw, string] => [
    withWebhook({ url }),
    'destinations[0].webhooks[0].url: expected a URL without a user name or password. Send them in a header instead: "headers": { "Authorization": "Basic …" }.',
  ]),
  [
    withWebhook({ url: 'https://h.example/#' }),
    'destinations[0].webhooks[0].url: expected a URL without a fragment (#…), because HTTP does not send fragments. Remove it.',
  ],
  ...[0, 0.05, 10_001, null].map((requestsPerSecond): [Raw, string] => [
    withWebhook({ rateLimit: { requestsPerSecond } }),
    `destinations[0].webhooks[0].rateLimit.requestsPerSecond: expected a number from 0.1 to 10,000, got ${String(requestsPerSecond)}.`,
  ]),
  ...[0, 1_001, 1.5, 'many', null].map((concurrency): [Raw, string] => [
    withWebhook({ concurrency }),
    `destinations[0].webhooks[0].concurrency: expected a whole number from 1 to 1,000, got ${concurrency === 'many' ? '"many"' : String(concurrency)}.`,
  ]),

  [
    withHeaders(['X-Team: growth']),
    'destinations[0].webhooks[0].headers: expected an object of names and values, such as { "X-Team": "growth" }, got a list of 1.',
  ],
  [
    withHeaders({ 'X Team': 'growth' }),
    'destinations[0].webhooks[0].headers["X Team"]: expected a header name of letters, digits and "-", without spaces.',
  ],
  [
    withHeaders({ '': 'x' }),
    'destinations[0].webhooks[0].headers[""]: expected a header name of letters, digits and "-", without spaces.',
  ],
  [
    withHeaders({ 'X-N': 42 }),
    'destinations[0].webhooks[0].headers["X-N"]: expected a string, got a number. Put the value in quotes.',
  ],
  [
    withHeaders({ 'X-N': 'a\r\nX-Evil: b' }),
    'destinations[0].webhooks[0].headers["X-N"]: expected one line, got a string of 12 characters with a line break. Remove the line break.',
  ],
  [
    withHeaders({ 'X-N': 'a\0' }),
    'destinations[0].webhooks[0].headers["X-N"]: expected only Latin-1 characters, got a string of 2 characters that contains others. Encode the others.',
  ],
  [
    withHeaders({ 'X-N': '12 €' }),
    'destinations[0].webhooks[0].headers["X-N"]: expected only Latin-1 characters, got a string of 4 characters that contains others. Encode the others.',
  ],
  [
    withHeaders({ 'X-Team': 'a', 'x-team': 'a' }),
    'destinations[0].webhooks[0].headers["x-team"]: is the same header as "X-Team", because upper and lower case do not matter in header names. Remove one of the two.',
  ],
  [
    withHeaders({ A: 'x'.repeat(2_048), B: 'x'.repeat(2_047) }),
    'destinations[0].webhooks[0].headers: expected at most 4,096 bytes for all names and values together, got 4097.',
  ],
  ...[
    'Host Content-Length Transfer-Encoding Connection Content-Type User-Agent X-Signature Keep-Alive',
    'Upgrade TE Trailer Expect X-Message-Id X-Attempt Webhook-Id Webhook-Timestamp Webhook-Signature',
    'Proxy-Authorization proxy-connection X-Hookline-Test traceparent tracestate',
  ]
    .join(' ')
    .split(' ')
    .map((name): [Raw, string] => [
      withHeaders({ [name]: 'x' }),
      `destinations[0].webhooks[0].headers${name.includes('-') ? `["${name}"]` : `.${name}`}: ${name} is set by this service or by HTTP, and can't be changed here. Remove it.`,
    ]),

  [
    settings({ store: 'mysql://u:word@h/db' }),
    'store: expected "sqlite:" and a path, such as "sqlite:./data/hookline.db", a URL that starts with "postgres://", or a list of servers, got "mysql:…".',
  ],
  ...[
    ['host=db user=a password=word dbname=x', 'a string of 37 characters'],
    ['jdbc:postgresql://db/app?user=a&password=word', '"jdbc:…"'],
    ['postgresql:/u:word@h/db', '"postgresql:…"'],
    ['u:word@h/db', '"u:…"'],
  ].map(([store, shown]): [Raw, string] => [
    settings({ store }),
    `store: expected "sqlite:" and a path, such as "sqlite:./data/hookline.db", a URL that starts with "postgres://", or a list of servers, got ${shown}.`,
  ]),
  [settings({ store: [] }), 'store: expected 1 to 128 servers, got an empty list.'],
  [
    settings({ store: ['postgres://u:word@h/db'] }),
    'store[0]: expected an object such as { "name": "a", "url": "postgres://…" }, got "postgres:…".',
  ],
  [
    settings({ store: [{ name: 'a', url: 'postgres://h/db', weight: 1 }] }),
    'store[0].weight: there is no such field. The fields here are name, url.',
  ],
  [
    settings({ store: [{ name: 'a b', url: 'postgres://h/db' }] }),
    'store[0].name: expected a name of 1 to 64 letters, digits, "-" and "_", got "a b".',
  ],
  [
    settings({ store: [{ name: 'a', url: 'sqlite:x.db' }] }),
    'store[0].url: expected a URL that starts with "postgres://", got "sqlite:…".',
  ],
  ...(['name', 'url'] as const).map((field): [Raw, string] => {
    const other = { name: 'b', url: 'postgres://h/other' }
    const first = { name: 'a', url: 'postgres://h/db' }
    return [
      settings({ store: [first, { ...other, [field]: first[field] }] }),
      `store[1].${field}: is that of another server too. Each server has its own.`,
    ]
  }),
  [
    settings({ store: [{ name: 'a', url: 'postgres://u:word@h/db?sslmode=prefer' }] }),
    "store[0].url: the URL has sslmode=prefer: expected verify-full, require (the same), verify-ca or disable. Modes that do not verify the server's certificate are refused. Give a private CA as sslrootcert.",
  ],
  [
    settings({ store: 'sqlite:' }),
    'store: expected "sqlite:" and a path, such as "sqlite:./data/hookline.db", a URL that starts with "postgres://", or a list of servers, got "sqlite:".',
  ],
  [
    settings({ store: 'postgres://u:word@h/db?sslmode=prefer' }),
    "store: the URL has sslmode=prefer: expected verify-full, require (the same), verify-ca or disable. Modes that do not verify the server's certificate are refused. Give a private CA as sslrootcert.",
  ],
  [
    settings({ store: 'postgres://u:wo/rd@h/db' }),
    'store: the URL is not valid: expected postgres://user:password@host:5432/database. Percent-encode special characters in the user and the password, as in p%40ss for p@ss.',
  ],
  ...['fifteen-letters', 'sixteen letters of it', 7].map((adminToken): [Raw, string] => [
    settings({ adminToken }),
    `adminToken: expected at least 16 ASCII characters without spaces, got ${typeof adminToken === 'string' ? `a string of ${adminToken.length} characters` : 'a number'}. Create a token with \`openssl rand -hex 24\`.`,
  ]),
  [
    settings({ operatorToken: '0123456789abcdef' }),
    'operatorToken: needs an "adminToken" too, which allows everything. Set one.',
  ],
  [
    settings({ adminToken: '0123456789abcdef', operatorToken: '0123456789abcdef' }),
    'operatorToken: is the same token as "adminToken". Choose another one, or remove it.',
  ],
  [
    settings({ adminToken: '0123456789abcdef', operatorToken: 'fifteen-letters' }),
    'operatorToken: expected at least 16 ASCII characters without spaces, got a string of 15 characters. Create a token with `openssl rand -hex 24`.',
  ],
  ...[
    'portal.example.com',
    'https://example.com/hooks?',
    'https://example.com/#',
    'https://ada:pw@example.com',
    'ftp://example.com',
    7,
  ].map((url): [Raw, string] => [
    settings({ portal: { url } }),
    `portal.url: expected a URL without credentials, a query and a fragment, such as "https://portal.example.com", got ${JSON.stringify(url).replace(':pw@', ':***@')}.`,
  ]),
  ...[
    'app.example.com',
    'https://app.example.com/',
    "https://app.example.com; script-src 'unsafe-inline'",
    'https://app.example.com https://evil.example',
    "'self'",
    'https://*',
    '*',
  ].map((origin): [Raw, string] => [
    settings({ portal: { frameAncestors: [origin] } }),
    `portal.frameAncestors[0]: expected the origin of a page, such as "https://app.example.com" or "https://*.example.com", got ${JSON.stringify(origin)}.`,
  ]),
  ...[
    '10.0.0.0/33',
    '10.0.0/8',
    'fd00::/129',
    'example.com',
    '1.2.3.4/',
    '1.2.3.4/8/8',
    ' ::1',
  ].map((network): [Raw, string] => [
    settings({ allowNetworks: [network] }),
    `allowNetworks[0]: expected a network such as "10.20.0.0/16" or "fd00::/8", or a single IP address, got "${network}".`,
  ]),
  [
    settings({ retention: '239m' }),
    'retention: expected at least "4h", got "239m". A message is retried for 4 hours, and the store must keep it until then.',
  ],
  ...['7', '7w', '1.5d', '-7d', 7].map((retention): [Raw, string] => [
    settings({ retention }),
    `retention: expected a duration such as "7d", "12h" or "300m", got ${JSON.stringify(retention)}.`,
  ]),

  [settings({ alerts: true }), 'alerts: expected an object with named fields, got true.'],
  [
    settings({ alerts: { destination: 'ops' } }),
    'alerts.destination: expected the name of one of the destinations ("crm"), got "ops".',
  ],
  [
    { ...settings({ alerts: { destination: 'ops' } }), destinations: [] },
    'alerts.destination: expected the name of a destination, got "ops", but there are no destinations.',
  ],
  [
    settings({
      alerts: { destination: 'crm' },
      tenants: [{ name: 'acme' }],
      sources: [{ name: 'web', writeKey: 'wk1', tenant: 'acme' }],
      destinations: [destination({ tenant: 'acme' })],
    }),
    'alerts.destination: expected a destination without a tenant, got "crm", which belongs to "acme": the alerts name the destinations of all tenants.',
  ],
  [
    settings({ alerts: { after: [] } }),
    'alerts.after: expected a list of 1 to 5 durations, got an empty list.',
  ],
  [
    settings({ alerts: { after: ['1h', '91d'] } }),
    'alerts.after[1]: expected a duration from "1m" to "90d", such as "1h" or "5d", got "91d".',
  ],
  [
    settings({ alerts: { pauseAfter: true } }),
    'alerts.pauseAfter: expected a duration from "1m" to "90d", such as "1h" or "5d", got true.',
  ],
  [
    settings({ alerts: { deadLetters: 5 } }),
    'alerts.deadLetters: expected false, or an object such as { "count": 100, "within": "1h" }, got 5.',
  ],
  [
    settings({ alerts: { deadLetters: { count: 0, within: '1h' } } }),
    'alerts.deadLetters.count: expected a whole number from 1 to 1,000,000, got 0.',
  ],
  [
    settings({ alerts: { deadLetters: { count: 5 } } }),
    'alerts.deadLetters.within: expected a duration from "1m" to "90d", such as "1h" or "5d", got nothing.',
  ],
  [
    settings({ alerts: { deadLetters: { count: 5, within: '1h', per: 'day' } } }),
    'alerts.deadLetters.per: there is no such field. The fields here are count, within.',
  ],
  [
    settings({ alerts: { url: 'https://a.example.com/' } }),
    'alerts.url: there is no such field. The fields here are destination, after, pauseAfter, deadLetters.',
  ],

  [
    withDestination({ sharedSecrt: 'hush' }),
    'destinations[0].sharedSecrt: there is no such field. Did you mean sharedSecret?',
  ],
  [
    withDestination({ secret: 'hush' }),
    'destinations[0].secret: there is no such field. Did you mean sharedSecret?',
  ],
  [withSource({ key: 'hush' }), 'sources[0].key: there is no such field. Did you mean writeKey?'],
  [
    withWebhook({ Headers: {} }),
    'destinations[0].webhooks[0].Headers: there is no such field. Did you mean headers?',
  ],
  [settings({ port: 80 }), 'port: there is no such field. Did you mean listen?'],
  [
    withSource({ colour: 'red' }),
    'sources[0].colour: there is no such field. The fields here are name, tenant, writeKey, rateLimit.',
  ],
  [
    settings(JSON.parse('{"__proto__":{"store":"x"}}') as Raw),
    // JSON.parse creates a field of that name, and the spread keeps it.
    '__proto__: there is no such field. The fields here are listen, adminListen, sources, destinations, tenants, settingsKey, store, adminToken, operatorToken, portal, allowNetworks, ca, traceContext, alerts, retention.',
  ],
]

test.each(refusals)('%j is refused', (raw, problem) => {
  expect(problemsOf(raw)).toEqual([problem])
})

test('4,096 bytes of headers are not too many', () => {
  expect(problemsOf(withHeaders({ A: 'x'.repeat(2_047), B: 'x'.repeat(2_047) }))).toEqual([])
})

test('everything that is wrong is told at once, wherever it is', () => {
  const wrong = settings({
    listen: 'here',
    destinations: [
      destination({
        sources: ['wbe'],
        sharedSecret: '${HUSH}',
        webhooks: ['a', 'b', 'c', 'd', 'e', 'f'].map((name) =>
          webhook({ url: name, headers: { Host: name } }),
        ),
      }),
      destination({ webhook: [] }),
    ],
  })
  const paths = problemsOf(wrong).map((problem) => problem.slice(0, problem.indexOf(':')))
  expect(paths.sort()).toEqual(
    [
      'listen',
      'destinations[0].sources[0]',
      'destinations[0].sharedSecret',
      'destinations[0].webhooks',
      ...[0, 1, 2, 3, 4, 5].flatMap((index) => [
        `destinations[0].webhooks[${index}].url`,
        `destinations[0].webhooks[${index}].headers.Host`,
      ]),
      'destinations[1].name',
      'destinations[1].webhook',
    ].sort(),
  )
})

describe('a reference to the environment', () => {
  const env = {
    KEY: 'wk2',
    HOST: 'b.example.com',
    N: '7',
    ON: 'false',
    EMPTY: '',
    MONEY: '$&${KEY}',
  }

  test('is filled in wherever a string is', () => {
    const given = settings({
      sources: [{ name: 'web', writeKey: '${KEY}' }],
      destinations: [
        destination({
          enabled: '${ON}',
          sharedSecret: 'a$${KEY}b${KEY}${HOST}${MONEY}',
          webhooks: [
            {
              url: 'https://${HOST}/${N}',
              headers: { 'X-Key': 'Bearer ${KEY}' },
              concurrency: '${N}',
            },
          ],
        }),
      ],
    })
    expect(settingsOf(given, env)).toMatchObject({
      sources: [{ writeKey: 'wk2' }],
      destinations: [
        {
          enabled: false,
          sharedSecret: 'a${KEY}bwk2b.example.com$&${KEY}',
          webhooks: [
            { url: 'https://b.example.com/7', headers: { 'X-Key': 'Bearer wk2' }, concurrency: 7 },
          ],
        },
      ],
    })
  })

  test.each([
    ['${NONE}', 'the environment variable NONE is not set.'],
    ['x${EMPTY}', 'the environment variable EMPTY is empty.'],
    ['${KEY', 'expected a } after ${. Write $${ for a literal ${.'],
    [
      '${KEY:-x}',
      'expected the name of an environment variable between ${ and }, made of letters, digits and "_". Default values are not supported. Write $${ for a literal ${.',
    ],
  ])('%s is refused', (writeKey, problem) => {
    expect(problemsOf(withSource({ writeKey }), env)).toEqual([`sources[0].writeKey: ${problem}`])
  })

  test('that names two variables which are not set names both, and breaks no rule besides', () => {
    expect(problemsOf(withWebhook({ url: '${A}${B}' }), env)).toEqual([
      'destinations[0].webhooks[0].url: the environment variable A is not set.',
      'destinations[0].webhooks[0].url: the environment variable B is not set.',
    ])
  })

  test('is never shown with what it stands for', () => {
    const given = settings({ listen: '${KEY}', store: '${KEY}' })
    expect(problemsOf(given, env)).toEqual([
      expect.stringMatching(/^listen: .* got a string of 3 characters\.$/),
      expect.stringMatching(/^store: .* got a string of 3 characters\.$/),
    ])
  })
})

describe('ca', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-ca-'))
  const both = readFileSync(new URL('two-certificates.pem', import.meta.url), 'utf8').trim()
  const [first = '', second = ''] = both.split(/\n(?=-----BEGIN)/)
  writeFileSync(join(folder, 'both.pem'), `# two of them\n${first}\n${second}\n`)
  writeFileSync(join(folder, 'one.pem'), first)
  writeFileSync(join(folder, 'none.pem'), 'nothing')
  writeFileSync(join(folder, 'cut.pem'), `${first}\n${second.slice(0, -100)}`)
  writeFileSync(join(folder, 'trusted.pem'), both.replaceAll(' CERT', ' TRUSTED CERT'))
  writeFileSync(join(folder, 'broken.pem'), `${first}\n${second.replace('MII', 'MIJ')}`)

  const WHOLE =
    'expected each to begin with "-----BEGIN CERTIFICATE-----", and to end with "-----END CERTIFICATE-----".'

  test.each([
    ['both.pem', [first, second]],
    [
      ['one.pem', './both.pem'],
      [first, first, second],
    ],
    [join(folder, 'one.pem'), [first]],
  ])('%j gives its certificates', (ca, certificates) => {
    expect(settingsOf(settings({ ca }), {}, folder).ca).toEqual(certificates)
  })

  test.each([
    ['no.pem', `ca: "no.pem" can't be read: there is no file ${join(folder, 'no.pem')}.`],
    [['one.pem', '.'], `ca[1]: "." can't be read: EISDIR while reading ${folder}.`],
    [
      'none.pem',
      'ca: "none.pem" contains no certificate: expected PEM, with a line "-----BEGIN CERTIFICATE-----".',
    ],
    ['broken.pem', `ca: "broken.pem" contains an invalid certificate: number 2 can't be decoded.`],
    ['cut.pem', `ca: "cut.pem" contains 2 certificates, and 1 of them can be read: ${WHOLE}`],
    [
      'trusted.pem',
      `ca: "trusted.pem" contains 2 certificates, and 0 of them can be read: ${WHOLE}`,
    ],
    [7, 'ca: expected the path of a PEM file with certificates, got 7.'],
  ])('%j is refused', (ca, problem) => {
    expect(problemsOf(settings({ ca }), {}, folder)).toEqual([problem])
  })
})

describe('secrets', () => {
  const [key, other] = ['whsec_' + btoa('k'.repeat(32)), 'whsec_' + btoa('o'.repeat(24))]

  test('may be two of a kind while one is being rotated', () => {
    const secrets = { sharedSecret: ['old', 'new'], webhookSecret: [key, other] }
    expect(settingsOf(withDestination(secrets)).destinations[0]).toMatchObject({
      sharedSecret: 'old',
      otherSecret: 'new',
      webhookSecrets: [key, other],
    })
    expect(settingsOf(withDestination({ webhookSecret: key })).destinations[0]).toMatchObject({
      sharedSecret: undefined,
      webhookSecrets: [key],
    })
  })

  test.each<[Raw, unknown]>([
    [
      { sharedSecret: ['hush-a', 'hush-b', 'hush-c'] },
      'sharedSecret: expected one secret, or a list of two during a rotation, got a list of 3.',
    ],
    [
      { sharedSecret: ['hush', 'hush'] },
      'sharedSecret[1]: is the same secret as the first. Change or remove one of the two.',
    ],
    [{ sharedSecret: ['hush', 7] }, 'sharedSecret[1]: expected a string, got a number.'],
    ...['hush', 'whsec_hush', `whsec_${btoa('k'.repeat(23))}`, key.replace('=', ''), ` ${key}`].map(
      (webhookSecret): [Raw, unknown] => [
        { webhookSecret },
        expect.stringMatching(
          /^webhookSecret: expected "whsec_" followed by 24 to 64 bytes in base64, got a string of \d+ characters\. /,
        ) as string,
      ],
    ),
  ])('%j are refused, and not shown', (secrets, problem) => {
    const problems = problemsOf(withDestination(secrets))
    expect(problems.map((text) => text.replace('destinations[0].', ''))).toEqual([problem])
    expect(problems.join()).not.toContain('hush')
  })
})

describe('write keys', () => {
  test('may be two while one is being rotated', () => {
    expect(settingsOf(withSource({ writeKey: ['new', 'old'] })).sources).toEqual([
      { name: 'web', writeKey: 'new', otherWriteKey: 'old' },
    ])
  })

  test.each<[unknown, string]>([
    [
      ['hush-a', 'hush-b', 'hush-c'],
      'writeKey: expected one key, or a list of two during a rotation, got a list of 3.',
    ],
    [
      ['hush', 'hush'],
      'writeKey[1]: is the same key as the first. Change or remove one of the two.',
    ],
    [['hush', ''], 'writeKey[1]: expected a non-empty string, got an empty string.'],
  ])('%j are refused, and not shown', (writeKey, problem) => {
    const problems = problemsOf(withSource({ writeKey }))
    expect(problems.map((text) => text.replace('sources[0].', ''))).toEqual([problem])
  })

  test('of two sources differ, also from the second key of another', () => {
    const sources = [
      { name: 'web', writeKey: ['a', 'b'] },
      { name: 'app', writeKey: 'b' },
    ]
    expect(problemsOf(settings({ sources }))).toEqual([
      'sources[1].writeKey: is the same write key as sources[0].writeKey[1]. Change or remove one of the two.',
    ])
  })
})

describe('the settings key', () => {
  const key = Buffer.alloc(32, 'k').toString('base64')
  const other = Buffer.alloc(32, 'o').toString('base64')

  test('may be one or several, and the file then needs no sources and destinations', () => {
    expect(settingsOf({ settingsKey: key })).toMatchObject({
      settingsKeys: [key],
      sources: [],
      destinations: [],
    })
    expect(settingsOf(settings({ settingsKey: [other, key] }))).toMatchObject({
      settingsKeys: [other, key],
      sources: [{ name: 'web' }],
    })
  })

  test('gives the destinations of the file no source that it does not have', () => {
    const file = { settingsKey: key, destinations: [destination()] }
    expect(problemsOf(file)).toEqual([
      'destinations[0].sources[0]: expected the name of one of the sources, of which there are none, got "web".',
    ])
  })

  test.each<[unknown, string]>([
    ['hush', 'settingsKey: expected 32 bytes in base64, got a string of 4 characters.'],
    [key.slice(1), 'settingsKey: expected 32 bytes in base64, got a string of 43 characters.'],
    [[key, 7], 'settingsKey[1]: expected 32 bytes in base64, got a number.'],
    [[], 'settingsKey: expected one key, or a list of keys of which the first one encrypts'],
  ])('%j is refused, and not shown', (settingsKey, problem) => {
    const problems = problemsOf(settings({ settingsKey }))
    expect(problems).toEqual([expect.stringContaining(problem)])
    expect(problems.join()).not.toMatch(/hush|a2tr/)
  })
})

describe('rate limits', () => {
  test('of calls a second let as many pass at once, unless a burst is given', () => {
    const limited = (rateLimit: Raw) => settingsOf(withSource({ rateLimit })).sources[0]?.rateLimit
    expect(limited({ callsPerSecond: 100 })).toEqual({ callsPerSecond: 100, burst: 100 })
    expect(limited({ callsPerSecond: '100', burst: 500 })).toEqual({
      callsPerSecond: 100,
      burst: 500,
    })
  })

  test.each([
    [
      {},
      'sources[0].rateLimit.callsPerSecond: expected a whole number from 1 to 1,000,000, got nothing.',
    ],
    [
      { callsPerSecond: 0 },
      'sources[0].rateLimit.callsPerSecond: expected a whole number from 1 to 1,000,000, got 0.',
    ],
    [
      { callsPerSecond: 1, burst: 0.5 },
      'sources[0].rateLimit.burst: expected a whole number from 1 to 10,000,000, got 0.5.',
    ],
    [100, 'sources[0].rateLimit: expected an object with named fields, got 100.'],
    [
      { callsPerSecond: 1, bursts: 2 },
      'sources[0].rateLimit.bursts: there is no such field. Did you mean burst?',
    ],
  ])('%j is refused', (rateLimit, problem) => {
    expect(problemsOf(withSource({ rateLimit }))).toEqual([problem])
  })
})

describe('tenants', () => {
  const web = { name: 'web', tenant: 'acme', writeKey: 'k' }
  const given = (tenants: unknown, sources: unknown = [web], crm: Raw = { tenant: 'acme' }) =>
    settings({ tenants, sources, destinations: [destination(crm)] })

  test('have quotas and a portal, with defaults', () => {
    const tenants = [
      { name: 'acme', title: 'Acme Ltd.', quotas: { callsPerSecond: 5, waiting: 100 } },
      { name: 'b', quotas: { burst: 2, callsPerSecond: 1 }, portal: { editUrls: true } },
      { name: 'c', quotas: { concurrency: '8' } },
      { name: 'd' },
    ]
    expect(settingsOf(given(tenants)).tenants).toStrictEqual([
      {
        ...{ name: 'acme', title: 'Acme Ltd.', portal: { editUrls: false } },
        quotas: { callsPerSecond: 5, burst: 5, waiting: 100 },
      },
      { name: 'b', quotas: { callsPerSecond: 1, burst: 2 }, portal: { editUrls: true } },
      { name: 'c', quotas: { concurrency: 8 }, portal: { editUrls: false } },
      { name: 'd', portal: { editUrls: false } },
    ])
  })

  test.each<[unknown, string]>([
    [
      given([{ name: 'acme', title: '' }]),
      'tenants[0].title: expected 1 to 100 characters, got an empty string.',
    ],
    [
      given([{ name: 'acme', title: 'a\nb' }]),
      'tenants[0].title: expected no control characters, got "a\\nb".',
    ],
    [
      given([{ name: 'acme', title: ' a' }]),
      'tenants[0].title: expected no white space at the start or the end, got " a".',
    ],
    [
      given([{ name: 'acme', quotas: { burst: 5 } }]),
      'tenants[0].quotas.burst: expected "callsPerSecond" beside it. Add it, or remove this field.',
    ],
    [
      given([{ name: 'acme', quotas: { waiting: 0 } }]),
      'tenants[0].quotas.waiting: expected a whole number from 1 to 100,000,000, got 0.',
    ],
    [
      given([{ name: 'acme', quotas: { calls: 1 } }]),
      'tenants[0].quotas.calls: there is no such field. The fields here are callsPerSecond, burst, waiting, concurrency.',
    ],
    [
      given([{ name: 'acme', portal: { editUrl: true } }]),
      'tenants[0].portal.editUrl: there is no such field. Did you mean editUrls?',
    ],
    [
      given([{ name: 'acme' }, { name: 'acme' }]),
      'tenants[1].name: is the same name as tenants[0].name. Change or remove one of the two.',
    ],
    [
      given([{ name: 'acme' }], [{ ...web, tenant: 'b' }], {}),
      'sources[0].tenant: expected the name of one of the tenants ("acme"), got "b".',
    ],
    [
      given([], [{ ...web, tenant: undefined }]),
      'destinations[0].tenant: expected the name of one of the tenants, of which there are none, got "acme".',
    ],
    [
      given([{ name: 'acme' }, { name: 'b' }], [{ ...web, tenant: 'b' }]),
      'destinations[0].sources[0]: expected a source of the tenant "acme", got "web", which belongs to the tenant "b".',
    ],
    [
      given([{ name: 'acme' }], [{ name: 'web', writeKey: 'k' }]),
      'destinations[0].sources[0]: expected a source of the tenant "acme", got "web", which belongs to no tenant.',
    ],
  ])('%j are refused', (raw, problem) => {
    const problems = problemsOf(raw)
    expect(problems).toContain(problem)
  })

  test('need not have the sources of a destination that belongs to no tenant', () => {
    expect(problemsOf(given([{ name: 'acme' }], [web], {}))).toEqual([])
  })
})

describe('adminListen', () => {
  test('is an address of its own', () => {
    expect(settingsOf(settings({ adminListen: 9090 })).adminListen).toEqual({
      host: '127.0.0.1',
      port: 9090,
    })
    expect(problemsOf(settings({ listen: 0, adminListen: 0 }))).toEqual([])
  })

  test('that is the one of listen is refused', () => {
    expect(problemsOf(settings({ listen: '127.0.0.1:9090', adminListen: 9090 }))).toEqual([
      'adminListen: is the same address as "listen". Remove it to serve both at that address, or choose another port.',
    ])
  })
})
