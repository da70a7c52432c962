import { isDeepStrictEqual } from 'node:util'
import { parseListen } from './network.js'
import { formatPath, type Path } from './problem.js'

/** A broken rule between values. As in the schema, its message may contain `{got}`. */
export interface BrokenRelation {
  path: Path
  message: string
}

/** A string with its path. */
type Entry = readonly [path: Path, value: string]

/**
 * Checks the rules between values: which names must be unique, and which must exist. It reads settings whose types are
 * not checked yet and skips values of the wrong type, so that its problems are reported together with those of the
 * schema.
 */
export function checkRelations(raw: unknown): BrokenRelation[] {
  const sources = entriesOf(raw, 'sources')
  const known = tenantsBySource(sources)
  // Without any name, each source of each destination would be wrong, and the list of sources is reported already. If the
  // sources are in the store, the destinations of the file can't use them.
  const isNamed = known.size > 0 || get(raw, 'settingsKey') !== undefined
  const destinations = entriesOf(raw, 'destinations')
  const tenants = entriesOf(raw, 'tenants').flatMap(text('name'))
  const tenantNames = new Set(tenants.map(([, name]) => name))
  return [
    ...checkListeners(raw),
    ...checkTokens(raw),
    ...checkAlerts(raw, destinations),
    ...repeated(sources.flatMap(text('name')), 'name'),
    ...repeated(sources.flatMap(keysOf), 'write key'),
    ...repeated(destinations.flatMap(text('name')), 'name'),
    ...repeated(tenants, 'name'),
    ...sources.flatMap(([path, source]) => checkTenantOf(path, source, tenantNames)),
    ...destinations.flatMap(([path, destination]) => [
      ...checkTenantOf(path, destination, tenantNames),
      ...(isNamed ? checkSourcesOf(path, destination, known) : []),
      ...checkDestinationRelations(destination, path),
    ]),
  ]
}

/** Checks the rules within one destination. */
export function checkDestinationRelations(destination: unknown, path: Path = []): BrokenRelation[] {
  return [
    ...repeated(entriesOf(destination, 'sources', path).filter(isText), 'source'),
    ...entriesOf(destination, 'filters', path).flatMap(([at, filter]) =>
      checkSourcesOfFilter(at, filter, destination),
    ),
    ...repeated(
      entriesOf(destination, 'webhooks', path).flatMap(text('url')).map(normalised),
      'URL',
    ),
  ]
}

/** Port 0 never conflicts, because the system then chooses a different free port for each server. */
function checkListeners(raw: unknown): BrokenRelation[] {
  const [main, admin] = [parseListen(get(raw, 'listen')), parseListen(get(raw, 'adminListen'))]
  if (!main || !admin || admin.port === 0 || !isDeepStrictEqual(main, admin)) return []
  const message =
    'is the same address as "listen". Remove it to serve both at that address, or choose another port.'
  return [{ path: ['adminListen'], message }]
}

/** Without an admin token, everybody on the machine may read, and the token of an operator would protect nothing. */
function checkTokens(raw: unknown): BrokenRelation[] {
  const [admin, operator] = [get(raw, 'adminToken'), get(raw, 'operatorToken')]
  if (operator === undefined || (admin !== undefined && admin !== operator)) return []
  const message =
    admin === undefined
      ? 'needs an "adminToken" too, which allows everything. Set one.'
      : 'is the same token as "adminToken". Choose another one, or remove it.'
  return [{ path: ['operatorToken'], message }]
}

/** The destination of the alerts must exist: in the file, or in the store, which is not known here. */
function checkAlerts(raw: unknown, destinations: readonly [Path, unknown][]): BrokenRelation[] {
  const name = get(get(raw, 'alerts'), 'destination')
  if (typeof name !== 'string') return []
  const owner = destinations.find(([, one]) => get(one, 'name') === name)
  const tenant = get(owner?.[1], 'tenant')
  if (tenant !== undefined) {
    const message = `expected a destination without a tenant, got {got}, which belongs to ${JSON.stringify(tenant)}: the alerts name the destinations of all tenants.`
    return [{ path: ['alerts', 'destination'], message }]
  }
  const known = destinations.flatMap(text('name')).map(([, one]) => one)
  const mayBeStored = get(raw, 'settingsKey') !== undefined
  if (mayBeStored || owner) return []
  const message =
    known.length === 0
      ? 'expected the name of a destination, got {got}, but there are no destinations.'
      : `expected the name of one of the destinations (${listOf(known)}), got {got}.`
  return [{ path: ['alerts', 'destination'], message }]
}

/** The sources that there are, with their tenants. */
export type TenantsBySource = Pick<ReadonlyMap<string, string | undefined>, 'has' | 'get' | 'keys'>

/** Checks that the sources that a destination names exist, and that they belong to its tenant if it has one. */
export function checkSourcesOf(
  path: Path,
  destination: unknown,
  known: TenantsBySource,
): BrokenRelation[] {
  const tenant = get(destination, 'tenant')
  const takesAny = typeof tenant !== 'string'
  let which: string | undefined // there may be thousands of sources, and thousands of unknown ones
  return entriesOf(destination, 'sources', path)
    .filter(isText)
    .flatMap(([path, source]): BrokenRelation[] => {
      if (!known.has(source)) {
        which ??= listedAs([...known.keys()])
        return [{ path, message: `expected the name of one of the sources${which}, got {got}.` }]
      }
      const owner = known.get(source)
      if (takesAny || owner === tenant) return []
      const whose = owner === undefined ? 'no tenant' : `the tenant ${JSON.stringify(owner)}`
      const message = `expected a source of the tenant ${JSON.stringify(tenant)}, got {got}, which belongs to ${whose}.`
      return [{ path, message }]
    })
}

/** Checks that the tenant of a source or destination exists. */
export function checkTenantOf(
  path: Path,
  owned: unknown,
  known: Pick<ReadonlySet<string>, 'has' | 'keys'>,
): BrokenRelation[] {
  return text('tenant')([path, owned])
    .filter(([, tenant]) => !known.has(tenant))
    .map(([path]) => {
      const which = listedAs([...known.keys()])
      return { path, message: `expected the name of one of the tenants${which}, got {got}.` }
    })
}

function tenantsBySource(
  sources: readonly [Path, unknown][],
): ReadonlyMap<string, string | undefined> {
  return new Map(
    sources.flatMap((source) => {
      const [tenant] = text('tenant')(source)
      return text('name')(source).map(([, name]) => [name, tenant?.[1]])
    }),
  )
}

/** A filter is only asked about calls that the destination gets otherwise. */
function checkSourcesOfFilter(path: Path, filter: unknown, destination: unknown): BrokenRelation[] {
  const given = entriesOf(destination, 'sources').filter(isText)
  const known = given.map(([, name]) => name)
  const named = entriesOf(filter, 'sources', path).filter(isText)
  return [
    ...named
      .filter(([, name]) => !known.includes(name))
      .map(([path]) => ({
        path,
        message: `expected one of the sources of the destination (${listOf(known)}), got {got}.`,
      })),
    ...repeated(named, 'source'),
  ]
}

/** More names than this are not listed in a message. */
const MAX_LISTED = 20

function listOf(names: readonly string[]): string {
  const listed = names.slice(0, MAX_LISTED).map((name) => JSON.stringify(name))
  const others = names.length - listed.length
  return listed.join(', ') + (others > 0 ? ` and ${others} others` : '')
}

function listedAs(names: readonly string[]): string {
  return names.length > 0 ? ` (${listOf(names)})` : ', of which there are none'
}

/** The elements of a list with their paths; empty if the field is not a list. */
function entriesOf(raw: unknown, field: string, at: Path = []): [Path, unknown][] {
  const list = get(raw, field)
  if (!Array.isArray(list)) return []
  return list.map((each: unknown, index) => [[...at, field, index], each])
}

/** The write keys of a source: one, or two during a rotation, which the schema compares. */
function keysOf(source: [Path, unknown]): Entry[] {
  const keys = entriesOf(source[1], 'writeKey', source[0]).filter(isText)
  return keys.length > 0 ? keys : text('writeKey')(source)
}

/** Reads a field of an entry. The result is empty if the field is missing or not a string. */
function text(field: string) {
  return ([path, value]: [Path, unknown]): Entry[] => {
    const found = get(value, field)
    return typeof found === 'string' ? [[[...path, field], found]] : []
  }
}

function get(value: unknown, field: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, field)
    ? (value as Record<string, unknown>)[field]
    : undefined
}

const isText = (entry: [Path, unknown]): entry is [Path, string] => typeof entry[1] === 'string'

/** Normalizes a URL, because `HTTP://a.example` and `http://a.example/` send the same request. */
const normalised = ([path, url]: Entry): Entry => [
  path,
  URL.canParse(url) ? new URL(url).href : url,
]

/** Reports each value that an earlier entry has too. */
function repeated(entries: readonly Entry[], what: string): BrokenRelation[] {
  const firsts = new Map<string, Path>()
  return entries.flatMap(([path, value]) => {
    const first = firsts.get(value)
    if (first === undefined) {
      firsts.set(value, path)
      return []
    }
    const message = `is the same ${what} as ${formatPath(first)}. Change or remove one of the two.`
    return [{ path, message }]
  })
}
