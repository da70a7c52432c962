import { isFields, type Fields } from '../model/fields.js'
import type { ManagedSetting, SettingChange } from '../model/answers.js'
import { hasHidden, HIDDEN } from '../model/hidden.js'
import { sharedSecretsOf, writeKeysOf } from '../model/secrets.js'
import { withoutQuery } from '../model/shown-url.js'
import type { BrokenRelation } from '../settings/relations.js'
import type { Destination, Source, Tenant } from '../settings/settings.js'
import type { Kind } from '../model/setting.js'
import type { Setting } from './managed.js'
import { GENERATED, SECRET_FIELDS, secretsIn } from './secrets.js'

/** Checked settings in the form of the file, with secrets and all defaults but that of a burst. */
export function toRaw(kind: Kind, value: Setting): Fields {
  if (kind === 'source') return fromSource(value as Source)
  return kind === 'destination'
    ? fromDestination(value as Destination)
    : fromTenant(value as Tenant)
}

function fromSource({ writeKey, otherWriteKey, rateLimit, ...rest }: Source): Fields {
  return {
    ...rest,
    writeKey: writeKeysOf({ writeKey, otherWriteKey }),
    ...(rateLimit && { rateLimit: withoutDefault(rateLimit) }),
  }
}

function fromTenant(tenant: Tenant): Fields {
  const { quotas } = tenant
  return { ...tenant, ...(quotas && { quotas: withoutDefault(quotas) }) }
}

/** The default of a burst follows its rate. If it was sent back as a value, it would stay what it is when the rate is changed. */
function withoutDefault<Limit extends { callsPerSecond?: unknown; burst?: unknown }>(limit: Limit) {
  const { burst, ...rest } = limit
  return String(burst) === String(limit.callsPerSecond) ? rest : limit
}

/** Stored settings without a burst that is its default: a former page and an export have sent it back as a value. */
export function withoutDefaults(kind: Kind, raw: Fields): Fields {
  const field = { source: 'rateLimit', tenant: 'quotas', destination: undefined }[kind]
  const limit = field === undefined ? undefined : raw[field]
  return field !== undefined && isFields(limit) ? { ...raw, [field]: withoutDefault(limit) } : raw
}

function fromDestination(destination: Destination): Fields {
  const { sharedSecret, otherSecret, webhookSecrets, webhooks, ...rest } = destination
  const shared = sharedSecretsOf({ sharedSecret, otherSecret })
  return {
    ...rest,
    ...(shared.length > 0 && { sharedSecret: shared }),
    ...(webhookSecrets && { webhookSecret: webhookSecrets }),
    webhooks: webhooks.map(({ rateLimit, ...endpoint }) => ({
      ...endpoint,
      ...(rateLimit !== undefined && { rateLimit: { requestsPerSecond: rateLimit } }),
    })),
  }
}

/** @param version - `undefined` for what is in the settings file. */
export function shownSetting(
  kind: Kind,
  value: Setting,
  version: number | undefined,
): ManagedSetting {
  const raw = toRaw(kind, value)
  const secrets = SECRET_FIELDS[kind].map((field) => [field, secretsIn(raw, field).length])
  return {
    kind,
    name: value.name,
    origin: version === undefined ? 'file' : 'store',
    version: version ?? null,
    secrets: Object.fromEntries(secrets) as Record<string, number>,
    settings: shownRaw(kind, raw),
  }
}

/** What the store has of one, in the form of the settings file. Whoever gives it back as a whole changes nothing. */
export function exported(kind: Kind, value: Setting): Fields {
  const raw = toRaw(kind, value)
  const secrets = SECRET_FIELDS[kind].flatMap((field): [string, unknown][] => {
    if (secretsIn(raw, field).length > 0) return [[field, HIDDEN]]
    // Without this, one would be generated where the file is new.
    return GENERATED.includes(field) ? [[field, null]] : []
  })
  return { ...shownRaw(kind, raw), ...Object.fromEntries(secrets) }
}

/** Settings without write keys, secrets, values of headers and queries of URLs. */
function shownRaw(kind: Kind, raw: Fields): Fields {
  const shown = Object.entries(raw).filter(([name]) => !isSecret(kind, name))
  return Object.fromEntries(
    shown.map(([name, value]) => [
      name,
      name === 'webhooks' ? webhooksOf(value).map(shownWebhook) : value,
    ]),
  )
}

function isSecret(kind: Kind, field: string): boolean {
  return SECRET_FIELDS[kind].some((name) => name === field)
}

function shownWebhook({ headers, ...webhook }: Fields): Fields {
  const names = isFields(headers) ? Object.keys(headers) : []
  return {
    ...webhook,
    url: shownUrl(webhook['url']),
    headers: Object.fromEntries(names.map((name) => [name, HIDDEN])),
  }
}

export function shownUrl(url: unknown): unknown {
  if (typeof url !== 'string' || !url.includes('?')) return url
  return `${withoutQuery(url)}?${HIDDEN}`
}

/** The endpoints in settings that are not checked yet. */
export function webhooksOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : []
}

/**
 * Puts back the values that are not shown, after a client has sent settings as they were shown to it.
 *
 * A header keeps its value only at the same URL, so that a value never goes to another server than before.
 *
 * @returns the settings, and the places for which there is no value.
 */
export function restoreHidden(
  given: Fields,
  before: Fields | undefined,
): { raw: Fields; broken: BrokenRelation[] } {
  const broken = hiddenSecrets(given)
  const known = webhooksOf(before?.['webhooks'])
  const { webhooks } = given
  if (!Array.isArray(webhooks)) return { raw: given, broken }
  const urls = webhooks.map((webhook: unknown) => (isFields(webhook) ? webhook['url'] : undefined))
  const restored = webhooks.map((webhook: unknown, index): unknown => {
    if (!isFields(webhook)) return webhook
    const { url, headers } = webhook
    const { former, same } = formerOf(urls, index, known)
    const path = ['webhooks', index]
    const { values, missing, mixed } = restoreHeaders(headers, former?.['headers'])
    for (const name of mixed) {
      const message = `expected a value without ${HIDDEN}, which stands for a whole value. Write the whole value, or leave it as ${HIDDEN}.`
      broken.push({ path: [...path, 'headers', name], message })
    }
    let isNew = !former
    if (!former && typeof url === 'string' && hasHidden(url)) {
      const isHiddenWhole = url === `${withoutQuery(url)}?${HIDDEN}`
      // The full URL may be that of an endpoint whose headers are known.
      const isKnown = same.length > 0 || known.some((one) => one['url'] === withoutQuery(url))
      isNew = isHiddenWhole && !isKnown
      const which = same.length === 0 ? 'no endpoint has' : 'more than one endpoint has'
      const message = isHiddenWhole
        ? `expected the full URL, because ${which} this one without its query.`
        : `expected a URL without ${HIDDEN}, which stands for a whole query. Write the whole query, or leave it as ?${HIDDEN}.`
      broken.push({ path: [...path, 'url'], message })
    }
    for (const name of former || isNew ? missing : []) {
      const message = former
        ? 'expected a value, because this endpoint has had no such header.'
        : 'expected a value, because no endpoint has had this URL. Values are not shown, and none is sent to another URL than before.'
      broken.push({ path: [...path, 'headers', name], message })
    }
    return { ...webhook, ...(former && { url: former['url'] }), ...(values && { headers: values }) }
  })
  return { raw: { ...given, webhooks: restored }, broken }
}

/**
 * Finds the endpoint that a given one stands for, and all that it may stand for. Endpoints that differ only in their queries are
 * told apart by their order. Once one of them is left out, nobody knows which.
 */
function formerOf(urls: readonly unknown[], index: number, known: readonly Fields[]) {
  const url = urls[index]
  const exact = known.find((one) => one['url'] === url)
  if (exact) return { former: exact, same: [exact] }
  const same = known.filter((one) => shownUrl(one['url']) === url && !urls.includes(one['url']))
  if (same.length === 1) return { former: same[0], same }
  const isUrl = (one: unknown) => one === url
  const former =
    urls.filter(isUrl).length === same.length
      ? same[urls.slice(0, index).filter(isUrl).length]
      : undefined
  return { former, same }
}

/** Without this, the mark itself would become a secret that everybody knows. */
function hiddenSecrets(given: Fields): BrokenRelation[] {
  const fields = new Set(Object.values(SECRET_FIELDS).flat())
  return Array.from(fields).flatMap((field) => {
    const isHidden = [given[field]].flat().includes(HIDDEN)
    const message =
      'expected a secret. Secrets are not shown: leave the field out of a PUT or PATCH to keep what it has.'
    return isHidden ? [{ path: [field], message }] : []
  })
}

function restoreHeaders(given: unknown, former: unknown) {
  if (!isFields(given)) return { values: undefined, missing: [], mixed: [] }
  const formerOf = (name: string) =>
    isFields(former) && Object.hasOwn(former, name) ? former[name] : undefined
  const hidden = Object.keys(given).filter((name) => given[name] === HIDDEN)
  const missing = hidden.filter((name) => formerOf(name) === undefined)
  const mixed = Object.keys(given).filter((name) => {
    const value = given[name]
    return typeof value === 'string' && value !== HIDDEN && value.includes(HIDDEN)
  })
  const left = [...missing, ...mixed]
  // A mark without a value is left out: as a value, it would be called wrong for another reason.
  const values = Object.entries(given).flatMap(([name, value]) =>
    left.includes(name) ? [] : [[name, value === HIDDEN ? formerOf(name) : value]],
  )
  return { values: Object.fromEntries(values) as Fields, missing, mixed }
}

/** The values in which two versions differ, without what must not be shown. `undefined` is no version. */
export function changesBetween(
  kind: Kind,
  before: Setting | undefined,
  after: Setting | undefined,
): SettingChange[] {
  const old = before ? leavesOf(kind, toRaw(kind, before)) : new Map<string, Leaf>()
  const now = after ? leavesOf(kind, toRaw(kind, after)) : new Map<string, Leaf>()
  const paths = new Set([...old.keys(), ...now.keys()])
  return Array.from(paths).flatMap((path) => {
    const [from, to] = [old.get(path), now.get(path)]
    if (from && to && from.value === to.value) return []
    return [{ path, ...(from && { from: from.shown }), ...(to && { to: to.shown }) }]
  })
}

/** A value that contains no others. */
interface Leaf {
  value: unknown
  shown: unknown
}

function leavesOf(kind: Kind, raw: Fields): Map<string, Leaf> {
  const leaves = new Map<string, Leaf>()
  const visit = (value: unknown, path: string, isHidden: boolean): void => {
    if (Array.isArray(value) && value.length > 0) {
      for (const [i, one] of value.entries()) visit(one, `${path}[${i}]`, isHidden)
    } else if (isFields(value) && Object.keys(value).length > 0) {
      for (const [name, one] of Object.entries(value)) {
        const isHeader = path.endsWith('.headers')
        const at = path === '' ? name : `${path}.${name}`
        visit(one, at, isHidden || isHeader || (path === '' && isSecret(kind, name)))
      }
    } else {
      const shown = path.endsWith('.url') ? shownUrl(value) : value
      leaves.set(path, {
        value: typeof value === 'object' ? JSON.stringify(value) : value,
        shown: isHidden ? HIDDEN : shown,
      })
    }
  }
  visit(raw, '', false)
  return leaves
}
