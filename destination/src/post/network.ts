import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, type SecureContext } from 'node:tls'
import { buildConnector } from 'undici'
import { Connections } from './connections.js'
import { Deadline } from './deadline.js'
import { createGuard, type Lookup } from './guard.js'
import { createResolver } from './resolver.js'

/** What all attempts of a process share: how connections are made, the deadline, the clock. */
export interface Network {
  /** Opens a socket. Addresses that may not be reached are refused. */
  connect: buildConnector.connector
  /** The connections to all endpoints, made with `connect`. */
  connections: Connections
  /** Resolves host names, as `connect` does. It also returns the addresses that may not be reached. */
  lookup: Lookup
  /** The deadline of each attempt. */
  deadline: Deadline
  /** The time of day in ms since the epoch, which dates in `Retry-After` are compared with. */
  now(): number
}

export interface NetworkOptions {
  /** Private or reserved networks that may be reached, in CIDR notation. */
  allowNetworks: readonly string[]
  /** Certificates in PEM that are trusted in addition to those that the process trusts. */
  ca: readonly string[]
  /**
   * The time for one attempt, in ms: DNS, connection, TLS, request and answer together.
   * @defaultValue 5,000
   */
  deadlineMs?: number
  /**
   * So many connections stay open. Beyond them, idle ones are closed for those in use.
   * @defaultValue 4,096
   */
  maxConnections?: number | undefined
  /**
   * Resolves host names.
   * @defaultValue The resolver of this room: the hosts file, name servers with a cache, the system's resolver.
   */
  lookup?: Lookup
  /**
   * The time of day in ms since the epoch.
   * @defaultValue `Date.now`
   */
  now?: () => number
}

const MAX_CONNECTIONS = 4_096

/**
 * If a name has several addresses: the time until the next one is tried, in ms. Node's 250 ms are too short for distant
 * hosts.
 */
const NEXT_ADDRESS_MS = 1_000

/**
 * The part of the deadline that a lookup may take. It ends before the deadline, so that the outcome names the silent name
 * servers as the cause.
 */
const DNS_SHARE = 0.8

/**
 * Makes the TLS context of all connections. It is made once, because reading the well-known certificates takes
 * milliseconds. Node's option `ca` would replace all that the process trusts, which options such as `--use-openssl-ca` and
 * `--use-system-ca` decide, so the certificates are added to the default. Node 20 then forgets those of `NODE_EXTRA_CA_CERTS`.
 */
function trusting(ca: readonly string[]): SecureContext {
  const secureContext = createSecureContext()
  if (ca.length === 0) return secureContext
  for (const [index, pem] of ca.entries()) requireCertificate(pem, index)
  const native = secureContext.context as NativeContext
  for (const pem of [...extraCertificates(), ...ca]) native.addCACert(pem)
  return secureContext
}

/** The part of a TLS context to which Node itself adds the certificates of `ca`. Its types do not have it. */
interface NativeContext {
  addCACert(pem: string): void
}

/** If the file can't be read, Node has warned of that at its start, and goes on without it. */
function extraCertificates(): string[] {
  const file = process.env['NODE_EXTRA_CA_CERTS']
  try {
    return file ? [readFileSync(file, 'utf8')] : []
  } catch {
    return []
  }
}

/** Node ignores an invalid certificate silently, and the connections that need it would fail later. */
function requireCertificate(pem: string, index: number): void {
  try {
    new X509Certificate(pem)
  } catch (cause) {
    const expected = 'a certificate in PEM that starts with -----BEGIN CERTIFICATE-----'
    throw new TypeError(`ca[${index}] must be ${expected}`, { cause })
  }
}

/** @throws TypeError if `allowNetworks` contains an invalid network, or `ca` an invalid certificate. */
export function createNetwork(options: NetworkOptions): Network {
  const { ca, deadlineMs = 5_000, maxConnections = MAX_CONNECTIONS, now = Date.now } = options
  const { lookup = createResolver({ lateMs: deadlineMs * DNS_SHARE }) } = options
  const guard = createGuard(options.allowNetworks, lookup)
  const dial = buildConnector({
    lookup: guard.lookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
    timeout: deadlineMs,
    secureContext: trusting(ca),
  })
  const connect: buildConnector.connector = (target, callback) => {
    const refusal = guard.refusal(target.hostname)
    if (refusal === undefined) {
      dial(target, callback)
      return
    }
    queueMicrotask(() => {
      callback(refusal, null)
    })
  }
  return {
    connect,
    connections: new Connections(connect, maxConnections),
    lookup,
    deadline: new Deadline(deadlineMs),
    now,
  }
}
