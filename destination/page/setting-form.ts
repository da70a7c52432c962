// What the forms of sources, destinations and tenants have, how it becomes settings, and where their mistakes belong. This file uses
// no browser API, so that tests can run it in Node.
import { HIDDEN } from '../src/model/hidden.js'
import { formatPath, REPEATED } from '../src/settings/problem.js'
import type { Problem } from './api.js'
import { parseJson, type Json } from './json.js'

/** Settings as the admin API shows and takes them. */
export type Fields = Readonly<Record<string, unknown>>

/** Numbers are texts here, because anything can be typed. */
export interface SourceForm {
  name: string
  /** Empty for the operator's own. */
  tenant: string
  rateLimit: { callsPerSecond: string; burst: string }
}

export interface DestinationForm {
  name: string
  tenant: string
  sources: readonly string[]
  webhooks: readonly WebhookForm[]
  filters: readonly FilterForm[]
}

export interface TenantForm {
  name: string
  title: string
  quotas: Readonly<Record<Quota, string>>
  /** Whether it may change the URLs of its endpoints. */
  portal: boolean
}

export const QUOTAS = ['callsPerSecond', 'burst', 'waiting', 'concurrency'] as const
export type Quota = (typeof QUOTAS)[number]

export interface WebhookForm {
  url: string
  /** The URL for which the values of headers stay that are not shown; empty if there is none. */
  keptFor: string
  headers: readonly HeaderForm[]
  concurrency: string
  requestsPerSecond: string
}

export interface HeaderForm {
  name: string
  value: string
  /** The name for which its value stays, which is not shown; empty if there is none. */
  keptAs: string
}

/** Whether an empty value stays what it is: a value that is not shown is kept only at its URL, under its name. */
export const stays = (
  { url, keptFor }: Pick<WebhookForm, 'url' | 'keptFor'>,
  { name, keptAs }: Pick<HeaderForm, 'name' | 'keptAs'>,
): boolean => keptAs !== '' && keptAs === name && url.trim() === keptFor

/** Patterns are one a line, and the condition is JSON. */
export interface FilterForm {
  sources: readonly string[]
  types: readonly string[]
  allow: string
  deny: string
  where: string
}

export const NO_WEBHOOK: WebhookForm = {
  url: '',
  keptFor: '',
  headers: [],
  concurrency: '128',
  requestsPerSecond: '',
}

export const NO_FILTER: FilterForm = { sources: [], types: [], allow: '', deny: '', where: '' }

export const NO_SOURCE: SourceForm = {
  name: '',
  tenant: '',
  rateLimit: { callsPerSecond: '', burst: '' },
}

export const NO_TENANT: TenantForm = {
  name: '',
  title: '',
  portal: false,
  quotas: { callsPerSecond: '', burst: '', waiting: '', concurrency: '' },
}

export const NO_DESTINATION: DestinationForm = {
  name: '',
  tenant: '',
  sources: [],
  webhooks: [NO_WEBHOOK],
  filters: [],
}

export function sourceForm(settings: Fields): SourceForm {
  const { callsPerSecond, burst } = fieldsOf(settings['rateLimit'])
  return {
    name: text(settings['name']),
    tenant: text(settings['tenant']),
    rateLimit: { callsPerSecond: text(callsPerSecond), burst: text(burst) },
  }
}

/** @param settings - The present ones. What the form does not have stays. */
export function sourceSettings({ tenant, rateLimit }: SourceForm, settings: Fields = {}): Fields {
  const { callsPerSecond, burst } = rateLimit
  const isLimited = callsPerSecond.trim() !== '' || burst.trim() !== ''
  const limit = { callsPerSecond: number(callsPerSecond), burst: number(burst) }
  return { ...settings, tenant: given(tenant), rateLimit: isLimited ? limit : undefined }
}

export function destinationForm(settings: Fields): DestinationForm {
  return {
    name: text(settings['name']),
    tenant: text(settings['tenant']),
    sources: textsIn(settings['sources']),
    webhooks: listIn(settings['webhooks']).map(webhookForm),
    filters: listIn(settings['filters']).map(filterForm),
  }
}

/** @param settings - The present ones. What the form does not have stays. */
export function destinationSettings(
  { tenant, sources, webhooks, filters }: DestinationForm,
  settings: Fields = {},
): Fields {
  return {
    ...settings,
    tenant: given(tenant),
    sources,
    webhooks: webhooks.map(webhookSettings),
    filters: filters.length === 0 ? undefined : filterSettings(filters),
  }
}

export function tenantForm(settings: Fields): TenantForm {
  const quotas = fieldsOf(settings['quotas'])
  return {
    name: text(settings['name']),
    title: text(settings['title']),
    quotas: Object.fromEntries(QUOTAS.map((quota) => [quota, text(quotas[quota])])) as Record<
      Quota,
      string
    >,
    portal: fieldsOf(settings['portal'])['editUrls'] === true,
  }
}

/** @param settings - The present ones. What the form does not have stays. */
export function tenantSettings(
  { title, quotas, portal }: TenantForm,
  settings: Fields = {},
): Fields {
  const limits = QUOTAS.filter((quota) => quotas[quota].trim() !== '')
  return {
    ...settings,
    title: given(title),
    quotas:
      limits.length === 0
        ? undefined
        : Object.fromEntries(limits.map((quota) => [quota, number(quotas[quota])])),
    portal: { ...fieldsOf(settings['portal']), editUrls: portal },
  }
}

function webhookForm({ url, headers, concurrency, rateLimit }: Fields): WebhookForm {
  return {
    url: text(url),
    keptFor: text(url),
    headers: Object.entries(fieldsOf(headers)).map(([name, value]) => ({
      name,
      keptAs: value === HIDDEN ? name : '',
      value: value === HIDDEN ? '' : text(value),
    })),
    concurrency: text(concurrency),
    requestsPerSecond: text(fieldsOf(rateLimit)['requestsPerSecond']),
  }
}

function webhookSettings({ url, headers, concurrency, requestsPerSecond }: WebhookForm): Fields {
  const present = headers.filter((one) => !isBlank(one))
  return {
    url: url.trim(),
    headers: Object.fromEntries(
      present.map(({ name, value, keptAs }) => [
        name,
        keptAs !== '' && value === '' ? HIDDEN : value,
      ]),
    ),
    concurrency: number(concurrency),
    ...(requestsPerSecond.trim() !== '' && {
      rateLimit: { requestsPerSecond: number(requestsPerSecond) },
    }),
  }
}

const isBlank = ({ name, value, keptAs }: HeaderForm) =>
  name === '' && value === '' && keptAs === ''

function filterForm({ sources, types, events, where }: Fields): FilterForm {
  const { allow, deny } = fieldsOf(events)
  return {
    sources: textsIn(sources),
    types: textsIn(types),
    allow: textsIn(allow).join('\n'),
    deny: textsIn(deny).join('\n'),
    where: where === undefined ? '' : JSON.stringify(where, null, 2),
  }
}

export function filterSettings(filters: readonly FilterForm[]): Fields[] {
  return filters.map(({ sources, types, allow, deny, where }) => {
    const [allowed, denied] = [linesOf(allow), linesOf(deny)]
    const events = {
      ...(allowed.length > 0 && { allow: allowed }),
      ...(denied.length > 0 && { deny: denied }),
    }
    return {
      ...(sources.length > 0 && { sources }),
      ...(types.length > 0 && { types }),
      ...(Object.keys(events).length > 0 && { events }),
      ...(where.trim() !== '' && { where: parsed(where).value }),
    }
  })
}

/** The mistakes that only the page can find, because they would not reach the destination as they are. */
export function mistakesIn({ webhooks, filters }: Pick<DestinationForm, 'webhooks' | 'filters'>) {
  const twice = webhooks.flatMap(({ headers }, i) =>
    headers.flatMap(({ name }, j): Problem[] => {
      const first = headers.findIndex((one) => one.name === name)
      if (name === '' || first === j) return []
      const message = 'there is a header of this name already. Remove one of the two.'
      return [{ path: `webhooks[${i}].headers#${j}`, message }]
    }),
  )
  const unknown = webhooks.flatMap((webhook, i) =>
    webhook.headers.flatMap((header, j): Problem[] => {
      const isNeeded = header.keptAs !== '' && header.value === '' && !stays(webhook, header)
      const message = 'enter the value again: it is kept only for the URL and the name that it had.'
      return isNeeded ? [{ path: valueField(i, j), message }] : []
    }),
  )
  const broken = filters.flatMap(({ where }, i) =>
    parsed(where).errors.map((message): Problem => ({ path: `filters[${i}].where`, message })),
  )
  return [...twice, ...unknown, ...broken]
}

/** The path of a header in the form. Two rows may have the same name, so the row has a path of its own. */
export const headerField = (webhook: number, row: number): string =>
  `webhooks[${webhook}].headers#${row}`

/** The path of its value in the form. */
export const valueField = (webhook: number, row: number): string =>
  `${headerField(webhook, row)}.value`

/** The field of the form for each path of the settings that has one. */
export function destinationFields({ webhooks, filters }: DestinationForm): Map<string, string> {
  const paths = [
    ...['name', 'tenant', 'sharedSecret', 'sources', 'webhooks', 'filters'],
    ...webhooks.flatMap(({ headers }, i) => [
      ...['', '.url', '.concurrency', '.rateLimit'].map((field) => `webhooks[${i}]${field}`),
      ...headers.flatMap((_, j) => [headerField(i, j), valueField(i, j)]),
    ]),
    ...filters.flatMap((_, i) =>
      ['', '.sources', '.types', '.events.allow', '.events.deny', '.where'].map(
        (field) => `filters[${i}]${field}`,
      ),
    ),
  ]
  const fields = new Map(paths.map((path) => [path, path]))
  for (const [i, { headers }] of webhooks.entries()) {
    for (const [j, { name, value, keptAs }] of headers.entries()) {
      // Where the value is not shown, the destination can only have missed that.
      const field = keptAs !== '' && value === '' ? valueField : headerField
      fields.set(formatPath(['webhooks', i, 'headers', name]), field(i, j))
    }
  }
  return fields
}

export const SOURCE_FIELDS: ReadonlyMap<string, string> = new Map(
  ['name', 'tenant', 'writeKey', 'rateLimit.callsPerSecond', 'rateLimit.burst'].map((path) => [
    path,
    path,
  ]),
)

export const TENANT_FIELDS: ReadonlyMap<string, string> = new Map(
  ['name', 'title', ...QUOTAS.map((quota) => `quotas.${quota}`)].map((path) => [path, path]),
)

/** The messages of each field, and the problems that have no field. */
interface Placed {
  byField: Readonly<Record<string, readonly string[]>>
  others: readonly Problem[]
}

/**
 * Finds the field of each problem: the one of its path, or else of the closest part of the form that contains it.
 *
 * @param fields - The field for each path of the settings that has one.
 */
export function placed(problems: readonly Problem[], fields: ReadonlyMap<string, string>): Placed {
  const byField = new Map<string, string[]>()
  const others: Problem[] = []
  for (const problem of problems) {
    const field = fieldOf(problem.path, fields)
    if (field === undefined) others.push(problem)
    else byField.set(field, [...(byField.get(field) ?? []), problem.message])
  }
  return { byField: Object.fromEntries(byField), others }
}

function fieldOf(path: string, fields: ReadonlyMap<string, string>): string | undefined {
  const inner = Array.from(fields.keys()).filter(
    (one) => path === one || path.startsWith(`${one}.`) || path.startsWith(`${one}[`),
  )
  const closest = inner.reduce((best, one) => (one.length > best.length ? one : best), '')
  return fields.get(closest)
}

/** A form on a newer version, and what happened to its fields. */
interface Rebased<Form> {
  form: Form
  /** Fields that both have changed to different values. The form has what was typed. */
  clashes: (keyof Form)[]
}

/** Joins what was typed with what somebody else has saved meanwhile. Nothing that was typed is lost. */
export function rebase<Form extends object>(before: Form, mine: Form, theirs: Form): Rebased<Form> {
  const names = Object.keys(before) as (keyof Form)[]
  const isByThem = (name: keyof Form) => !isSame(theirs[name], before[name])
  const isByMe = (name: keyof Form) => !isSame(mine[name], before[name])
  const form = { ...theirs }
  for (const name of names) if (isByMe(name)) form[name] = mine[name]
  return {
    form,
    clashes: names.filter(
      (name) => isByThem(name) && isByMe(name) && !isSame(mine[name], theirs[name]),
    ),
  }
}

/**
 * Whether what is saved is what was wanted.
 *
 * @param isByOther - Whether somebody else has saved it. The values of headers are not shown: then nobody knows whether they are the same.
 */
export function isSaved(
  formOf: (settings: Fields) => unknown,
  wanted: Fields,
  saved: Fields,
  isByOther: boolean,
): boolean {
  const form = formOf(saved)
  // No form has this.
  if (wanted['enabled'] !== saved['enabled']) return false
  return isSame(formOf(wanted), form) || (!isByOther && isSame(formOf(withoutValues(wanted)), form))
}

/** Settings as they are shown once they are saved. */
function withoutValues(settings: Fields): Fields {
  if (settings['webhooks'] === undefined) return settings
  const webhooks = listIn(settings['webhooks']).map((webhook) => {
    const names = Object.keys(fieldsOf(webhook['headers']))
    return { ...webhook, headers: Object.fromEntries(names.map((name) => [name, HIDDEN])) }
  })
  return { ...settings, webhooks }
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function linesOf(typed: string): string[] {
  return typed.split('\n').filter((line) => line !== '')
}

function parsed(json: string): { value?: unknown; errors: readonly string[] } {
  if (json.trim() === '') return { errors: [] }
  try {
    const value: unknown = JSON.parse(json)
    return { value, errors: lossesIn(parseJson(json)) }
  } catch (error) {
    return { errors: [`this is not JSON: ${(error as Error).message}`] }
  }
}

/** What would not be sent as it was typed: JavaScript keeps the last of the fields with one name, and has no JSON for Infinity. */
function lossesIn(json: Json | undefined, name = ''): string[] {
  switch (json?.kind) {
    case 'number':
      return Number.isFinite(Number(json.text))
        ? []
        : [`${name}expected a number, got ${json.text}, which is Infinity.`]
    case 'list':
      return json.items.flatMap((item) => lossesIn(item, name))
    case 'object': {
      const names = new Set<string>()
      return json.members.flatMap(([field, value]) => {
        const twice = names.has(field) ? [`${field}: ${REPEATED}`] : []
        names.add(field)
        return [...twice, ...lossesIn(value, `${field}: `)]
      })
    }
    default:
      return []
  }
}

/** A number if the text is one that JSON has. The destination refuses other texts, and says what it expected. */
function number(typed: string): number | string | undefined {
  const trimmed = typed.trim()
  if (trimmed === '') return undefined
  const isNumber = /^-?\d+(?:\.\d+)?$/.test(trimmed) && Number.isFinite(Number(trimmed))
  return isNumber ? Number(trimmed) : trimmed
}

/** A text field that is empty is not given. */
function given(typed: string): string | undefined {
  return typed.trim() === '' ? undefined : typed.trim()
}

function text(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

function textsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}

function listIn(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : []
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}
