import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { StoreError } from '../store-error.js'

/** Where a store is, and how it is reached. */
export interface Address {
  /** `undefined` leaves each of these four to the environment: PGHOST, PGUSER, PGPASSWORD and their like. */
  host: string | undefined
  port: number | undefined
  user: string | undefined
  password: string | undefined
  database: string | undefined
  tls: ConnectionOptions | false
  /** The schema that has the tables, as it stands in statements. */
  schema: string
  /** How the server's own lists name this process. */
  applicationName: string
  /** Connections at most, one to listen with aside. */
  connections: number
  /** How long the server may work at a statement, in ms. */
  statementTimeoutMs: number
  /** For messages: everything but the password. */
  name: string
}

/** In which schema the tables are, unless the URL says otherwise. */
const SCHEMA = 'hookline'

/** Puts, settlements and claims have one each, and two are left for all else. */
const CONNECTIONS = 5

/** In ms: far more than any statement takes, far less than anybody waits. */
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
 * Takes a store's URL apart: `postgres://user:password@host:port/database`, and parameters.
 *
 * - `schema`: which one has the tables. `connections`: how many at most, one to listen with aside.
 *   `statement_timeout`: in ms; the driver gives up 2 s after that.
 * - `sslmode`: `disable` (the default), `verify-full`, `verify-ca` (any name will do), or `require`, which is taken
 *   for `verify-full`. `sslrootcert`, `sslcert`, `sslkey`: files in PEM.
 * - `host`: a folder, for a Unix socket. `application_name`.
 *
 * @throws StoreError `unsupported`, never with the password, if it is no such URL.
 */
export function parseUrl(text: string): Address {
  const url = toUrl(text)
  const parameters = url.searchParams
  const unknown = [...parameters.keys()].find((key) => !PARAMETERS.includes(key))
  if (unknown !== undefined) {
    throw unsupported(
      `has the unknown parameter ${unknown}: expected one of ${PARAMETERS.join(', ')}`,
    )
  }
  const address = {
    host: decode(url.hostname) ?? parameters.get('host') ?? undefined,
    port: url.port ? Number(url.port) : undefined,
    user: decode(url.username),
    password: decode(url.password),
    database: decode(url.pathname.slice(1)),
    tls: toTls(parameters),
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
    throw unsupported(
      'is not valid: expected postgres://user:password@host:5432/database. Percent-encode special characters in the ' +
        'user and the password, as in p%40ss for p@ss',
    )
  }
  return new URL(text)
}

function decode(part: string): string | undefined {
  if (part === '') return undefined
  try {
    // A literal IPv6 address is in brackets.
    return decodeURIComponent(part).replace(/^\[(.*)\]$/, '$1')
  } catch {
    throw unsupported(
      'has a % that does not start a percent-encoding: write %25 for a percent sign',
    )
  }
}

function toSchema(name: string): string {
  // The channel's name and the tables' are made of it, and the server cuts names at 63 bytes.
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(name)) {
    throw unsupported(
      `has the schema ${JSON.stringify(name)}: expected up to 40 lowercase letters, digits and underscores, without a digit at the start`,
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
  throw unsupported(`has ${name}=${text}: expected a whole number from ${least} to ${most}`)
}

function toTls(parameters: URLSearchParams): ConnectionOptions | false {
  const mode = parameters.get('sslmode') ?? 'disable'
  const ca = readPem(parameters, 'sslrootcert')
  const cert = readPem(parameters, 'sslcert')
  const key = readPem(parameters, 'sslkey')
  switch (mode) {
    case 'disable':
      if ((ca ?? cert ?? key) === undefined) return false
      throw unsupported('has certificates but no TLS: add sslmode=verify-full')
    case 'require':
    case 'verify-full':
      return { ca, cert, key, rejectUnauthorized: true }
    case 'verify-ca':
      return { ca, cert, key, rejectUnauthorized: true, checkServerIdentity: () => undefined }
    default:
      throw unsupported(
        `has sslmode=${mode}: expected verify-full, verify-ca or disable. Modes that do not verify ` +
          "the server's certificate are refused. Give a private CA as sslrootcert",
      )
  }
}

function readPem(parameters: URLSearchParams, name: string): string | undefined {
  const path = parameters.get(name)
  if (path === null) return undefined
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw unsupported(`has ${name}=${path}, which can't be read`, cause)
  }
}

function nameOf({ host, port, user, database }: Omit<Address, 'name'>): string {
  const place = `${host ?? 'localhost'}${port === undefined ? '' : `:${port}`}`
  return `postgres://${user === undefined ? '' : `${user}@`}${place}/${database ?? ''}`
}

function unsupported(what: string, cause?: unknown): StoreError {
  return new StoreError('unsupported', `store: the URL ${what}.`, { cause })
}
