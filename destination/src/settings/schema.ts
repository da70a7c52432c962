import * as z from 'zod'
import { parsePostgresUrl, sqlitePath, type StorePlace, type StoreServer } from '../store/kind.js'
import { MAX_SERVERS } from '../store/server-ids.js'
import type { StoreError } from '../store/store-error.js'
import { readCertificates } from './certificates.js'
import { parseDuration } from './duration.js'
import { checkHeaders } from './headers.js'
import { readPatterns, readTypes, refuseUseless } from './filters.js'
import { isName, NAME_RULE } from './name.js'
import { parseListen, parseNetwork } from './network.js'
import type { Refuse } from './problem.js'
import { problemOfUrl } from './url.js'
import { readWhere } from './where.js'

/**
 * The rules for each single value. The rules between values, such as unique names, are in `relations.ts`.
 *
 * Messages may contain placeholders, which `check.ts` fills in because it knows which values are secret: `{got}` is the
 * value, or its type and size if it is secret; `{shape}` is always the type and size.
 *
 * @param folder - The folder that relative paths in `ca` start from.
 * @param hasStored - Whether there may be sources and destinations in the store, so that the file may have none.
 */
export function settingsSchema(folder: string, hasStored: boolean) {
  return fields({
    listen: value(readListen).default({ host: '127.0.0.1', port: 3300 }),
    adminListen: value(readListen).optional(),
    sources: hasStored
      ? list(sourceSchema, { what: 'sources' }).default([])
      : list(sourceSchema, { min: 1, what: 'at least one source' }),
    destinations: hasStored
      ? list(destinationSchema, { what: 'destinations' }).default([])
      : list(destinationSchema, { what: 'destinations' }),
    tenants: list(tenantSchema, { what: 'tenants' }).default([]),
    settingsKey: value(readSettingsKeys).optional(),
    store: value(readStore).default('sqlite:./data/hookline.db'),
    adminToken: value(readToken).optional(),
    operatorToken: value(readToken).optional(),
    portal: fields({
      url: value(readPortalUrl).optional(),
      frameAncestors: list(value(readAncestor), { what: 'origins' }).default([]),
    }).optional(),
    allowNetworks: list(value(readNetwork), { what: 'networks' }).default([]),
    ca: value((given, refuse) => readCa(given, refuse, folder)).default([]),
    traceContext: value(readEnabled).default(false),
    alerts: alerts.optional(),
    retention: value(readRetention).default(7 * 86_400_000),
  })
}

/** A value that one function reads. The function returns `undefined` after it has refused the value. */
function value<Value>(read: (given: unknown, refuse: Refuse) => Value | undefined) {
  return z.unknown().transform((given, context): Value => {
    const result = read(given, (message, step = []) => {
      const path = typeof step === 'object' ? [...step] : [step]
      context.addIssue({ code: 'custom', message, path })
    })
    // If `read` returned undefined, it has refused: the check fails, and nobody sees this value.
    return result as Value
  })
}

/** An object that may only have the given fields. */
function fields<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, { error: 'expected an object with named fields, got {got}.' })
}

/** A list of `min` to `max` elements. `what` describes them in the error. */
function list<Element extends z.ZodType>(
  element: Element,
  { min = 0, max = Infinity, what }: { min?: number; max?: number; what: string },
) {
  const error = `expected a list of ${what}, got {got}.`
  return z.array(element, { error }).refine((given) => given.length >= min && given.length <= max, {
    error,
    // By default zod skips this rule if an element is wrong. The length is reported together with wrong elements.
    when: ({ value }) => Array.isArray(value),
  })
}

const name = value((given, refuse) => {
  if (isName(given)) return given
  refuse(NAME_RULE)
  return undefined
})

const rateLimit = fields({
  callsPerSecond: value((given, refuse) => readCount(given, refuse, 1_000_000)),
  burst: value((given, refuse) => readCount(given, refuse, 10_000_000)).optional(),
}).transform(({ callsPerSecond, burst = callsPerSecond }) => ({ callsPerSecond, burst }))

/** The rules for one source. */
export const sourceSchema = fields({
  name,
  tenant: name.optional(),
  writeKey: value(readWriteKeys),
  rateLimit: rateLimit.optional(),
})

const endpoint = fields({
  url: value(readUrl),
  headers: value(readHeaders).default({}),
  concurrency: value((given, refuse) => readCount(given, refuse, 1_000)).default(128),
  rateLimit: fields({ requestsPerSecond: value(readRate) })
    .transform(({ requestsPerSecond }) => requestsPerSecond)
    .optional(),
})

const filter = fields({
  sources: list(name, { min: 1, what: 'at least one source name' }).optional(),
  types: value(readTypes).optional(),
  events: fields({
    allow: value(readPatterns).optional(),
    deny: value(readPatterns).optional(),
  }).optional(),
  where: value(readWhere).optional(),
}).superRefine((given, context) => {
  refuseUseless(given, (message, step = []) => {
    context.addIssue({
      code: 'custom',
      message,
      path: typeof step === 'object' ? [...step] : [step],
    })
  })
})

/** The rules for one destination. */
export const destinationSchema = fields({
  name,
  tenant: name.optional(),
  sources: list(name, { min: 0, what: 'source names' }),
  enabled: value(readEnabled).default(true),
  filters: list(filter, { what: 'filters' }).optional(),
  sharedSecret: value(readSharedSecrets).optional(),
  webhookSecret: value(readWebhookSecrets).optional(),
  webhooks: list(endpoint, { min: 1, max: 5, what: '1 to 5 webhooks' }),
})

const quotas = fields({
  callsPerSecond: value((given, refuse) => readCount(given, refuse, 1_000_000)).optional(),
  burst: value((given, refuse) => readCount(given, refuse, 10_000_000)).optional(),
  waiting: value((given, refuse) => readCount(given, refuse, 100_000_000)).optional(),
  concurrency: value((given, refuse) => readCount(given, refuse, 10_000)).optional(),
})
  .superRefine(({ burst, callsPerSecond }, context) => {
    if (burst === undefined || callsPerSecond !== undefined) return
    const message = 'expected "callsPerSecond" beside it. Add it, or remove this field.'
    context.addIssue({ code: 'custom', message, path: ['burst'] })
  })
  .transform(({ callsPerSecond, burst = callsPerSecond, ...rest }) => ({
    ...(callsPerSecond !== undefined && { callsPerSecond, burst }),
    ...rest,
  }))

/** The rules for one tenant. */
export const tenantSchema = fields({
  name,
  title: value(readTitle).optional(),
  quotas: quotas.optional(),
  portal: fields({ editUrls: value(readEnabled).default(false) }).default({ editUrls: false }),
})

const alerts = fields({
  destination: name.optional(),
  after: list(value(readAlertTime), { min: 1, max: 5, what: '1 to 5 durations' }).default([
    3_600_000, 86_400_000, 432_000_000,
  ]),
  pauseAfter: value((given, refuse) =>
    given === false ? false : readAlertTime(given, refuse),
  ).default(432_000_000),
  deadLetters: value(readDeadLetters).default({ count: 100, withinMs: 3_600_000 }),
}).transform(({ destination, after, pauseAfter, deadLetters }) => ({
  destination,
  afterMs: [...new Set(after)].sort((a, b) => a - b),
  pauseAfterMs: pauseAfter === false ? undefined : pauseAfter,
  deadLetters: deadLetters === false ? undefined : deadLetters,
}))

function readTitle(given: unknown, refuse: Refuse) {
  const length = typeof given === 'string' ? Array.from(given).length : 0
  const isText = typeof given === 'string' && length >= 1 && length <= 100
  if (!isText) refuse('expected 1 to 100 characters, got {got}.')
  else if (/\p{Cc}/u.test(given)) refuse('expected no control characters, got {got}.')
  else if (given.trim() !== given) {
    refuse('expected no white space at the start or the end, got {got}.')
  } else return given
  return undefined
}

function readListen(given: unknown, refuse: Refuse) {
  const address = parseListen(given)
  if (!address) {
    refuse(
      'expected a host and a port, such as "127.0.0.1:3300", "0.0.0.0:3300" for all interfaces, ' +
        '"[::1]:3300" or 3300, got {got}.',
    )
  }
  return address
}

function readWriteKey(given: unknown, refuse: Refuse) {
  if (typeof given !== 'string' || given === '') refuse('expected a non-empty string, got {got}.')
  else if (given.includes(':')) {
    // RFC 7617 section 2: the user name of Basic authentication ends at the first colon.
    refuse(
      'expected a key without a colon, got {got}. ' +
        'Clients send the key as the user name of HTTP Basic authentication, which ends at the first colon.',
    )
  } else if (given.trim() !== given) refuse(SURROUNDED)
  else return given
  return undefined
}

/** Reads one key, or two during a rotation. */
function readWriteKeys(given: unknown, refuse: Refuse): string[] | undefined {
  return readSecrets(given, refuse, readWriteKey, 'key')
}

function readSharedSecret(given: unknown, refuse: Refuse) {
  if (typeof given !== 'string') refuse('expected a string, got {got}.')
  else if (given === '') {
    refuse(
      'expected a non-empty string, got {got}. Remove the field to send requests without a signature.',
    )
  } else if (given.trim() !== given) refuse(SURROUNDED)
  else return given
  return undefined
}

/** Reads one secret, or two during a rotation. */
function readSharedSecrets(given: unknown, refuse: Refuse): string[] | undefined {
  return readSecrets(given, refuse, readSharedSecret)
}

function readWebhookSecrets(given: unknown, refuse: Refuse): string[] | undefined {
  return readSecrets(given, refuse, readWebhookSecret)
}

function readSecrets(
  given: unknown,
  refuse: Refuse,
  read: (given: unknown, refuse: Refuse) => string | undefined,
  what = 'secret',
): string[] | undefined {
  if (!Array.isArray(given)) {
    const secret = read(given, refuse)
    return secret === undefined ? undefined : [secret]
  }
  const secrets: unknown[] = given
  if (secrets.length < 1 || secrets.length > 2) {
    refuse(`expected one ${what}, or a list of two during a rotation, got {got}.`)
    return undefined
  }
  if (secrets.length === 2 && secrets[0] === secrets[1]) {
    refuse(`is the same ${what} as the first. Change or remove one of the two.`, 1)
  }
  return secrets.flatMap((secret, index) => {
    const refuseOne: Refuse = (message) => {
      refuse(message, index)
    }
    return read(secret, refuseOne) ?? []
  })
}

/** Source: Standard Webhooks, "Signature scheme". A secret is the prefix and a key of 24 to 64 bytes in base64. */
function readWebhookSecret(given: unknown, refuse: Refuse) {
  if (typeof given === 'string' && given.startsWith('whsec_')) {
    const base64 = given.slice('whsec_'.length)
    const key = Buffer.from(base64, 'base64')
    const isKey = key.length >= 24 && key.length <= 64 && key.toString('base64') === base64
    if (isKey) return given
  }
  refuse(
    'expected "whsec_" followed by 24 to 64 bytes in base64, got {got}. ' +
      'Create one with `echo "whsec_$(openssl rand -base64 32)"`.',
  )
  return undefined
}

const SURROUNDED =
  'expected no white space at the start or the end, got {got} that has some. ' +
  'Remove it: a program that trims its copy of the value would use a different one.'

function readToken(given: unknown, refuse: Refuse) {
  if (typeof given === 'string' && /^[\x21-\x7e]{16,}$/.test(given)) return given
  refuse(
    'expected at least 16 ASCII characters without spaces, got {got}. ' +
      'Create a token with `openssl rand -hex 24`.',
  )
  return undefined
}

/** The paths of the portal follow it: `/portal`, `/assets/` and `/v1/portal/`. */
function readPortalUrl(given: unknown, refuse: Refuse) {
  const url = typeof given === 'string' && URL.canParse(given) ? new URL(given) : undefined
  if (url && /^https?:$/.test(url.protocol) && url.href === url.origin + url.pathname)
    return url.href.replace(/\/+$/, '')
  refuse(
    'expected a URL without credentials, a query and a fragment, such as "https://portal.example.com", got {got}.',
  )
  return undefined
}

/** A host source of a Content Security Policy (CSP level 3, 2.3.1). Anything else could add directives to the policy. */
function readAncestor(given: unknown, refuse: Refuse) {
  const HOST_SOURCE = /^https?:\/\/(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d{1,5})?$/
  if (typeof given === 'string' && HOST_SOURCE.test(given)) return given
  refuse(
    'expected the origin of a page, such as "https://app.example.com" or "https://*.example.com", got {got}.',
  )
  return undefined
}

/** In bytes: what AES-256 needs. */
const SETTINGS_KEY_BYTES = 32

/** Reads one key, or a list of keys of which the first one encrypts. */
function readSettingsKeys(given: unknown, refuse: Refuse): string[] | undefined {
  const keys: unknown[] = Array.isArray(given) ? given : [given]
  if (keys.length === 0) {
    refuse('expected one key, or a list of keys of which the first one encrypts, got {got}.')
    return undefined
  }
  return keys.flatMap((key, index) => {
    const bytes = typeof key === 'string' ? Buffer.from(key, 'base64') : undefined
    const isKey = bytes?.length === SETTINGS_KEY_BYTES && bytes.toString('base64') === key
    if (isKey) return bytes.toString('base64')
    refuse(
      `expected ${SETTINGS_KEY_BYTES} bytes in base64, got {shape}. Create a key with \`openssl rand -base64 ${SETTINGS_KEY_BYTES}\`.`,
      Array.isArray(given) ? index : undefined,
    )
    return []
  })
}

function readEnabled(given: unknown, refuse: Refuse) {
  // The value of an environment variable is always a string.
  if (given === true || given === 'true') return true
  if (given === false || given === 'false') return false
  refuse('expected true or false, got {got}.')
  return undefined
}

function readCount(given: unknown, refuse: Refuse, max: number) {
  const count = typeof given === 'string' && /^\d+$/.test(given) ? Number(given) : given
  if (Number.isInteger(count) && (count as number) >= 1 && (count as number) <= max) {
    return count as number
  }
  refuse(`expected a whole number from 1 to ${max.toLocaleString('en')}, got {got}.`)
  return undefined
}

function readRate(given: unknown, refuse: Refuse) {
  const rate = typeof given === 'string' && /^[\d.]+$/.test(given) ? Number(given) : given
  if (typeof rate === 'number' && rate >= 0.1 && rate <= 10_000) return rate
  refuse('expected a number from 0.1 to 10,000, got {got}.')
  return undefined
}

function readUrl(given: unknown, refuse: Refuse) {
  const problem = problemOfUrl(given)
  if (problem === undefined) return given as string
  refuse(problem)
  return undefined
}

function readHeaders(given: unknown, refuse: Refuse): Record<string, string> | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    refuse('expected an object of names and values, such as { "X-Team": "growth" }, got {shape}.')
    return undefined
  }
  for (const { name, message } of checkHeaders(given as Record<string, unknown>)) {
    refuse(message, name)
  }
  return given as Record<string, string>
}

function readStore(given: unknown, refuse: Refuse): StorePlace | undefined {
  if (Array.isArray(given)) return readServers(given, refuse)
  if (typeof given === 'string' && /^sqlite:./.test(given)) {
    return readStoreUrl(given, sqlitePath, refuse)
  }
  if (isPostgresUrl(given)) return readStoreUrl(given, parsePostgresUrl, refuse)
  refuse(
    'expected "sqlite:" and a path, such as "sqlite:./data/hookline.db", a URL that starts with ' +
      '"postgres://", or a list of servers, got {got}.',
  )
  return undefined
}

function isPostgresUrl(given: unknown): given is string {
  return typeof given === 'string' && /^postgres(ql)?:\/\/./.test(given)
}

function readStoreUrl(
  url: string,
  parse: (url: string) => unknown,
  refuse: Refuse,
  step?: PropertyKey[],
): string | undefined {
  try {
    parse(url)
    return url
  } catch (error) {
    // The message never contains the password.
    refuse((error as StoreError).message.replace(/^store: /, ''), step)
    return undefined
  }
}

/** Reads the servers of a store. Each has a name, because its URL may change. */
function readServers(given: readonly unknown[], refuse: Refuse): StoreServer[] | undefined {
  if (given.length < 1 || given.length > MAX_SERVERS) {
    refuse(`expected 1 to ${MAX_SERVERS} servers, got {got}.`)
    return undefined
  }
  const seen = { name: new Set<unknown>(), url: new Set<unknown>() }
  return given.flatMap((server, index) => {
    if (typeof server !== 'object' || server === null || Array.isArray(server)) {
      refuse('expected an object such as { "name": "a", "url": "postgres://…" }, got {got}.', index)
      return []
    }
    const { name, url, ...others }: Record<string, unknown> = { ...server }
    for (const field of Object.keys(others)) {
      refuse('there is no such field. The fields here are name, url.', [index, field])
    }
    if (!isName(name)) refuse(NAME_RULE, [index, 'name'])
    if (!isPostgresUrl(url)) {
      refuse('expected a URL that starts with "postgres://", got {got}.', [index, 'url'])
    } else readStoreUrl(url, parsePostgresUrl, refuse, [index, 'url'])
    for (const [field, value] of [['name', name] as const, ['url', url] as const]) {
      if (seen[field].has(value)) {
        refuse('is that of another server too. Each server has its own.', [index, field])
      }
      seen[field].add(value)
    }
    return isName(name) && isPostgresUrl(url) ? [{ name, url }] : []
  })
}

function readNetwork(given: unknown, refuse: Refuse) {
  const network = parseNetwork(given)
  if (network === undefined) {
    refuse(
      'expected a network such as "10.20.0.0/16" or "fd00::/8", or a single IP address, got {got}.',
    )
  }
  return network
}

function readCa(given: unknown, refuse: Refuse, folder: string): string[] | undefined {
  const paths: unknown[] = Array.isArray(given) ? given : [given]
  return paths.flatMap((path, index) => {
    const step = Array.isArray(given) ? index : undefined
    if (typeof path !== 'string' || path === '') {
      refuse('expected the path of a PEM file with certificates, got {got}.', step)
      return []
    }
    try {
      return readCertificates(path, folder)
    } catch (error) {
      refuse(`{got} ${(error as Error).message}.`, step)
      return []
    }
  })
}

/** The longest time of an alert. Endpoints that have failed for longer are hardly ever repaired. */
const MOST_ALERT_MS = 90 * 86_400_000

function readAlertTime(given: unknown, refuse: Refuse) {
  const ms = parseDuration(given)
  if (ms !== undefined && ms >= 60_000 && ms <= MOST_ALERT_MS) return ms
  refuse('expected a duration from "1m" to "90d", such as "1h" or "5d", got {got}.')
  return undefined
}

function readDeadLetters(given: unknown, refuse: Refuse) {
  if (given === false) return false
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    refuse('expected false, or an object such as { "count": 100, "within": "1h" }, got {got}.')
    return undefined
  }
  const { count, within, ...others }: Record<string, unknown> = { ...given }
  for (const field of Object.keys(others)) {
    refuse('there is no such field. The fields here are count, within.', field)
  }
  const most = readCount(count, at(refuse, 'count'), 1_000_000)
  const withinMs = readAlertTime(within, at(refuse, 'within'))
  return most === undefined || withinMs === undefined ? undefined : { count: most, withinMs }
}

/** Refuses the field of a value. */
function at(refuse: Refuse, field: string): Refuse {
  return (message) => {
    refuse(message, field)
  }
}

/** The 4 hours of retries. A message that is deleted earlier misses retries, and its duplicates are not recognized. */
const LEAST_RETENTION_MS = 4 * 3_600_000

function readRetention(given: unknown, refuse: Refuse) {
  const ms = parseDuration(given)
  if (ms === undefined) refuse('expected a duration such as "7d", "12h" or "300m", got {got}.')
  else if (ms < LEAST_RETENTION_MS) {
    refuse(
      'expected at least "4h", got {got}. A message is retried for 4 hours, and the store must keep it until then.',
    )
  } else return ms
  return undefined
}
