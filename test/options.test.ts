import { afterEach, describe, expect, test, vi } from 'vitest'
import { Analytics, HooklineError, OptionError } from '../src/index.js'
import { checkOptions } from '../src/options.js'
import {
  createClient,
  events,
  pass,
  scriptedFetch,
  startCollector,
  thrownBy,
  trackMany,
  turns,
  useFakeClock,
} from './collector.js'

afterEach(() => {
  vi.unstubAllEnvs()
})

/** What the constructor says of options that JavaScript may give it. */
function refusal(...given: unknown[]): OptionError {
  const error = thrownBy(() => Reflect.construct(Analytics, given))
  expect(error).toBeInstanceOf(OptionError)
  return error as OptionError
}

test('without options, the defaults are those of the contract', () => {
  vi.stubEnv('ANALYTICS_ENDPOINT', undefined)
  const { endpoint, ...rest } = checkOptions('k', {})
  expect(endpoint.href).toBe('http://127.0.0.1:3300/v1/batch')
  expect(rest).toEqual({
    writeKey: 'k',
    flushAt: 20,
    flushAfterMs: 5_000,
    maxBatchBytes: 500_000,
    timeoutMs: 10_000,
    maxQueueBytes: 67_108_864,
    overflow: 'drop-newest',
    maxRetries: Infinity,
    gzip: false,
    fetch: undefined,
    agent: undefined,
    headers: undefined,
    context: undefined,
    integrations: undefined,
    beforeSend: undefined,
    onDelivered: undefined,
    onFailed: undefined,
    logger: undefined,
    waitUntil: undefined,
    onInvalid: 'throw',
    disabled: false,
    spool: undefined,
  })
})

test('an option that is undefined is one that was not given', () => {
  vi.stubEnv('ANALYTICS_ENDPOINT', undefined)
  const all = Object.fromEntries(Object.keys(refusals).map((option) => [option, undefined]))
  expect(checkOptions('k', all)).toEqual(checkOptions('k', {}))
})

describe('the write key', () => {
  test.each([undefined, null, 7, {}, [], '', ' ', true, Symbol('k')])('refuses %s', (key) => {
    const error = refusal(key)
    expect(error.option).toBe('writeKey')
    expect(error.code).toBe('invalid_option')
    expect(error).toBeInstanceOf(HooklineError)
    expect(error.message).toMatch(/write key .* non-empty string.*new Analytics\('WRITE_KEY'\)/)
  })

  test.each([
    ['white space around it', 'wk_secret\n'],
    ['white space around it', ' wk_secret'],
    ['white space around it', '\u00A0wk_secret'],
    ['a control character', 'wk_\u0000secret'],
    ['a control character', 'wk_\u007Fsecret'],
    ['a colon', 'wk:secret'],
  ])('refuses %s, and does not repeat the key', (what, key) => {
    const { option, message } = refusal(key)
    expect(option).toBe('writeKey')
    expect(message).toContain(`got one with ${what}`)
    expect(message).not.toContain('secret')
  })

  test('may have spaces and any other characters inside', () => {
    expect(checkOptions('my key, clé-€-𝄞', {}).writeKey).toBe('my key, clé-€-𝄞')
  })

  test('in the wrong place is not repeated in the message', () => {
    const { message } = refusal({ writeKey: 'wk_secret' })
    expect(message).toContain('Got object')
    expect(message).not.toContain('wk_secret')
  })
})

const INTEGER = [0, -1, 1.5, NaN, '20', null, {}, -Infinity, 20n]
const FUNCTION = [null, 'f', {}, 1, true]
const OBJECT = [null, 'x', 1, [], new Map(), new Date(0), () => undefined]
const TIME_RULE = 'a whole number from 1 to 2147483647'
const COUNT_RULE = 'a whole number of at least 1'

/** Each option, the rule that its refusal names, and what is refused. */
const refusals: Record<string, [rule: string, given: unknown[]]> = {
  endpoint: [
    'an http or https URL',
    ['', 'collect.example.com', '/v1/batch', 'ftp://x.example', 'file:///x', 7, {}, [], true, null],
  ],
  flushAt: [COUNT_RULE, [...INTEGER, Infinity]],
  size: [COUNT_RULE, [...INTEGER, Infinity]],
  flushAfter: [TIME_RULE, [...INTEGER, Infinity, 2_147_483_648]],
  maxBatchBytes: ['a whole number from 40000 to 500000', [...INTEGER, Infinity, 39_999, 500_001]],
  timeout: [TIME_RULE, [...INTEGER, Infinity, 2_147_483_648]],
  maxQueueBytes: [COUNT_RULE, [...INTEGER, Infinity]],
  maxRetries: ['a whole number of at least 0', INTEGER.filter((given) => given !== 0)],
  overflow: ['"drop-newest" or "drop-oldest"', ['drop', '', null, true, 1, {}]],
  gzip: ['false or true', [null, 'true', 1, 0, {}]],
  disabled: ['false or true', [null, 'true', 1, 0, {}]],
  onInvalid: ['"throw" or "report"', ['ignore', '', null, true, 1]],
  fetch: ['a function', FUNCTION],
  agent: ['an Agent of node:http or node:https', [...OBJECT, {}, 'http://proxy.example:3128']],
  headers: ['a plain object of strings', OBJECT],
  beforeSend: ['a function', FUNCTION],
  onDelivered: ['a function', FUNCTION],
  onFailed: ['a function', FUNCTION],
  logger: ['the methods debug(line) and warn(line)', OBJECT],
  waitUntil: ['a function', FUNCTION],
  context: ['a plain object', OBJECT],
  integrations: ['a plain object', OBJECT],
  spool: ['a plain object', OBJECT],
}

/** What the message says came. */
function shown(given: unknown): string {
  if (given === null) return 'null'
  if (typeof given === 'string') return JSON.stringify(given)
  if (Array.isArray(given)) return 'an array'
  if (typeof given === 'bigint') return `${given}n`
  if (typeof given === 'function') return 'a function'
  if (given instanceof Map) return 'an instance of Map'
  if (given instanceof Date) return 'an instance of Date'
  if (typeof given === 'object') return 'a plain object'
  return (given as number).toString()
}

describe.each(Object.entries(refusals))('%s', (option, [rule, refused]) => {
  test.each(refused.map((given) => [shown(given), given]))('refuses %s', (came, given) => {
    const error = refusal('k', { [option]: given })
    expect(error.name).toBe('OptionError')
    expect(error.option).toBe(option)
    expect(error.message).toMatch(new RegExp(`^${option} must be `))
    expect(error.message).toContain(rule)
    expect(error.message).toContain(
      came === '"ftp://x.example"' ? 'ftp:' : shownEndpoint(option, came),
    )
  })
})

/** For a URL of a wrong scheme, the scheme is what the message says came. */
function shownEndpoint(option: string, came: string): string {
  return option === 'endpoint' && came.startsWith('"file') ? '"file:"' : came
}

test('an async function as beforeSend is refused: no message could wait for its promise', () => {
  const error = refusal('k', { beforeSend: async () => Promise.resolve(null) })
  expect(error.option).toBe('beforeSend')
  expect(error.message).toContain('beforeSend must be synchronous, but it is an async function')
  expect(error.message).toContain('Return the message itself, or null to drop it')
})

test('the edges of each range are accepted', () => {
  const edges = [
    { flushAt: 1 },
    { flushAt: 1_000_000 },
    { size: 1 },
    { flushAfter: 1 },
    { flushAfter: 2_147_483_647 },
    { timeout: 1 },
    { timeout: 2_147_483_647 },
    { maxQueueBytes: 1 },
    { maxRetries: 0 },
    { maxRetries: Infinity },
    { overflow: 'drop-oldest' },
    { gzip: true },
    { disabled: true },
    { onInvalid: 'report' },
    { context: Object.create(null) as object },
    { integrations: {} },
  ]
  for (const options of edges) expect(() => checkOptions('k', options)).not.toThrow()
})

test.each([
  ['options', 7],
  ['options', 'k'],
  ['options', null],
  ['options', []],
  ['options', new Map()],
])('%s that are no plain object (%s) are refused', (_, given) => {
  const error = refusal('k', given)
  expect(error.option).toBe('options')
  expect(error.message).toMatch(/^options must be a plain object, got /)
})

describe('a name that is no option is refused', () => {
  test.each([
    ['flushat', 'flushAt'],
    ['FLUSHAT', 'flushAt'],
    ['flushQueueSize', 'flushAt'],
    ['flushInterval', 'flushAfter'],
    ['flushafter', 'flushAfter'],
    ['host', 'endpoint'],
    ['dataPlaneUrl', 'endpoint'],
    ['path', 'endpoint'],
    ['requestTimeout', 'timeout'],
    ['axiosRetryConfig', 'maxRetries'],
    ['retryCount', 'maxRetries'],
    ['httpClient', 'fetch'],
    ['httpsAgent', 'agent'],
    ['customHeaders', 'headers'],
    ['before_send', 'beforeSend'],
    ['errorHandler', 'onFailed'],
    ['disable', 'disabled'],
  ])('%s points to %s', (name, meant) => {
    const error = refusal('k', { [name]: 1 })
    expect(error.option).toBe(name)
    expect(error.message).toBe(`There is no option "${name}". Did you mean ${meant}?`)
  })

  test.each([
    ['enable', 'Did you mean disabled, its opposite?'],
    ['maxInternalQueueSize', 'Did you mean maxQueueBytes, in bytes?'],
    ['maxQueueSize', 'Remove it: maxBatchBytes limits a body, and maxQueueBytes what waits.'],
    ['maxRateLimitDuration', 'Remove it: maxQueueBytes limits an outage.'],
    ['axiosInstance', 'Use timeout, headers, agent or fetch.'],
    ['LogLevel', 'Set DEBUG=analytics in the environment.'],
  ])('%s, which no option here replaces as it is, gets advice', (name, advice) => {
    expect(refusal('k', { [name]: 1 }).message).toBe(`There is no option "${name}". ${advice}`)
  })

  test.each(['colour', '', '__proto__x', 'constructor', 'toString'])('%j gets the list', (name) => {
    const { message } = refusal('k', { [name]: 1 })
    expect(message).toBe(
      `There is no option ${JSON.stringify(name)}. The options are ${Object.keys(refusals)
        .sort((a, b) => order.indexOf(a) - order.indexOf(b))
        .join(', ')}.`,
    )
  })
  const order =
    'endpoint flushAt size flushAfter maxBatchBytes timeout maxQueueBytes overflow maxRetries gzip fetch agent headers context integrations beforeSend onDelivered onFailed logger waitUntil onInvalid disabled spool'.split(
      ' ',
    )
})

describe('spool', () => {
  const directory = '/var/lib/shop'

  test('has defaults but for its directory', () => {
    const spool = { directory, maxBytes: 1_073_741_824, fsync: 'off' }
    expect(checkOptions('k', { spool: { directory } }).spool).toEqual(spool)
    const given = { directory, maxBytes: 1_048_576, fsync: 'batch' }
    expect(checkOptions('k', { spool: given }).spool).toEqual(given)
    for (const other of ['~shop', './~', 'files']) {
      expect(checkOptions('k', { spool: { directory: other } }).spool?.directory).toBe(other)
    }
  })

  test.each([
    ['directory', 'the path of a directory', {}],
    ['directory', 'the path of a directory', { directory: ' ' }],
    ['directory', 'the path of a directory', { directory: 7 }],
    ['directory', 'without ~', { directory: '~/spool' }],
    ['directory', 'without ~', { directory: '~' }],
    ['directory', 'or file:', { directory: 'file:///var/lib/shop' }],
    ['maxBytes', 'a whole number of at least 1048576', { directory, maxBytes: 1_048_575 }],
    ['fsync', '"off" or "batch"', { directory, fsync: true }],
    ['path', 'The options of spool are directory, maxBytes, fsync', { directory, path: '/x' }],
  ])('refuses a wrong %s: expected %s', (name, rule, spool) => {
    const error = refusal('k', { spool })
    expect(error.option).toBe(`spool.${name}`)
    expect(error.message).toContain(rule)
  })
})

describe('endpoint', () => {
  test.each([
    ['http://collect.example.com', 'http://collect.example.com/v1/batch'],
    ['https://collect.example.com/', 'https://collect.example.com/v1/batch'],
    ['http://collect.example.com?source=1', 'http://collect.example.com/v1/batch?source=1'],
    ['http://collect.example.com/in', 'http://collect.example.com/in'],
    ['http://collect.example.com/v1/', 'http://collect.example.com/v1/'],
    ['http://[::1]:8080', 'http://[::1]:8080/v1/batch'],
    ['HTTP://Collect.Example.com#part', 'http://collect.example.com/v1/batch'],
  ])('%s is requested at %s', (given, requested) => {
    expect(checkOptions('k', { endpoint: given }).endpoint.href).toBe(requested)
    expect(checkOptions('k', { endpoint: new URL(given) }).endpoint.href).toBe(requested)
  })

  test.each(['http://user@h.example', 'http://user:word@h.example', 'http://:word@h.example'])(
    'with credentials (%s) is refused without repeating them',
    (endpoint) => {
      const { message } = refusal('k', { endpoint })
      expect(message).toContain('without a user name or password')
      expect(message).not.toMatch(/user:|word@/)
    },
  )

  test('a URL object that is changed later changes nothing', () => {
    const url = new URL('http://a.example/in')
    const settings = checkOptions('k', { endpoint: url })
    url.hostname = 'b.example'
    expect(settings.endpoint.hostname).toBe('a.example')
  })

  test('is the environment’s ANALYTICS_ENDPOINT if none is given', async () => {
    const collector = await startCollector()
    vi.stubEnv('ANALYTICS_ENDPOINT', `${collector.url}/from/environment`)
    const analytics = new Analytics('k')
    trackMany(analytics, 1)
    await analytics.close()
    expect(collector.arrivals.map(({ path }) => path)).toEqual(['/from/environment'])
  })

  test('that is given goes before ANALYTICS_ENDPOINT', () => {
    vi.stubEnv('ANALYTICS_ENDPOINT', 'http://env.example')
    const { endpoint } = checkOptions('k', { endpoint: 'http://own.example' })
    expect(endpoint.hostname).toBe('own.example')
  })

  test('an empty ANALYTICS_ENDPOINT is none', () => {
    vi.stubEnv('ANALYTICS_ENDPOINT', '')
    expect(checkOptions('k', {}).endpoint.href).toBe('http://127.0.0.1:3300/v1/batch')
  })

  test('a wrong ANALYTICS_ENDPOINT is refused, and the message says where it came from', () => {
    vi.stubEnv('ANALYTICS_ENDPOINT', 'localhost:3300')
    expect(refusal('k').message).toMatch(/^endpoint \(from ANALYTICS_ENDPOINT\) must be an http/)
  })
})

describe('size', () => {
  test('is another name of flushAt', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { size: 3 })
    trackMany(analytics, 3)
    await turns()
    expect(events(...net.arrivals)).toEqual(['e0', 'e1', 'e2'])
  })

  test('together with flushAt is refused', () => {
    const { option, message } = refusal('k', { size: 3, flushAt: 3 })
    expect(option).toBe('size')
    expect(message).toMatch(/another name of flushAt/)
  })
})

test('defaults that JSON can’t hold are refused at construction', () => {
  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  for (const option of ['context', 'integrations']) {
    const error = refusal('k', { [option]: circular })
    expect(error.option).toBe(option)
    expect(error.message).toMatch(new RegExp(`^${option} must be a plain object of JSON values: `))
    expect(refusal('k', { [option]: { big: 1n } }).option).toBe(option)
  }
})

test('default context and integrations are copied: changing them later changes nothing', async () => {
  useFakeClock()
  const net = scriptedFetch()
  const context = { app: { name: 'shop' } }
  const integrations = { All: true }
  const analytics = createClient(net, { context, integrations, flushAt: 1 })
  context.app.name = 'changed'
  integrations.All = false
  trackMany(analytics, 1)
  await pass(0)
  expect(net.arrivals[0]?.messages[0]).toMatchObject({
    context: { app: { name: 'shop' } },
    integrations: { All: true },
  })
})
