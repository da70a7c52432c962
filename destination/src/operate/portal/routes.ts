import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ignoreContentType, readOwnBodies } from '../../http/read-body.js'
import { Refusal } from '../../http/refusal.js'
import type { Kind } from '../../model/setting.js'
import type { Changes, Order } from '../../manage/changes.js'
import { getSetting } from '../../manage/listing.js'
import type { Managed } from '../../manage/managed.js'
import type {
  ManagedSetting,
  OverviewTotals,
  PortalOverview,
  PortalSettings,
  PortalTotals,
  SettingChanged,
} from '../../model/answers.js'
import { portalWords } from '../../model/portal-words.js'
import type { Feed, Viewpoint } from '../../observe/feed.js'
import { withoutAdvice } from '../../settings/reach.js'
import type { Settings } from '../../settings/settings.js'
import type { Access } from '../access.js'
import { bodyOf, pathOf, queryOf, withBody } from '../body.js'
import {
  requireDestination,
  WITH_SMALL_BODY,
  type DestinationRequest,
  type Tester,
} from '../destination-routes.js'
import { checkAgain, guard, guestIn } from '../guard.js'
import { Overviews, readOverview } from '../overview.js'
import type { Past } from '../past.js'
import {
  getDead,
  getDeliveries,
  getDelivery,
  getDestination,
  getMessage,
  readDead,
  readDestination,
  readId,
  readMessageId,
} from '../read-routes.js'
import { replayAsked, WITH_REPLAY, type ReplayParts } from '../replay.js'
import { answer, tagged, readCondition, readRotation } from '../settings-routes.js'
import type { StatusParts } from '../status.js'
import { addStreamRoute } from '../stream-route.js'
import { scopeOf, storeOf, type Scope, type ScopedStore } from './scope.js'
import type { Guest } from './token.js'
import { isFields, type Fields } from '../../model/fields.js'
import { readList } from '../filter-parameters.js'
import { checkNames, invalid, texts } from '../parameters.js'

/** What the portal needs. */
export interface PortalParts
  extends Access, Omit<StatusParts, 'store'>, Omit<ReplayParts, 'store'> {
  store: ScopedStore
  past: Past
  feed: Feed
  changes: Changes
  managed: Managed
  test: Tester
  /** The current settings. */
  settings: () => Settings
}

/** In bytes. A body has up to five URLs. */
const MAX_BODY_BYTES = 65_536

/** A destination may be signed by either, or both. Each rotation is the tenant's own affair. */
const SECRETS = ['sharedSecret', 'webhookSecret'] as const

/**
 * Adds `/v1/portal`, which tenants use. It is a list of its own, apart from the admin API, so that a tenant can do only what is
 * written here. Each route gets nothing but a {@link Scope}: settings and a store in which there is nothing of others. So what
 * others have is answered like what does not exist.
 */
export function addPortalApi(app: FastifyInstance, parts: PortalParts): void {
  void app.register(
    (routes, _options, done) => {
      routes.addHook('onRequest', (_request, reply, next) => {
        reply.header('cache-control', 'no-store')
        next()
      })
      guard(routes, parts)
      readOwnBodies(routes)
      routes.setReplySerializer(inPortalWords)
      const own = (request: FastifyRequest) =>
        ownParts(parts, () => requireScope(parts, guestIn(request)))
      addReading(routes, parts, own)
      addActing(routes, parts, own)
      addChanging(routes, parts, own)
      addStreamRoute(routes, parts.feed, (request) => viewpointOf(parts, guestIn(request)))
      done()
    },
    { prefix: '/v1/portal' },
  )
}

/** The fields of answers that have the error of an attempt in words. A `cause` comes from {@link storeOf} in its words. */
const ERRORS: readonly string[] = ['error', 'reason', 'found']

/** Every answer is serialised here, so that no route can show an error in the words for the operator. */
function inPortalWords(answer: unknown): string {
  return JSON.stringify(answer, (field, value: unknown) =>
    typeof value === 'string' && ERRORS.includes(field) ? portalWords(value) : value,
  )
}

/** The parts in which a tenant finds only what is its own at that moment: the operator may take a destination back. */
type Own = ReturnType<typeof ownParts>

type OwnOf = (request: FastifyRequest) => Own

function ownParts({ store, pauses, dispatcher }: PortalParts, scope: () => Scope) {
  return {
    scope,
    pauses,
    dispatcher,
    settings: () => scope().settings,
    store: storeOf(store, scope),
  }
}

/** The tenant may have been deleted after its token was checked. */
function requireScope({ settings }: Pick<PortalParts, 'settings'>, { tenant }: Guest): Scope {
  const scope = scopeOf(settings(), tenant)
  if (scope) return scope
  throw new Refusal(401, 'wrong_portal_token', 'The tenant of this link was deleted.')
}

function addReading(routes: FastifyInstance, parts: PortalParts, own: OwnOf): void {
  const overviewsOf = createOverviews(parts)

  routes.get('/overview', async (request): Promise<PortalOverview> => {
    const guest = guestIn(request)
    const { tenant } = own(request).scope()
    const found = await overviewsOf(guest).overview(readOverview(queryOf(request)))
    const { span, sources, chart, destinations, troubled, histories, rows } = found
    return {
      now: Math.round(parts.clock.wall()),
      tenant: {
        name: tenant.name,
        title: tenant.title ?? tenant.name,
        mayEditUrls: tenant.portal.editUrls,
      },
      expiresAt: guest.expiresAt,
      span,
      sources,
      chart,
      destinations,
      troubled,
      histories,
      rows,
      found: found.found,
      totals: ownTotals(found.totals),
    }
  })
  routes.get('/destination', (request) =>
    getDestination(overviewsOf(guestIn(request)), readDestination(queryOf(request))),
  )
  routes.get('/dead', async (request) =>
    withoutServers(await getDead(own(request).store, readDead(queryOf(request)))),
  )
  routes.get('/deliveries', async (request) =>
    withoutServers(await getDeliveries(own(request).store, readList(queryOf(request)))),
  )
  routes.get('/deliveries/:id', (request) => getDelivery(own(request), readId(pathOf(request))))
  routes.get('/messages', (request) => getMessage(own(request), readMessageId(queryOf(request))))
}

/** Says that servers of the store could not be asked, but not which: their names are the operator's. */
function withoutServers<T extends { away?: string[] }>(answer: T): T {
  return answer.away ? { ...answer, away: [] } : answer
}

/** The calls per second are those of all sources of the process. */
function ownTotals(totals: OverviewTotals): PortalTotals {
  const { destinations, byHealth, sources, accepted, rejected } = totals
  const { delivered, failed, p50Ms, p99Ms, waiting, dead, oldestMs } = totals
  return {
    destinations,
    byHealth,
    sources,
    accepted,
    rejected,
    delivered,
    failed,
    p50Ms,
    p99Ms,
    waiting,
    dead,
    oldestMs,
  }
}

/**
 * An overview is computed once for all who have opened links of a tenant at the same time. It is kept as long as the scope: what
 * was computed before the operator took a destination back would show it.
 */
function createOverviews(parts: PortalParts): (guest: Guest) => Overviews {
  const all = new WeakMap<Scope, Overviews>()
  return ({ tenant }) => {
    const guest = { tenant, by: null, expiresAt: 0 }
    const scope = () => requireScope(parts, guest)
    const key = scope()
    let overviews = all.get(key)
    if (!overviews) {
      overviews = new Overviews(
        {
          ...parts,
          settings: () => scope().settings,
          store: { stats: () => storeOf(parts.store, scope).stats() },
        },
        parts.past,
      )
      all.set(key, overviews)
    }
    return overviews
  }
}

function addActing(routes: FastifyInstance, { test }: PortalParts, own: OwnOf): void {
  routes.post('/replay', WITH_REPLAY, async (request, reply) =>
    withoutServers(await replayAsked(own(request), request, reply)),
  )
  routes.post<DestinationRequest>('/destinations/:name/test', WITH_SMALL_BODY, (request, reply) =>
    test(own(request).settings(), request, reply),
  )
}

function addChanging(routes: FastifyInstance, { changes, managed }: PortalParts, own: OwnOf): void {
  const onRequest = ignoreContentType
  routes.get('/sources', (request) => {
    const { sources } = own(request).scope()
    return listOf(managed, 'source', sources)
  })
  routes.get('/destinations', (request) => {
    const { destinations } = own(request).scope()
    return listOf(managed, 'destination', destinations)
  })
  routes.get<DestinationRequest>('/destinations/:name', (request, reply) => {
    const { name } = requireDestination(own(request).settings(), request.params.name)
    return tagged(reply, shown(getSetting(managed, 'destination', name)))
  })
  routes.patch<DestinationRequest>(
    '/destinations/:name',
    withBody(MAX_BODY_BYTES),
    (request, reply) => {
      const scope = () => scopeWithUrls(own(request))
      return change(request, reply, scope, (order) =>
        changes.changeUrls(order, readUrls(bodyOf(request))),
      )
    },
  )
  const rotation = '/destinations/:name/rotation'
  routes.post<DestinationRequest>(rotation, { onRequest }, (request, reply) =>
    change(request, reply, own(request).scope, (order) =>
      changes.rotate(order, readRotation(queryOf(request), SECRETS).secret),
    ),
  )
  routes.delete<DestinationRequest>(rotation, { onRequest }, (request, reply) =>
    change(request, reply, own(request).scope, (order) => {
      const { secret, keep } = readRotation(queryOf(request), SECRETS)
      return changes.revoke(order, secret, keep)
    }),
  )
}

/** The scope of a tenant that may change URLs. */
function scopeWithUrls({ scope }: Own): Scope {
  const found = scope()
  if (found.tenant.portal.editUrls) return found
  throw new Refusal(403, 'urls_fixed', 'URLs cannot be changed here. Ask the operator.')
}

/**
 * Makes a change of a destination of the tenant, in its name.
 *
 * @param scope - What the tenant may change at that moment. Throws a Refusal if it may not make the change.
 */
async function change(
  request: FastifyRequest<DestinationRequest>,
  reply: FastifyReply,
  scope: () => Scope,
  make: (order: Order) => Promise<SettingChanged>,
): Promise<SettingChanged> {
  const { name } = requireDestination(scope().settings, request.params.name)
  const check = async () => {
    await checkAgain(request)
    requireDestination(scope().settings, name)
  }
  const { tenant, by } = guestIn(request)
  const actor = {
    by: by === null ? `tenant ${tenant}` : `tenant ${tenant} (${by})`,
    from: request.raw.socket.remoteAddress ?? '',
  }
  const condition = readCondition(request.raw.headers)
  try {
    const changed = await make({ kind: 'destination', name, actor, condition, check })
    return answer(reply, { ...changed, item: shown(changed.item) })
  } catch (error) {
    throw forTenant(error)
  }
}

/** Where the settings are kept and which networks are allowed is the operator's affair. */
function forTenant(error: unknown): unknown {
  if (!(error instanceof Refusal)) return error
  const { status, code, message, headers, details } = error
  if (code === 'in_settings_file' || code === 'no_settings_key') {
    return new Refusal(409, 'kept_by_operator', 'Only the operator can change this destination.')
  }
  const problems = details.problems?.map((problem) => ({
    ...problem,
    message: withoutAdvice(problem.message),
  }))
  return new Refusal(status, code, withoutAdvice(message), headers, {
    ...details,
    ...(problems && { problems }),
  })
}

function listOf(managed: Managed, kind: Kind, names: ReadonlySet<string>): PortalSettings {
  return { items: [...names].sort().map((name) => shown(getSetting(managed, kind, name))) }
}

/** @returns the URLs of all endpoints of a destination, in their order. @throws {@link Refusal} */
function readUrls(body: Fields): string[] {
  checkNames(body, ['webhooks'])
  const { webhooks } = body
  if (!Array.isArray(webhooks)) throw invalid('webhooks', 'a list of objects with a url', webhooks)
  return webhooks.map((webhook: unknown, i) => {
    const path = `webhooks[${i}]`
    if (!isFields(webhook)) throw invalid(path, 'an object with a url', webhook)
    checkNames(webhook, ['url'])
    const { url } = texts(webhook, ['url'])
    if (url === undefined) throw invalid(`${path}.url`, 'a URL', url)
    return url
  })
}

/** The settings that a tenant sees. A new one is not shown until it is named here. */
const SHOWN: readonly string[] = ['name', 'sources', 'enabled', 'filters', 'webhooks', 'rateLimit']

function shown(item: ManagedSetting): ManagedSetting {
  const settings = Object.entries(item.settings).filter(([field]) => SHOWN.includes(field))
  return { ...item, settings: Object.fromEntries(settings) }
}

/** What a listener of the stream sees, for as long as the link is valid. */
function viewpointOf({ settings, clock }: PortalParts, { tenant, expiresAt }: Guest): Viewpoint {
  const { adminToken } = settings()
  const scope = () => scopeOf(settings(), tenant)
  return {
    group: tenant,
    seesSource: (name) => scope()?.sources.has(name) === true,
    seesDestination: (name) => scope()?.destinations.has(name) === true,
    wordsOf: portalWords,
    isOver: () =>
      clock.wall() >= expiresAt || settings().adminToken !== adminToken || scope() === undefined,
  }
}
