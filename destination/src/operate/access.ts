import { hash, timingSafeEqual } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../http/refusal.js'

/**
 * Requires the admin token as a bearer token in `Authorization` (RFC 6750, 2.1). Digests are compared in constant time, so
 * that the duration reveals neither the token nor its length.
 *
 * @param adminToken - The token from the settings. `undefined` refuses every request.
 * @throws {@link Refusal} with 403 `admin_disabled` if the settings have no token, and with 401 `no_admin_token` or
 * `wrong_admin_token` if the request lacks the right one.
 */
export function checkToken(request: IncomingMessage, adminToken: string | undefined): void {
  if (adminToken === undefined) {
    const message =
      'This request needs the admin token, but the settings have none. Set "adminToken" and reload the settings.'
    throw new Refusal(403, 'admin_disabled', message)
  }
  const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
  if (given === undefined) {
    throw unauthorized(
      'no_admin_token',
      'The request has no admin token. Send it as "Authorization: Bearer …".',
    )
  }
  if (!timingSafeEqual(digest(given), digest(adminToken))) {
    throw unauthorized(
      'wrong_admin_token',
      'The admin token of the request differs from the "adminToken" in the settings.',
    )
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
 * Allows a request that reads if it comes from this machine or has the admin token. The answers contain personal data.
 *
 * @param isKeptLocal - Whether the listening address is a loopback address. Only somebody with access to this machine can
 * set up a proxy or a tunnel to it, so its requests count as local.
 * @throws {@link Refusal} as {@link checkToken} does.
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
 * Whether the `Host` of a request is an IP address or localhost. This stops DNS rebinding: a website can point its own name
 * at this machine and make a local browser send requests, but the browser then sends that name as the `Host`.
 */
function isNamedLocal({ headers: { host = '' } }: IncomingMessage): boolean {
  const name = host.replace(/:\d*$/, '').toLowerCase()
  return name === 'localhost' || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0
}

/** Whether only this machine can reach a server that listens on the host. */
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

/** Headers that proxies add. With one of them, the remote address is the proxy's and not the client's. */
const PROXY_HEADERS = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via']

/** Whether a request was made on this machine. A request that a local proxy forwards does not count. */
export function isLocal({ socket, headers }: IncomingMessage): boolean {
  const { remoteAddress = '', remoteFamily } = socket
  if (PROXY_HEADERS.some((name) => headers[name] !== undefined)) return false
  return LOOPBACK.check(remoteAddress, remoteFamily === 'IPv6' ? 'ipv6' : 'ipv4')
}
