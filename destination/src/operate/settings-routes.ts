import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ignoreContentType } from '../http/read-body.js'
import { KINDS, WAITING_CHOICES, type Kind, type WaitingChoice } from '../model/setting.js'
import { readAudit } from '../manage/audit.js'
import type { ApplyOrder, Changes, Condition, Order } from '../manage/changes.js'
import { exportSettings, getSetting, listSettings, type Page } from '../manage/listing.js'
import type { Managed } from '../manage/managed.js'
import type { SecretField } from '../manage/secrets.js'
import type {
  AuditLog,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../model/answers.js'
import { JSON_TYPE, Refusal } from '../http/refusal.js'
import type { RecordPort } from '../store/store.js'
import { actorOf } from './actor.js'
import { bodyOf, queryOf, withBody } from './body.js'
import { checkAgain } from './guard.js'
import { jsonInParts } from './json-parts.js'
import { isFields, type Fields } from '../model/fields.js'
import { checkNames, count, flag, invalid, oneOf, texts } from './parameters.js'

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
      wanted,
      dryRun,
      prune,
      waiting,
      match,
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

/** @throws {@link Refusal} */
function readSettingsList(query: Fields, kind: string): Page {
  const relations = [
    ...(kind === 'destination' ? ['source'] : []),
    ...(kind === 'tenant' ? [] : ['tenant']),
  ]
  checkNames(query, ['q', 'after', 'limit', ...relations])
  const { q = '', after, source, tenant } = texts(query, ['q', 'after', 'source', 'tenant'])
  return { q, after, source, tenant, limit: count(query, 'limit', 1, 1_000) ?? 100 }
}

/** @throws {@link Refusal} */
function readSettingsDeletion(query: Fields): WaitingChoice | undefined {
  checkNames(query, ['waiting'])
  return oneOf(query, 'waiting', WAITING_CHOICES)
}

/** What the store is to have, which is not checked yet, and how to get there. */
interface ApplyParameters extends Pick<ApplyOrder, 'dryRun' | 'prune' | 'waiting'> {
  settings: Fields
}

/** @throws {@link Refusal} */
function readApply(body: Fields): ApplyParameters {
  checkNames(body, ['settings', 'dryRun', 'prune', 'waiting'])
  const { settings } = body
  if (!isFields(settings)) {
    throw invalid(
      'settings',
      'an object with the lists "tenants", "sources" and "destinations"',
      settings,
    )
  }
  const waiting = oneOf(body, 'waiting', WAITING_CHOICES)
  return { settings, dryRun: flag(body, 'dryRun'), prune: flag(body, 'prune'), waiting }
}

/**
 * Reads `If-Match` (RFC 9110, 13.1.1) with the revision of all settings. `*` stands for any, because there always is one.
 *
 * @throws {@link Refusal}
 */
function readRevision(headers: Fields): string | undefined {
  const { 'if-match': match } = texts(headers, ['if-match'])
  if (match === undefined || match.trim() === '*') return undefined
  const [, revision] = /^ *"([0-9a-f]{32})" *$/.exec(match) ?? []
  if (revision !== undefined) return revision
  throw invalid('If-Match', 'the ETag of the settings, or *', match)
}

/** Which of two secrets stays valid. */
const KEPT = ['new', 'old'] as const

/**
 * @param secrets - The names of the secrets that there are. The first is the default.
 * @throws {@link Refusal}
 */
export function readRotation<Secret extends string>(
  query: Fields,
  secrets: readonly [Secret, ...Secret[]],
): { secret: Secret; keep: (typeof KEPT)[number] } {
  checkNames(query, ['secret', 'keep'])
  return {
    secret: oneOf(query, 'secret', secrets) ?? secrets[0],
    keep: oneOf(query, 'keep', KEPT) ?? 'new',
  }
}

/** Which entries of the audit log to read. */
interface AuditParameters {
  about: { kind: Kind; name: string } | undefined
  /** The id of an entry to continue behind. */
  before: number | undefined
  limit: number
}

/** @throws {@link Refusal} */
function readAuditPage(query: Fields): AuditParameters {
  checkNames(query, ['kind', 'name', 'before', 'limit'])
  const kind = oneOf(query, 'kind', KINDS)
  const { name } = texts(query, ['name'])
  if ((kind === undefined) !== (name === undefined)) {
    throw new Refusal(400, 'invalid_parameter', 'kind and name must be given together.')
  }
  return {
    about: kind !== undefined && name !== undefined ? { kind, name } : undefined,
    before: count(query, 'before', 1, Number.MAX_SAFE_INTEGER),
    limit: count(query, 'limit', 1, 1_000) ?? 100,
  }
}

/**
 * Reads `If-Match` and `If-None-Match` (RFC 9110, 13.1). A version is a strong entity tag: a weak one never matches.
 *
 * @throws {@link Refusal}
 */
export function readCondition(headers: Fields): Condition {
  const { 'if-match': match, 'if-none-match': noneMatch } = texts(headers, [
    'if-match',
    'if-none-match',
  ])
  if (noneMatch !== undefined && noneMatch.trim() !== '*') {
    throw invalid('If-None-Match', '*', noneMatch)
  }
  return {
    match: match === undefined ? undefined : readTags(match),
    isNew: noneMatch !== undefined,
  }
}

function readTags(text: string): number[] | 'any' {
  if (text.trim() === '*') return 'any'
  const tags = text.split(',').map((tag) => tag.trim())
  if (!tags.every((tag) => /^(?:W\/)?"[^"]*"$/.test(tag))) {
    throw invalid('If-Match', '* or an ETag such as "12"', text)
  }
  return tags.flatMap((tag) => (/^"\d{1,15}"$/.test(tag) ? [Number(tag.slice(1, -1))] : []))
}
