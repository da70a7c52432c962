import { hash, timingSafeEqual } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../http/refusal.js'
import type { AccessRole } from '../model/answers.js'
import type { Clock } from '../model/clock.js'
import type { Settings } from '../settings/settings.js'
import { readGuest, type Guest } from './portal/token.js'

/** What a request may do. A tenant has opened a portal link. */
export type Role = AccessRole | 'tenant'

/** Who sends a request. */
export type Caller = { role: AccessRole } | { role: 'tenant'; guest: Guest }

/** Which requests are let in. */
export interface Access {
  /** The current settings. */
  settings: () => Pick<Settings, 'adminToken' | 'operatorToken' | 'tenants'>
  /** Whether the operator's routes have a listener of their own, on a loopback address. */
  isKeptLocal: boolean
  /** The store's clock. A process may have made a link that another one checks. */
  clock: Pick<Clock, 'wall'>
}

/**
 * Finds out who sends a request, and whether they may use its route. The answers contain personal data, or show who the
 * customers are.
 *
 * With an admin token in the settings, every request needs a bearer token in `Authorization` (RFC 6750, 2.1). Without one, only
 * readers are let in, and they must come to a loopback listener that only has the operator's routes. At the listener of the
 * collector the address of the client proves nothing: a proxy on the same machine that forwards calls may forward these
 * requests too, and may add no header that shows it (nginx adds none by default).
 *
 * @param roles - Those that the route takes.
 * @throws {@link Refusal} with 401 if the request lacks a right token, with 403 `role_not_allowed` if its token has another role,
 * and with 403 `admin_disabled` if the settings have no token.
 */
export async function callerOf(
  request: IncomingMessage,
  roles: readonly Role[],
  { settings, isKeptLocal, clock }: Access,
): Promise<Caller> {
  const { adminToken, operatorToken } = settings()
  if (adminToken === undefined) return readerOf(request, roles, isKeptLocal)
  const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1]
  const isOfPortal = roles.includes('tenant')
  if (given === undefined) throw unauthorized(isOfPortal ? 'no_portal_token' : 'no_admin_token')
  const caller = isSame(given, adminToken)
    ? { role: 'admin' as const }
    : operatorToken !== undefined && isSame(given, operatorToken)
      ? { role: 'operator' as const }
      : guestWith(await readGuest(adminToken, given, clock.wall()), adminToken, settings())
  if (caller === 'expired' && isOfPortal) throw unauthorized('portal_link_expired')
  if (caller === undefined || caller === 'expired') {
    throw unauthorized(isOfPortal ? 'wrong_portal_token' : 'wrong_admin_token')
  }
  if (roles.includes(caller.role)) return caller
  const message = `This request needs the role ${roles.join(' or ')}; its token has the role ${caller.role}.`
  throw new Refusal(403, 'role_not_allowed', message)
}

/**
 * A link of a tenant that was deleted is not valid any more.
 *
 * @param checkedBy - The admin token that the link was checked by.
 * @param now - The settings after the check, which takes time.
 */
function guestWith(
  guest: Awaited<ReturnType<typeof readGuest>>,
  checkedBy: string,
  { adminToken, tenants = [] }: ReturnType<Access['settings']>,
) {
  if (guest === undefined || guest === 'expired') return guest
  const isKnown = adminToken === checkedBy && tenants.some(({ name }) => name === guest.tenant)
  return isKnown ? { role: 'tenant' as const, guest } : undefined
}

function readerOf(request: IncomingMessage, roles: readonly Role[], isKeptLocal: boolean): Caller {
  if (!roles.includes('reader')) throw new Refusal(403, 'admin_disabled', NO_TOKEN)
  if (isKeptLocal && isLocal(request) && isNamedLocal(request)) return { role: 'reader' }
  throw new Refusal(403, 'admin_disabled', CLOSED)
}

const NO_TOKEN =
  'This request needs the admin token, but the settings have none. Set "adminToken" and reload the settings.'

/** Digests are compared in constant time, so that the duration reveals neither the secret nor its length. */
export function isSame(given: string, secret: string): boolean {
  return timingSafeEqual(digest(given), digest(secret))
}

/** Whether the operator's routes have a listener of their own that only this machine can reach. */
export function isKeptLocal({ adminListen }: Pick<Settings, 'adminListen'>): boolean {
  return adminListen !== undefined && isLoopback(adminListen.host)
}

/** Whether the operator's routes refuse every request, because the settings do not say who may read. */
export function isClosed(settings: Pick<Settings, 'adminListen' | 'adminToken'>): boolean {
  return settings.adminToken === undefined && !isKeptLocal(settings)
}

const CLOSED =
  'The settings have no "adminToken". Set one and reload the settings. Or set "adminListen" to a loopback address, such as ' +
  '127.0.0.1:3301, restart, and open that address on the machine itself, not through a proxy.'

/**
 * Whether the `Host` of a request is an IP address or localhost. This stops DNS rebinding: a website can point its own name
 * at this machine and make a local browser send requests, but the browser then sends that name as the `Host`.
 */
function isNamedLocal({ headers: { host = '' } }: IncomingMessage): boolean {
  const name = host.replace(/:\d*$/, '').toLowerCase()
  return name === 'localhost' || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0
}

function digest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

/** Why a request is not let in, by code. */
const UNAUTHORIZED = {
  no_admin_token: 'The request has no admin token. Send it as "Authorization: Bearer …".',
  wrong_admin_token:
    'The token of the request is neither the "adminToken" nor the "operatorToken" of the settings.',
  no_portal_token:
    'The request has no token of a portal link. Send it as "Authorization: Bearer …".',
  wrong_portal_token:
    'The token of the request is not that of a portal link, or the link was ended. Ask for a new link.',
  portal_link_expired: 'The portal link has expired. Ask for a new one.',
} as const

function unauthorized(code: keyof typeof UNAUTHORIZED): Refusal {
  const headers = { 'WWW-Authenticate': 'Bearer realm="hookline"' }
  return new Refusal(401, code, UNAUTHORIZED[code], headers)
}

/** Whether a host or an address is this machine, and cannot be reached from elsewhere. */
function isLoopback(host: string): boolean {
  const version = isIP(host)
  if (version === 0) return host.toLowerCase() === 'localhost'
  return LOOPBACK.check(host, version === 6 ? 'ipv6' : 'ipv4')
}

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8)
LOOPBACK.addAddress('::1', 'ipv6')

/**
 * Headers that proxies add: those of RFC 7239 and RFC 9110, those that most proxies use, and those of Envoy and Cloudflare.
 * With one of them, the remote address is the proxy's and not the client's. Browsers and scrapers send none of them.
 */
const PROXY_HEADER =
  /^(?:forwarded|via|x-forwarded(?:-.+)?|x-original-(?:forwarded-for|host)|x-real-ip|.*client-ip|x-envoy-.+|cf-.+)$/

/**
 * Whether a request was made on this machine. A request that a local proxy forwards does not count. HTTP/1.0 is a sign of a
 * proxy as well: nginx uses it by default, and browsers and scrapers do not.
 */
export function isLocal({ socket, headers, httpVersion }: IncomingMessage): boolean {
  const isForwarded = Object.keys(headers).some((name) => PROXY_HEADER.test(name))
  if (httpVersion === '1.0' || isForwarded) return false
  return isLoopback(socket.remoteAddress ?? '')
}
