import { StoreError, type StoreErrorCode } from '../store-error.js'

/**
 * What to do about errors whose codes have several reasons, or none. Their texts are those of a server that speaks English, and of
 * OpenSSL.
 */
const REASONS: [RegExp, string][] = [
  [
    /due to user request/,
    'somebody cancelled it on the server, such as by pg_cancel_backend; the next query tries again',
  ],
  [
    /too many connections for role/,
    'raise the limit of the role (ALTER ROLE … CONNECTION LIMIT), or lower connections= in the URL',
  ],
  [
    /too many connections for database/,
    'raise the limit of the database (ALTER DATABASE … CONNECTION LIMIT), or lower connections= in the URL',
  ],
  [
    /not currently accepting connections/,
    'somebody turned them off: ALTER DATABASE … ALLOW_CONNECTIONS true turns them on again',
  ],
  [
    /permission denied for (table|sequence)/,
    'grant the user all rights on the tables and sequences of the schema (GRANT ALL ON ALL TABLES IN SCHEMA, GRANT ALL ON ALL ' +
      'SEQUENCES IN SCHEMA)',
  ],
  [
    /alert (.*certificate|unknown ca|access denied|decrypt error)/,
    'the server refuses the client certificate: renew it, or check sslcert, sslkey and the ssl_ca_file of the server',
  ],
]

/** What to do about the server's error codes: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const SERVER: Record<string, [StoreErrorCode, string]> = {
  '28P01': ['failed', 'check the user and the password'],
  '28000': [
    'failed',
    'check the user, and pg_hba.conf on the server (it may require TLS: sslmode=verify-full)',
  ],
  '3D000': ['failed', 'create the database (CREATE DATABASE), or name another one'],
  '3F000': ['failed', 'the tables are missing: restart, which creates them again'],
  '42P01': ['failed', 'the tables are missing: restart, which creates them again'],
  '42501': [
    'failed',
    'let the user connect and create its schema (GRANT CONNECT, CREATE ON DATABASE), or create the schema for it (CREATE SCHEMA hookline ' +
      'AUTHORIZATION, with the name in ?schema=). If the schema belongs to another user, let it create tables there (GRANT ' +
      'USAGE, CREATE ON SCHEMA), and grant it all rights on the tables and sequences that are there',
  ],
  '42P10': [
    'failed',
    'a unique index or key of the tables was dropped. The one that finds messages again is made by CREATE UNIQUE INDEX ' +
      'deliveries_message ON hookline.deliveries (message_id, source, destination), with the name in ?schema=',
  ],
  '53100': ['full', 'make room on the server: writing then continues automatically'],
  '53300': ['failed', 'raise max_connections on the server, or lower connections= in the URL'],
  '57014': [
    'failed',
    'the server is too slow: it may be overloaded, or its tables may need a VACUUM',
  ],
  '55P03': [
    'failed',
    'another session holds locks on the tables: find it in pg_stat_activity on the server',
  ],
  '57P03': ['failed', 'the server is starting or stopping; the next query tries again'],
  '57P05': ['failed', raise('idle_session_timeout')],
  '25P03': ['failed', raise('idle_in_transaction_session_timeout')],
  '25P04': ['failed', raise('transaction_timeout')],
  '25006': [
    'failed',
    'the server takes no writes, because it is a standby or default_transaction_read_only is on: name the primary',
  ],
}

/** What to do about a limit that ends connections. */
function raise(setting: string): string {
  return `raise or remove ${setting} of the server, the database or the role; the next query uses a new connection`
}

/** What to do about errors of the system and of TLS. */
const CONNECTION: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there: start the server, or check host and port',
  ENOTFOUND: 'the host has no address: check its name',
  EAI_AGAIN: 'the name service (DNS) does not answer: check the network and its name servers',
  ENOENT: 'the socket does not exist: start the server, or check the folder',
  ECONNRESET: 'the connection was cut; the next query uses a new one',
  EPIPE: 'the connection was cut; the next query uses a new one',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed: give it, or its CA, as sslrootcert',
  SELF_SIGNED_CERT_IN_CHAIN:
    'the CA of its certificate is not trusted here: give that CA as sslrootcert',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'the CA of its certificate is not trusted here: give that CA as sslrootcert',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'the CA of its certificate is not trusted here: give that CA as sslrootcert',
  CERT_HAS_EXPIRED: 'its certificate has expired: renew it',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'its certificate is for another name: use that name as the host, or sslmode=verify-ca',
}

/** What to do about errors of the driver and of servers in between. Only their messages tell them apart. */
const DRIVER: [RegExp, string][] = [
  [
    /startup parameter/,
    'the server in between refuses it: allow it there, in PgBouncer as one of ignore_startup_parameters',
  ],
  [
    /^Query read timeout/,
    'the server or the network has stopped answering; the next query uses a new connection',
  ],
  [
    /timeout/,
    'the server does not answer, or all connections are busy; the next query tries again',
  ],
  [/terminated|not queryable|closed/, 'the connection was cut; the next query uses a new one'],
  [
    /does not support SSL/,
    'turn TLS on at the server (ssl = on), or use sslmode=disable in a network that you trust',
  ],
  [
    /password must be a string/,
    'the server requires a password: add it to the URL, or set PGPASSWORD',
  ],
]

/** Turns an error of the server, the driver or the system into a StoreError that says what to do. */
export function toStoreError(error: unknown, place: string): StoreError {
  if (error instanceof StoreError) return error
  const { code, message } = theFirstOf(error)
  const [storeCode, byCode] = SERVER[code ?? ''] ?? [
    'failed',
    CONNECTION[code ?? ''] ?? textFor(message, DRIVER),
  ]
  const fix = textFor(message, REASONS) ?? byCode
  // Node ends its message about a certificate without any name with a colon.
  const text = `store: ${place}: ${message.replace(/[: ]+$/, '')}`
  const isUnreachable =
    UNREACHABLE.test(code ?? '') ||
    (code === undefined && SILENT.test(message)) ||
    (code === '08P01' && !LASTING.test(message))
  return new StoreError(storeCode, fix === undefined ? text : `${text}: ${fix}.`, {
    cause: error,
    isUnreachable,
    isUnsure: isUnreachable && !UNASKED.test(code ?? message),
    mayPass: PASSING.test(code ?? ''),
  })
}

function textFor(message: string, texts: [RegExp, string][]): string | undefined {
  return texts.find(([pattern]) => pattern.test(message))?.[1]
}

/**
 * The codes of a server that can't be reached, is starting or stopping, or has too many connections. A name without an
 * address is one of them, because the name service of containers forgets those that are stopped.
 */
const UNREACHABLE =
  /^(ECONN|ENET|EHOST|EPIPE$|ETIMEDOUT$|ENOTFOUND$|EAI_AGAIN$|ENOENT$|57P0[123]$|53300$)/

/** The codes of a server to which no connection could be made, and the messages of the driver for that. */
const UNASKED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENOENT|57P03|53300)$|trying to connect|connection timeout|timeout expired/

/**
 * PgBouncer has the code 08P01 for whatever goes wrong between it and the server. Older versions also have it for a name or a password
 * that is wrong. Waiting does not help then.
 */
const LASTING = /startup parameter|no such|auth|password/

/**
 * The codes of a server that is a standby, is full, has its tables locked, was too slow, or ends sessions and transactions that it
 * finds too long. Such a transaction was not committed.
 */
const PASSING = /^(25006|25P0[34]|53100|55P03|57014|57P05)$/

/** The driver's messages for a connection that got no answer or was cut. */
const SILENT = /timeout|terminated|not queryable|closed/

/**
 * Whether a notice says that the wait for a synchronous standby was cancelled. PostgreSQL then reports the commit as done, and only this
 * warning tells of it. Its text is translated, and its code is that of all warnings. The function that sent it is always named:
 * https://www.postgresql.org/docs/current/protocol-error-fields.html
 */
export function isCancelledWait({ routine }: { routine: string | undefined }): boolean {
  return routine === 'SyncRepWaitForLSN'
}

/** The error of a commit of which {@link isCancelledWait} is true. As after a lost connection, nobody knows whether it will last. */
export function unconfirmed(place: string): StoreError {
  return new StoreError(
    'failed',
    `store: ${place}: the wait for a synchronous standby was cancelled, such as by pg_cancel_backend: the commit is on this server, ` +
      'but a failover may lose it. Do not cancel such statements: bring a standby back, or change synchronous_standby_names.',
    { isUnreachable: true, isUnsure: true },
  )
}

/** Whether the server ended this transaction because it collided with another one. It can be repeated at once. */
export function isToRepeat(error: unknown): boolean {
  const { code } = theFirstOf(error)
  return code === '40P01' || code === '40001'
}

/**
 * Whether a statement failed because of its values, and not because of the server: class 22 (data), 23 (constraint) or 54
 * (limit). The same statement with other values may succeed.
 *
 * @param error - The StoreError of the statement.
 */
export function isOfValues(error: unknown): boolean {
  return /^(22|23|54)/.test(codeOfCause(error))
}

/**
 * Whether a column that needs a value got none, by NOT NULL or by a check.
 *
 * @param error - The StoreError of the statement.
 */
export function isOfMissingValue(error: unknown): boolean {
  return /^(23502|23514)$/.test(codeOfCause(error))
}

/**
 * Whether a statement waited too long for the locks of another session.
 *
 * @param error - The StoreError of the statement.
 */
export function isLockedOut(error: unknown): boolean {
  return codeOfCause(error) === '55P03'
}

function codeOfCause(error: unknown): string {
  return (error instanceof StoreError && theFirstOf(error.cause).code) || ''
}

/** The driver's message if a query got no answer in time. */
export const SILENCE = 'Query read timeout'

/** Whether no answer came at all: the server did not even report its own timeout. */
export function isSilence(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(SILENCE)
}

/** Whether a server in between, such as PgBouncer or RDS Proxy, refused the settings in the startup message. */
export function isUnsupportedSetting(error: unknown): boolean {
  const { code, message } = theFirstOf(error)
  return (
    (code === '08P01' && message.includes('startup parameter')) ||
    (code === '0A000' && /command-line options|the option \w+/.test(message))
  )
}

/**
 * Whether a prepared statement can't be used: a server in between gives the transactions of one connection to several
 * connections of the server, or the tables were made again in another form. Nothing was carried out.
 */
export function isOfPrepared(error: unknown): boolean {
  const { code, message } = theFirstOf(error)
  return (
    code === '26000' || code === '42P05' || (code === '0A000' && message.includes('cached plan'))
  )
}

/** The first error: a host with several addresses fails with one error for each address. */
function theFirstOf(error: unknown): { code: string | undefined; message: string } {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  if (!(first instanceof Error)) return { code: undefined, message: String(first) }
  const { code } = first as { code?: unknown }
  return { code: typeof code === 'string' ? code : undefined, message: first.message }
}
