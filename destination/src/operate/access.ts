import { hash, timingSafeEqual } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../http/refusal.js'

/**
 * Lets nobody through without the admin token, as the bearer of `Authorization` (RFC 6750, 2.1). What is compared are
 * digests, in a time that tells nothing of either.
 *
 * @param adminToken - Of the settings; `undefined` refuses every request.
 * @throws {@link Refusal} that says what is missing.
 */
export function checkToken(request: IncomingMessage, adminToken: string | undefined): void {
  if (adminToken === undefined) {
    const message = 'This needs "adminToken" in the settings, which have none.'
    throw new Refusal(403, 'admin_disabled', message)
  }
  const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
  if (given === undefined) {
    throw unauthorized('no_admin_token', 'The admin token is needed, as "Authorization: Bearer …".')
  }
  if (!timingSafeEqual(digest(given), digest(adminToken))) {
    throw unauthorized('wrong_admin_token', 'The admin token must be that of the settings.')
  }
}

/** Whether a request has the admin token. */
export function hasToken(request: IncomingMessage, adminToken: string | undefined): boolean {
  try {
    checkToken(request, adminToken)
    return true
  } catch {
    return false
  }
}

/**
 * Lets through who is on this machine, and everybody else with the admin token. There is personal data in what they read.
 *
 * @param isKeptLocal - Whether the address that was asked is this machine's own: what comes there through a proxy, or a
 * tunnel, comes by the will of somebody here.
 * @throws {@link Refusal}
 */
export function checkReader(
  request: IncomingMessage,
  adminToken: string | undefined,
  isKeptLocal: boolean,
): void {
  if ((isKeptLocal || isLocal(request)) && isNamedLocal(request)) return
  checkToken(request, adminToken)
}

/**
 * Whether a request asks for this machine by an address, or as localhost. A page of a stranger in a browser here can ask
 * too, by a name of its own that it has made point here; such a name is what it can't hide.
 */
function isNamedLocal({ headers: { host = '' } }: IncomingMessage): boolean {
  const name = host.replace(/:\d*$/, '').toLowerCase()
  return name === 'localhost' || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0
}

/** Whether what listens on a host is reached from this machine alone. */
export function isLoopback(host: string): boolean {
  const version = isIP(host)
  if (version === 0) return host.toLowerCase() === 'localhost'
  return LOOPBACK.check(host, version === 6 ? 'ipv6' : 'ipv4')
}

function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

function unauthorized(code: 'no_admin_token' | 'wrong_admin_token', message: string): Refusal {
  return new Refusal(401, code, message, { 'WWW-Authenticate': 'Bearer realm="hookline"' })
}

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8)
LOOPBACK.addAddress('::1', 'ipv6')

/** What proxies add: then the address is theirs, and not that of who asks. */
const PROXY_HEADERS = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via']

/** Whether a request was made on this machine, and not handed on by a proxy that runs on it. */
export function isLocal({ socket, headers }: IncomingMessage): boolean {
  const { remoteAddress = '', remoteFamily } = socket
  if (PROXY_HEADERS.some((name) => headers[name] !== undefined)) return false
  return LOOPBACK.check(remoteAddress, remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4')
}
