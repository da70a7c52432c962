import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ignoreContentType } from '../http/read-body.js'
import type { Kind } from '../model/setting.js'
import { readAudit } from '../manage/audit.js'
import type { Changes, Order } from '../manage/changes.js'
import { exportSettings, getSetting, listSettings } from '../manage/listing.js'
import type { Managed } from '../manage/managed.js'
import type { SecretField } from '../manage/secrets.js'
import type {
  AuditLog,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../model/answers.js'
import { JSON_TYPE } from '../http/refusal.js'
import type { RecordPort } from '../store/store.js'
import { actorOf } from './actor.js'
import { bodyOf, queryOf, withBody } from './body.js'
import { checkAgain } from './guard.js'
import { jsonInParts } from './json-parts.js'
import {
  readApply,
  readAuditPage,
  readCondition,
  readRevision,
  readRotation,
  readSettingsDeletion,
  readSettingsList,
} from './parameters.js'

/** In bytes. 10,000 sources and 10,000 destinations have about half of this. */
const MAX_APPLIED_BYTES = 5_000_000

/** In bytes. Five endpoints with all the headers that are allowed have a tenth of this. */
const MAX_BODY_BYTES = 262_144

/** What the routes of the settings need. */
export interface SettingsRoutesParts {
  store: Pick<RecordPort, 'recordLog'>
  managed: Managed
  changes: Changes
}

/** Adds the routes that read and change sources, destinations and tenants at run time, and the audit log of the changes. */
export function addSettingsRoutes(routes: FastifyInstance, parts: SettingsRoutesParts): void {
  const { store, managed, changes } = parts
  addRoutesOf(routes, parts, 'source', '/sources')
  addRotation(routes, changes, 'source', '/sources', ['writeKey'])
  addRoutesOf(routes, parts, 'destination', '/destinations')
  addRotation(routes, changes, 'destination', '/destinations', ['sharedSecret', 'webhookSecret'])
  addRoutesOf(routes, parts, 'tenant', '/tenants')
  routes.get('/settings', (_request, reply) => {
    const all = exportSettings(managed)
    reply.header('etag', `"${all.revision}"`)
    return reply.type(JSON_TYPE).send(jsonInParts(all))
  })
  routes.post('/settings', withBody(MAX_APPLIED_BYTES), async (request, reply) => {
    const { settings: wanted, dryRun, prune, waiting } = readApply(bodyOf(request))
    const match = readRevision(request.raw.headers)
    const applied = await changes.apply({
      ...{ wanted, dryRun, prune, waiting, match },
      actor: actorOf(request),
      check: () => checkAgain(request),
    })
    reply.header('etag', `"${applied.revision}"`)
    return reply.type(JSON_TYPE).send(jsonInParts({ dryRun, ...applied }))
  })
  routes.get('/audit', (request): Promise<AuditLog> => {
    const { about, before, limit } = readAuditPage(queryOf(request))
    return readAudit(store, about, before, limit)
  })
}

function addRoutesOf(
  routes: FastifyInstance,
  { managed, changes }: SettingsRoutesParts,
  kind: Kind,
  path: string,
): void {
  const onRequest = ignoreContentType
  routes.get(path, (request): ManagedSettings =>
    listSettings(managed, kind, readSettingsList(queryOf(request), kind)),
  )
  routes.get(`${path}/:name`, (request, reply): ManagedSetting =>
    tagged(reply, getSetting(managed, kind, nameIn(request))),
  )
  routes.put(`${path}/:name`, withBody(MAX_BODY_BYTES), async (request, reply) => {
    const order = orderOf(kind, request)
    return answer(reply, await changes.put(order, bodyOf(request)))
  })
  routes.patch(`${path}/:name`, withBody(MAX_BODY_BYTES), async (request, reply) => {
    const order = orderOf(kind, request)
    return answer(reply, await changes.patch(order, bodyOf(request)))
  })
  routes.delete(`${path}/:name`, { onRequest }, (request): Promise<SettingDeleted> =>
    changes.delete(orderOf(kind, request), readSettingsDeletion(queryOf(request))),
  )
}

function addRotation(
  routes: FastifyInstance,
  changes: Changes,
  kind: Kind,
  path: string,
  secrets: readonly [SecretField, ...SecretField[]],
): void {
  const onRequest = ignoreContentType
  routes.post(`${path}/:name/rotation`, { onRequest }, async (request, reply) => {
    const { secret } = readRotation(queryOf(request), secrets)
    return answer(reply, await changes.rotate(orderOf(kind, request), secret))
  })
  routes.delete(`${path}/:name/rotation`, { onRequest }, async (request, reply) => {
    const { secret, keep } = readRotation(queryOf(request), secrets)
    return answer(reply, await changes.revoke(orderOf(kind, request), secret, keep))
  })
}

function nameIn({ params }: FastifyRequest): string {
  return (params as { name: string }).name
}

function orderOf(kind: Kind, request: FastifyRequest): Order {
  const condition = readCondition(request.raw.headers)
  const check = () => checkAgain(request)
  return { kind, name: nameIn(request), actor: actorOf(request), condition, check }
}

export function answer(reply: FastifyReply, changed: SettingChanged): SettingChanged {
  tagged(reply, changed.item)
  reply.code(changed.created ? 201 : 200)
  return changed
}

export function tagged(reply: FastifyReply, item: ManagedSetting): ManagedSetting {
  if (item.version !== null) reply.header('etag', `"${item.version}"`)
  return item
}
