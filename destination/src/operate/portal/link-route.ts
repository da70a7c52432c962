import type { FastifyInstance } from 'fastify'
import { Refusal } from '../../http/refusal.js'
import type { PortalLink } from '../../model/answers.js'
import type { Clock } from '../../model/clock.js'
import type { Settings } from '../../settings/settings.js'
import { optionsOf, withBody } from '../body.js'
import { signGuest } from './token.js'
import { isActorName, MAX_ACTOR } from '../../model/actor.js'
import type { Fields } from '../../model/fields.js'
import { checkNames, count, invalid, texts } from '../parameters.js'

/** What the route needs. */
export interface LinkParts {
  /** The current settings. */
  settings: () => Settings
  /** The URL of the operator's routes. */
  adminUrl: () => string
  /** The store's clock. */
  clock: Pick<Clock, 'wall'>
  log: { info(details: object, message: string): void }
}

/** In bytes. A body has a number and a name at most. */
const MAX_BODY_BYTES = 32_768

/** Adds the route that makes links to the portal. A link is not stored: it holds until it expires, wherever the token is known. */
export function addLinkRoute(
  routes: FastifyInstance,
  { settings, adminUrl, log, clock }: LinkParts,
): void {
  routes.post<{ Params: { name: string } }>(
    '/tenants/:name/link',
    withBody(MAX_BODY_BYTES),
    async (request): Promise<PortalLink> => {
      const { name } = request.params
      const { minutes, by } = readLink(optionsOf(request))
      const { adminToken = '', tenants = [], portal } = settings()
      if (!tenants.some((one) => one.name === name)) {
        const message = `There is no tenant ${JSON.stringify(name)}.`
        throw new Refusal(404, 'unknown_tenant', message)
      }
      const expiresAt = (Math.floor(clock.wall() / 1_000) + minutes * 60) * 1_000
      const token = await signGuest(adminToken, { tenant: name, by, expiresAt })
      log.info(
        { tenant: name, by, minutes, from: request.raw.socket.remoteAddress },
        'made a portal link',
      )
      return { url: `${portal?.url ?? adminUrl()}/portal#token=${token}`, token, expiresAt }
    },
  )
}

/** For how long a portal link is valid, and for whom it is. */
interface LinkParameters {
  minutes: number
  by: string | null
}

/** In minutes: a day. Whoever has a link can use it until it ends. */
const MAX_LINK_MINUTES = 1_440

/** @throws {@link Refusal} */
function readLink(body: Fields): LinkParameters {
  checkNames(body, ['minutes', 'by'])
  const { by } = texts(body, ['by'])
  if (by !== undefined && !isActorName(by)) {
    throw invalid(
      'by',
      `1 to ${MAX_ACTOR} characters, not only spaces, without control characters`,
      by,
    )
  }
  const minutes = count(body, 'minutes', 1, MAX_LINK_MINUTES, 'body') ?? 15
  return { minutes, by: by ?? null }
}
