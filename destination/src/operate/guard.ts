import type { FastifyInstance, FastifyRequest } from 'fastify'
import { callerOf, type Access, type Caller } from './access.js'
import { rolesOf } from './roles.js'

const callers = new WeakMap<FastifyRequest, Caller>()

/** Lets only those use the routes of a plugin whose role {@link rolesOf} names. Call it before the routes are added. */
export function guard(routes: FastifyInstance, access: Access): void {
  routes.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) rolesOf(one, url)
  })
  routes.addHook('onRequest', (request, _reply, next) => {
    const { method, url = '' } = request.routeOptions
    const roles = rolesOf(String(method), url)
    callers.set(request, callerOf(request.raw, roles, access))
    next()
  })
}

/** Who sends a request to a guarded route. */
export function callerIn(request: FastifyRequest): Caller {
  const caller = callers.get(request)
  if (caller) return caller
  throw new Error('The route is not guarded.')
}
