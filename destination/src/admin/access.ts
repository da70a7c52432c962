import { hash, timingSafeEqual } from 'node:crypto'
import { BlockList } from 'node:net'
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../collector/refusal.js'

/**
 * Lets nobody through without the admin token, as the bearer of `Authorization` (RFC 6750, 2.1). What is compared are
 * digests, in a time that tells nothing of either.
 *
 * @param adminToken - Of the settings; `undefined` keeps all of it shut.
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
