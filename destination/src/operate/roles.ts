import type { AccessRole } from '../model/answers.js'

const READ: readonly AccessRole[] = ['admin', 'operator', 'reader']
const ACT: readonly AccessRole[] = ['admin', 'operator']
const CHANGE: readonly AccessRole[] = ['admin']

/**
 * The roles that each protected route takes. It is the whole list: a route that is not in it cannot be added, so that nobody
 * gets access by an oversight. `HEAD` needs the same role as `GET`.
 */
export const ROLES: Readonly<Record<string, readonly AccessRole[]>> = {
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
}

/** @throws Error if the route is not in {@link ROLES}. */
export function rolesOf(method: string, url: string): readonly AccessRole[] {
  const route = `${method === 'HEAD' ? 'GET' : method} ${url}`
  const roles = Object.hasOwn(ROLES, route) ? ROLES[route] : undefined
  if (roles) return roles
  throw new Error(`The route ${route} does not say which roles it takes. Add it to ROLES.`)
}
