import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls'
import { buildConnector } from 'undici'
import { Deadline } from './deadline.js'
import { createGuard, type Lookup } from './guard.js'

/** What the attempts of a process share: the way to an address, the deadline, the clock. */
export interface Network {
  /** Connects, to addresses that may be reached alone. */
  connect: buildConnector.connector
  /** How long an attempt may take in all. */
  deadline: Deadline
  /** Ms since the epoch, for dates in answers. */
  now(): number
}

export interface NetworkOptions {
  /** Networks, in CIDR notation, that are reached although they are private. */
  allowNetworks: readonly string[]
  /** Certificates in PEM, trusted beside the well-known ones and those of `NODE_EXTRA_CA_CERTS`. */
  ca: readonly string[]
  /**
   * DNS, connect, TLS, request and the status line, all in all.
   * @defaultValue 5,000
   */
  deadlineMs?: number
  /** @defaultValue the system's, as for any other program on this machine */
  lookup?: Lookup
  /** @defaultValue `Date.now` */
  now?: () => number
}

/** One address of several gets this long before the next is tried too; Node's 250 ms are too few for far ones. */
const NEXT_ADDRESS_MS = 1_000

/**
 * Made once: to read all well-known certificates for each connection would take milliseconds. A list of one's own takes
 * the place of Node's, and has to have all that is in it.
 */
function trusting(ca: readonly string[]): SecureContext {
  if (ca.length === 0) return createSecureContext()
  for (const [index, pem] of ca.entries()) requireCertificate(pem, index)
  const extra = process.env['NODE_EXTRA_CA_CERTS']
  const extras = extra ? [readFileSync(extra, 'utf8')] : []
  return createSecureContext({ ca: [...rootCertificates, ...extras, ...ca] })
}

/** Node passes over what is none without a word, and then trusts nobody more than before. */
function requireCertificate(pem: string, index: number): void {
  try {
    new X509Certificate(pem)
  } catch (cause) {
    const expected = 'a certificate in PEM that starts with -----BEGIN CERTIFICATE-----'
    throw new TypeError(`ca[${index}] must be ${expected}`, { cause })
  }
}

/** @throws TypeError if `allowNetworks` has something else than networks, or `ca` than certificates */
export function createNetwork(options: NetworkOptions): Network {
  const { ca, deadlineMs = 5_000, now = Date.now } = options
  const guard = createGuard(options.allowNetworks, options.lookup)
  const dial = buildConnector({
    lookup: guard.lookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
    timeout: deadlineMs,
    secureContext: trusting(ca),
  })
  return {
    connect: (target, callback) => {
      const refusal = guard.refusal(target.hostname)
      if (refusal === undefined) {
        dial(target, callback)
        return
      }
      queueMicrotask(() => {
        callback(refusal, null)
      })
    },
    deadline: new Deadline(deadlineMs),
    now,
  }
}
