import type { ConnectionOptions } from 'node:tls'
import { readTls } from './tls.js'
import { urlError } from './url-error.js'

/** The parts of a store's URL. */
export interface Address {
  /**
   * If one of the first five is `undefined`, the driver reads it from the environment: `PGHOST`, `PGUSER` and so on.
   */
  host: string | undefined
  port: number | undefined
  user: string | undefined
  password: string | undefined
  database: string | undefined
  tls: ConnectionOptions | false
  /** The schema of the tables, in double quotes, as in statements. */
  schema: string
  /** The name of this process in the server's lists, such as `pg_stat_activity`. */
  applicationName: string
  /** The most connections, not counting the one that listens for notifications. */
  connections: number
  /** How long the server may work on a statement, in ms. */
  statementTimeoutMs: number
  /** The URL without password and parameters, for error messages. */
  name: string
}

/** The default schema. */
const SCHEMA = 'hookline'

/** Puts, settlements and claims take one connection each. Two are left for everything else. */
const CONNECTIONS = 5

/** In ms: far more than any statement needs, but clients do not wait much longer for an answer. */
const STATEMENT_TIMEOUT_MS = 5_000

const PARAMETERS = [
  'application_name',
  'connections',
  'host',
  'schema',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslrootcert',
  'statement_timeout',
]

/**
 * Parses a store's URL: `postgres://user:password@host:port/database` with parameters.
 *
 * - `schema`: the schema of the tables. The default is `hookline`.
 * - `connections`: the most connections, from 1 to 100, not counting the one that listens. The default is 5.
 * - `statement_timeout`: in ms, from 100 to 600,000. The default is 5,000. The driver gives up 2 s later than the
 *   server.
 * - `sslmode`: `disable` (the default); `verify-full`; `verify-ca`, which accepts any name in the certificate; or
 *   `require`, which means the same as `verify-full`.
 * - `sslrootcert`, `sslcert`, `sslkey`: paths of PEM files.
 * - `host`: the folder of a Unix socket, or a host. It replaces the host before the database, as in libpq.
 * - `application_name`: the default is `hookline-destination`.
 *
 * @throws StoreError `unsupported` if the URL is not valid. The message never contains the password.
 */
export function parseUrl(text: string): Address {
  const url = toUrl(text)
  const parameters = url.searchParams
  const keys = [...parameters.keys()]
  const unknown = keys.find((key) => !PARAMETERS.includes(key))
  if (unknown !== undefined) {
    throw urlError(`has the unknown parameter ${unknown}: expected one of ${PARAMETERS.join(', ')}`)
  }
  const repeated = keys.find((key, i) => keys.indexOf(key) < i)
  if (repeated !== undefined) {
    throw urlError(`has the parameter ${repeated} more than once: expected each parameter once`)
  }
  const address = {
    host: parameters.get('host') || decode(url.hostname),
    port: url.port ? Number(url.port) : undefined,
    user: decode(url.username),
    password: decode(url.password),
    database: decode(url.pathname.slice(1)),
    tls: readTls(parameters),
    schema: toSchema(parameters.get('schema') ?? SCHEMA),
    applicationName: parameters.get('application_name') ?? 'hookline-destination',
    connections: toNumber(parameters, 'connections', CONNECTIONS, [1, 100]),
    statementTimeoutMs: toNumber(
      parameters,
      'statement_timeout',
      STATEMENT_TIMEOUT_MS,
      [100, 600_000],
    ),
  }
  return { ...address, name: nameOf(address) }
}

function toUrl(text: string): URL {
  if (!URL.canParse(text)) {
    throw urlError(
      'is not valid: expected postgres://user:password@host:5432/database. Percent-encode special characters in the ' +
        'user and the password, as in p%40ss for p@ss',
    )
  }
  if (text.includes('#')) {
    throw urlError('has a #, which would end it: write %23 for a # in the user or the password')
  }
  const url = new URL(text)
  // `URL` takes the start of a password such as 12/34 for a port, and the errors would show the rest.
  if (url.username === '' && url.port !== '' && `${url.pathname}${url.search}`.includes('@')) {
    throw urlError(
      'has no user, but an @ after the host: write %2F for a / and %3F for a ? in the password, and %40 for any other @',
    )
  }
  if (url.href.includes('%00')) {
    throw urlError('has a %00: expected no such character, because PostgreSQL takes it nowhere')
  }
  return url
}

function decode(part: string): string | undefined {
  if (part === '') return undefined
  try {
    // A URL has an IPv6 address in brackets, which the driver does not accept.
    return decodeURIComponent(part).replace(/^\[(.*)\]$/, '$1')
  } catch {
    throw urlError('has a % that does not start a percent-encoding: write %25 for a percent sign')
  }
}

function toSchema(name: string): string {
  // The channel's name contains the schema's name, and the server cuts names after 63 bytes.
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(name)) {
    throw urlError(
      `has the schema ${JSON.stringify(name)}: expected up to 40 lowercase letters, digits and ` +
        'underscores, without a digit at the start',
    )
  }
  if (name.startsWith('pg_')) {
    throw urlError(
      `has the schema ${name}: expected a name that does not start with pg_, because these are PostgreSQL's own`,
    )
  }
  return `"${name}"`
}

function toNumber(
  parameters: URLSearchParams,
  name: string,
  byDefault: number,
  [least, most]: [number, number],
): number {
  const text = parameters.get(name)
  if (text === null) return byDefault
  const number = Number(text)
  if (Number.isInteger(number) && number >= least && number <= most) return number
  throw urlError(`has ${name}=${text}: expected a whole number from ${least} to ${most}`)
}

function nameOf({ host, port, user, database }: Omit<Address, 'name'>): string {
  const place = `${host ?? 'localhost'}${port === undefined ? '' : `:${port}`}`
  return `postgres://${user === undefined ? '' : `${user}@`}${place}/${database ?? ''}`
}
