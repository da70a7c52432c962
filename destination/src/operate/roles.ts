import type { Role } from './access.js'

const READ: readonly Role[] = ['admin', 'operator', 'reader']
const ACT: readonly Role[] = ['admin', 'operator']
const CHANGE: readonly Role[] = ['admin']
const PORTAL: readonly Role[] = ['tenant']

/**
 * The roles that each protected route takes. It is the whole list: a route that is not in it cannot be added, so that nobody
 * gets access by an oversight. `HEAD` needs the same role as `GET`.
 */
const ROLES: Readonly<Record<string, readonly Role[]>> = {
  'GET /metrics': READ,
  'GET /v1/admin/status': READ,
  'GET /v1/admin/overview': READ,
  'GET /v1/admin/destination': READ,
  'GET /v1/admin/dead': READ,
  'GET /v1/admin/deliveries': READ,
  'GET /v1/admin/deliveries/:id': READ,
  'GET /v1/admin/messages': READ,
  'GET /v1/admin/messages/:messageId': READ,
  'GET /v1/admin/stream': READ,
  'GET /v1/admin/sources': READ,
  'GET /v1/admin/sources/:name': READ,
  'GET /v1/admin/destinations': READ,
  'GET /v1/admin/destinations/:name': READ,
  'GET /v1/admin/tenants': READ,
  'GET /v1/admin/tenants/:name': READ,
  'GET /v1/admin/settings': READ,
  'GET /v1/admin/audit': READ,

  'POST /v1/admin/filters/preview': ACT,
  'POST /v1/admin/replay': ACT,
  'POST /v1/admin/destinations/:name/test': ACT,
  'POST /v1/admin/destinations/:name/pause': ACT,
  'POST /v1/admin/destinations/:name/resume': ACT,

  'PUT /v1/audiences/:name': CHANGE,
  'POST /v1/deletions': CHANGE,
  'PUT /v1/admin/sources/:name': CHANGE,
  'PATCH /v1/admin/sources/:name': CHANGE,
  'DELETE /v1/admin/sources/:name': CHANGE,
  'POST /v1/admin/sources/:name/rotation': CHANGE,
  'DELETE /v1/admin/sources/:name/rotation': CHANGE,
  'PUT /v1/admin/destinations/:name': CHANGE,
  'PATCH /v1/admin/destinations/:name': CHANGE,
  'DELETE /v1/admin/destinations/:name': CHANGE,
  'POST /v1/admin/destinations/:name/rotation': CHANGE,
  'DELETE /v1/admin/destinations/:name/rotation': CHANGE,
  'PUT /v1/admin/tenants/:name': CHANGE,
  'PATCH /v1/admin/tenants/:name': CHANGE,
  'DELETE /v1/admin/tenants/:name': CHANGE,
  'POST /v1/admin/settings': CHANGE,
  'POST /v1/admin/tenants/:name/link': CHANGE,

  'GET /v1/portal/overview': PORTAL,
  'GET /v1/portal/destination': PORTAL,
  'GET /v1/portal/dead': PORTAL,
  'GET /v1/portal/deliveries': PORTAL,
  'GET /v1/portal/deliveries/:id': PORTAL,
  'GET /v1/portal/messages': PORTAL,
  'GET /v1/portal/stream': PORTAL,
  'GET /v1/portal/sources': PORTAL,
  'GET /v1/portal/destinations': PORTAL,
  'GET /v1/portal/destinations/:name': PORTAL,
  'POST /v1/portal/replay': PORTAL,
  'POST /v1/portal/destinations/:name/test': PORTAL,
  'PATCH /v1/portal/destinations/:name': PORTAL,
  'POST /v1/portal/destinations/:name/rotation': PORTAL,
  'DELETE /v1/portal/destinations/:name/rotation': PORTAL,
}

/** The routes that check the parameters of their URL themselves. Scrapers may be set up to send some to `/metrics`. */
const WITH_PARAMETERS = new Set([
  'GET /metrics',
  'PUT /v1/audiences/:name',
  'GET /v1/admin/audit',
  ...['admin', 'portal'].flatMap((api) => [
    `GET /v1/${api}/overview`,
    `GET /v1/${api}/destination`,
    `GET /v1/${api}/dead`,
    `GET /v1/${api}/deliveries`,
    `GET /v1/${api}/messages`,
  ]),
  ...['sources', 'destinations', 'tenants'].flatMap((list) => [
    `GET /v1/admin/${list}`,
    `DELETE /v1/admin/${list}/:name`,
  ]),
  ...['admin/sources', 'admin/destinations', 'portal/destinations'].flatMap((list) => [
    `POST /v1/${list}/:name/rotation`,
    `DELETE /v1/${list}/:name/rotation`,
  ]),
])

/** Whether a route takes parameters in its URL. */
export function takesParameters(method: string, url: string): boolean {
  return WITH_PARAMETERS.has(routeOf(method, url))
}

const routeOf = (method: string, url: string) => `${method === 'HEAD' ? 'GET' : method} ${url}`

/** @throws Error if the route is not in {@link ROLES}. */
export function rolesOf(method: string, url: string): readonly Role[] {
  const route = routeOf(method, url)
  const roles = Object.hasOwn(ROLES, route) ? ROLES[route] : undefined
  if (roles) return roles
  throw new Error(`The route ${route} does not say which roles it takes. Add it to ROLES.`)
}
