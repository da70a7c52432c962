import type { FastifyInstance, FastifyRequest } from 'fastify'
import { callerOf, type Access, type Caller } from './access.js'
import type { AccessRole } from '../model/answers.js'
import type { Guest } from './portal/token.js'
import { checkNames } from './parameters.js'
import { rolesOf, takesParameters } from './roles.js'

/** Who sends a request, as it was found out last, and how it is found out again. */
interface Checked {
  caller: Caller
  check: () => Promise<Caller>
}

const checked = new WeakMap<FastifyRequest, Checked>()

/**
 * Lets only those use the routes of a plugin whose role {@link rolesOf} names, and refuses parameters that the route does not
 * take. Call it before the routes are added.
 *
 * A body may take long to arrive, and the token may be withdrawn meanwhile. So the role is checked before the body is read, and again
 * once it is there.
 */
export function guard(routes: FastifyInstance, access: Access): void {
  routes.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) rolesOf(one, url)
  })
  routes.addHook('onRequest', async (request) => {
    const { method, url = '' } = request.routeOptions
    const roles = rolesOf(String(method), url)
    const check = () => callerOf(request.raw, roles, access)
    checked.set(request, { caller: await check(), check })
    if (!takesParameters(String(method), url)) checkNames(request.query as object, [])
  })
  routes.addHook('preHandler', async (request) => {
    if (Buffer.isBuffer(request.body)) await checkAgain(request)
  })
}

/**
 * Checks again whether a request to a guarded route may use it. Call it before each step of work that goes on for long.
 *
 * @throws Refusal if its token was withdrawn.
 */
export async function checkAgain(request: FastifyRequest): Promise<void> {
  const found = checked.get(request)
  if (!found) throw new Error('The route is not a guarded one.')
  found.caller = await found.check()
}

/** The role of who sends a request to a guarded route of the operator. */
export function roleIn(request: FastifyRequest): AccessRole {
  const caller = checked.get(request)?.caller
  if (caller && caller.role !== 'tenant') return caller.role
  throw new Error('The route is not a guarded one of the operator.')
}

/** Who sends a request to a guarded route of the portal. */
export function guestIn(request: FastifyRequest): Guest {
  const caller = checked.get(request)?.caller
  if (caller?.role === 'tenant') return caller.guest
  throw new Error('The route is not a guarded one of the portal.')
}
