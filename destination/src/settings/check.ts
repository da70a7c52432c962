import * as z from 'zod'
import { isFields, type Fields } from '../model/fields.js'
import { schemeOnly } from '../model/shown-url.js'
import { expandEnvironment, type Environment } from './environment.js'
import { formatPath, type Path, type Problem } from './problem.js'
import { checkDestinationRelations, checkRelations, type BrokenRelation } from './relations.js'
import { destinationSchema, settingsSchema, sourceSchema, tenantSchema } from './schema.js'
import type { CallFilter, Destination, Settings, Source, Tenant } from './settings.js'
import { show, showShape } from './show.js'
import { suggest } from './suggest.js'

/** The checked settings, or every problem that was found in them. */
export type Checked = { settings: Settings } | { problems: Problem[] }

/**
 * Fills in the environment variables and checks all settings. It reports every problem at once.
 *
 * @param raw - The parsed content of the settings file.
 * @param folder - The folder that relative paths in `ca` start from. No files but those of `ca` are read.
 */
export function checkSettings(raw: unknown, env: Environment, folder: string): Checked {
  const { value, referring, problems } = expandEnvironment(raw, env)
  const schema = settingsSchema(folder, hasKey(value))
  const checked = check(schema, value, checkRelations(value), { referring, problems })
  return 'data' in checked ? { settings: toSettings(checked.data) } : checked
}

/** Settings that a command can read without the others. */
export type PartName =
  | 'listen'
  | 'adminListen'
  | 'adminToken'
  | 'sources'
  | 'destinations'
  | 'store'
  | 'allowNetworks'
  | 'ca'

/** What a command needs of the lists that it reads. Without a function, it needs all of a list. */
export interface Needs {
  /** The fields of a source that are needed. */
  sources?: (given: Fields, index: number) => readonly string[]
  /** The fields of a destination that are needed. */
  destinations?: (given: Fields) => readonly string[]
  /** Whether an endpoint is needed. */
  webhooks?: (given: Fields) => boolean
}

/**
 * Fills in and checks only the given settings, as {@link checkSettings} does. The others may be wrong, or refer to environment
 * variables that only the service has. Rules between the settings are not checked.
 *
 * @param needs - What is not needed of these settings has some valid value in the result.
 */
export function checkParts<Name extends PartName>(
  raw: unknown,
  names: readonly Name[],
  env: Environment,
  folder: string,
  needs: Needs = {},
): { settings: Pick<Settings, Name> } | { problems: Problem[] } {
  const mask = Object.fromEntries(names.map((name) => [name, true])) as Record<PartName, true>
  const { value, ...before } = expandEnvironment(neededOf(partsOf(raw, names), needs), env)
  const checked = check(settingsSchema(folder, hasKey(raw)).pick(mask), value, [], before)
  if ('problems' in checked) return checked
  const { sources, destinations, ...rest } = checked.data as Partial<typeof checked.data>
  const settings = {
    ...rest,
    ...(sources && { sources: sources.map(toSource) }),
    ...(destinations && { destinations: destinations.map(toDestination) }),
  }
  return { settings: settings as Pick<Settings, Name> }
}

function partsOf(raw: unknown, names: readonly string[]): unknown {
  if (!isFields(raw)) return raw
  return Object.fromEntries(Object.entries(raw).filter(([name]) => names.includes(name)))
}

/** Replaces what is not needed by something valid. All stays at its place in its list, because problems name the place. */
function neededOf(parts: unknown, { sources, destinations, webhooks }: Needs): unknown {
  if (!isFields(parts)) return parts
  const sourceOf =
    sources && ((given: Fields, i: number) => pick(given, 'source', sources(given, i)))
  const destinationOf =
    destinations &&
    ((given: Fields) => {
      const picked = pick(given, 'destination', destinations(given))
      const endpointOf = webhooks && ((one: Fields) => (webhooks(one) ? one : UNNEEDED_ENDPOINT))
      return { ...picked, webhooks: mapGiven(picked['webhooks'], endpointOf) }
    })
  return Object.fromEntries(
    Object.entries(parts).map(([name, value]) => {
      if (name === 'sources') return [name, mapGiven(value, sourceOf)]
      return [name, name === 'destinations' ? mapGiven(value, destinationOf) : value]
    }),
  )
}

/** No command is asked about this URL: a name that ends so does not exist. Source: RFC 2606 section 2. */
const UNNEEDED_ENDPOINT = { url: 'https://unneeded.invalid/' }

/** What stands for the required fields that are not needed. */
const UNNEEDED = {
  source: { name: 'unneeded', writeKey: 'unneeded' },
  destination: { name: 'unneeded', sources: ['unneeded'], webhooks: [UNNEEDED_ENDPOINT] },
}

/** Leaves out the fields that are not needed. A field that does not exist stays: it may be one that is needed, and misspelled. */
function pick(given: Fields, kind: keyof typeof UNNEEDED, needed: readonly string[]): Fields {
  const isUnneeded = (field: string) => FIELDS[kind].includes(field) && !needed.includes(field)
  const filled = Object.entries(UNNEEDED[kind]).filter(([field]) => isUnneeded(field))
  const kept = Object.entries(given).filter(([field]) => !isUnneeded(field))
  return Object.fromEntries([...filled, ...kept])
}

function mapGiven(list: unknown, map?: (given: Fields, index: number) => unknown): unknown {
  if (!map || !Array.isArray(list)) return list
  return list.map((each: unknown, index) => (isFields(each) ? map(each, index) : each))
}

function hasKey(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'settingsKey')
}

/**
 * Checks one source that is not in a file. A `\${` in it is a plain text.
 *
 * @param broken - Further rules that the caller has found broken.
 */
export function checkSource(
  raw: unknown,
  broken: readonly BrokenRelation[] = [],
): { value: Source } | { problems: Problem[] } {
  const checked = check(sourceSchema, raw, broken)
  return 'data' in checked ? { value: toSource(checked.data) } : checked
}

/** Checks one destination that is not in a file, as {@link checkSource} does. */
export function checkDestination(
  raw: unknown,
  broken: readonly BrokenRelation[] = [],
): { value: Destination } | { problems: Problem[] } {
  const relations = [...checkDestinationRelations(raw), ...broken]
  const checked = check(destinationSchema, raw, relations)
  return 'data' in checked ? { value: toDestination(checked.data) } : checked
}

/** Checks one tenant that is not in a file, as {@link checkSource} does. */
export function checkTenant(
  raw: unknown,
  broken: readonly BrokenRelation[] = [],
): { value: Tenant } | { problems: Problem[] } {
  const checked = check(tenantSchema, raw, broken)
  return 'data' in checked ? { value: checked.data } : checked
}

/** The fields of each kind of setting. */
export const FIELDS = {
  source: Object.keys(sourceSchema.shape),
  destination: Object.keys(destinationSchema.shape),
  tenant: Object.keys(tenantSchema.shape),
}

/** What is known before the check. */
interface Before {
  /** The paths of the strings that must not be shown. */
  referring: ReadonlySet<string>
  problems: readonly Problem[]
}

/** Checks a value by a schema, and reports the problems together with broken relations. */
function check<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  relations: readonly BrokenRelation[],
  before: Before = { referring: new Set(), problems: [] },
): { data: z.infer<Schema> } | { problems: Problem[] } {
  const problems = [...before.problems]
  const parsed = schema.safeParse(value)

  // A value that could not be filled in, or that has the wrong type, breaks other rules too.
  // These later problems of the same value are not reported.
  const reported = new Set(problems.map(({ path }) => path))
  const add = (path: Path, template: string) => {
    const key = formatPath(path)
    if (reported.has(key)) return
    const given = valueAt(value, path)
    const shape = showShape(given)
    const got = isSecret(path) || before.referring.has(key) ? shape : shownAt(path, given)
    const message = template.replace(/\{(got|shape)\}/g, (_, what) =>
      what === 'got' ? got : shape,
    )
    reported.add(key)
    problems.push({ path: key, message })
  }

  for (const issue of parsed.error?.issues ?? []) {
    if (issue.code !== 'unrecognized_keys') add(issue.path, issue.message)
    else for (const key of issue.keys) add([...issue.path, key], unknownField(key, issue, schema))
  }
  for (const { path, message } of relations) add(path, message)

  return parsed.success && problems.length === 0 ? { data: parsed.data } : { problems }
}

/**
 * Checks filters that are not in a file, as {@link checkDestination} does.
 *
 * @param sources - The names of the sources of their destination.
 */
export function checkFilters(
  filters: unknown,
  sources: readonly string[],
): { filters: CallFilter[] } | { problems: Problem[] } {
  const webhooks = [{ url: 'https://example.com/' }]
  const checked = checkDestination({ name: 'preview', sources, filters, webhooks })
  return 'value' in checked ? { filters: checked.value.filters ?? [] } : checked
}

function toSettings(data: z.infer<ReturnType<typeof settingsSchema>>): Settings {
  const { retention: retentionMs, settingsKey, adminToken, sources, destinations, ...rest } = data
  return {
    ...rest,
    ...(settingsKey === undefined ? {} : { settingsKeys: settingsKey }),
    sources: sources.map(toSource),
    destinations: destinations.map(toDestination),
    adminToken,
    retentionMs,
  }
}

function toSource({ writeKey, ...rest }: z.infer<typeof sourceSchema>): Source {
  const [first = '', other] = writeKey
  return { ...rest, writeKey: first, ...(other === undefined ? {} : { otherWriteKey: other }) }
}

function toDestination({
  sharedSecret = [],
  webhookSecret,
  ...rest
}: z.infer<typeof destinationSchema>): Destination {
  return {
    ...rest,
    sharedSecret: sharedSecret[0],
    ...(sharedSecret[1] === undefined ? {} : { otherSecret: sharedSecret[1] }),
    ...(webhookSecret === undefined ? {} : { webhookSecrets: webhookSecret }),
  }
}

const SECRETS: readonly PropertyKey[] = [
  'writeKey',
  'sharedSecret',
  'webhookSecret',
  'adminToken',
  'operatorToken',
  'settingsKey',
]

function isSecret(path: Path): boolean {
  const field = path.findLast((step) => typeof step === 'string') ?? ''
  return SECRETS.includes(field) || path.at(-2) === 'headers'
}

/** What is no store may have a password anywhere, and the query of a URL may have a key. */
function shownAt(path: Path, value: unknown): string {
  if (typeof value !== 'string' || value === '') return show(value)
  if (path[0] === 'store' && path.at(-1) !== 'name') return schemeOnly(value)
  return show(path.at(-1) === 'url' ? value.replace(/\?.+$/s, '?•••') : value)
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce(
    (value, step) => (value as Record<PropertyKey, unknown> | null | undefined)?.[step],
    root,
  )
}

/** Names that operators may know from other services, and the fields that they stand for here. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  port: 'listen',
  host: 'listen',
  address: 'listen',
  database: 'store',
  key: 'writeKey',
  secret: 'sharedSecret',
  token: 'adminToken',
  endpoints: 'webhooks',
  urls: 'webhooks',
  endpoint: 'url',
  source: 'sources',
  destination: 'destinations',
}

function unknownField(key: string, { path }: { path: Path }, schema: z.ZodType): string {
  const known = fieldsAt(schema, path)
  const other = OTHER_NAMES[key.toLowerCase()]
  const meant = other && known.includes(other) ? other : suggest(key, known)
  return meant === undefined
    ? `there is no such field. The fields here are ${known.join(', ')}.`
    : `there is no such field. Did you mean ${meant}?`
}

/**
 * The fields of the object at a path. The path leads through lists and objects only, because nothing else has fields.
 */
function fieldsAt(schema: z.ZodType, path: Path): string[] {
  let at = innerOf(schema)
  for (const step of path) {
    if (at instanceof z.ZodArray) at = innerOf(at.element)
    else if (at instanceof z.ZodObject) at = innerOf(at.shape[String(step)] as z.core.$ZodType)
  }
  return at instanceof z.ZodObject ? Object.keys(at.shape) : []
}

/** The schema of a value that is given, before it is completed or transformed. */
function innerOf(schema: z.core.$ZodType): z.core.$ZodType {
  let at = schema
  while (at instanceof z.ZodOptional || at instanceof z.ZodDefault) at = at.unwrap()
  return at instanceof z.ZodPipe ? at.in : at
}
