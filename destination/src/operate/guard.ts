import type { FastifyInstance, FastifyRequest } from 'fastify'
import { callerOf, type Access, type Caller } from './access.js'
import type { AccessRole } from '../model/answers.js'
import type { Guest } from './portal/token.js'
import { checkNames } from './parameters.js'
import { rolesOf, takesParameters } from './roles.js'

const callers = new WeakMap<FastifyRequest, Caller>()

/**
 * Lets only those use the routes of a plugin whose role {@link rolesOf} names, and refuses parameters that the route does not
 * take. Call it before the routes are added.
 */
export function guard(routes: FastifyInstance, access: Access): void {
  routes.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) rolesOf(one, url)
  })
  routes.addHook('onRequest', async (request) => {
    const { method, url = '' } = request.routeOptions
    const roles = rolesOf(String(method), url)
    callers.set(request, await callerOf(request.raw, roles, access))
    if (!takesParameters(String(method), url)) checkNames(request.query as object, [])
  })
}

/** The role of who sends a request to a guarded route of the operator. */
export function roleIn(request: FastifyRequest): AccessRole {
  const caller = callers.get(request)
  if (caller && caller.role !== 'tenant') return caller.role
  throw new Error('The route is not a guarded one of the operator.')
}

/** Who sends a request to a guarded route of the portal. */
export function guestIn(request: FastifyRequest): Guest {
  const caller = callers.get(request)
  if (caller?.role === 'tenant') return caller.guest
  throw new Error('The route is not a guarded one of the portal.')
}
