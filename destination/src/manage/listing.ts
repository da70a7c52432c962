import type { ManagedSetting, ManagedSettings } from '../model/answers.js'
import type { Fields } from '../model/fields.js'
import type { Kind } from '../model/setting.js'
import { withoutQuery } from '../model/shown-url.js'
import type { Entry, Managed, Setting } from './managed.js'
import { unknown } from './refusals.js'
import { exported, shownSetting } from './shown.js'
import { revisionOf } from './wanted.js'

/** A page of a list. */
export interface Page {
  /** Only what has this text in its name or a URL; an empty text for all. */
  q: string
  after: string | undefined
  limit: number
  /** Only destinations that take the calls of this source; `undefined` for all. */
  source?: string | undefined
  /** Only sources or destinations of this tenant; `undefined` for all. */
  tenant?: string | undefined
}

/** A page of the sources, destinations or tenants, by name. */
export function listSettings(
  managed: Managed,
  kind: Kind,
  { q, after, limit, source, tenant }: Page,
): ManagedSettings {
  const text = q.toLowerCase()
  const all: readonly Setting[] = managed.settings()[`${kind}s`]
  const names = all
    .filter((value) => matches(value, text) && takes(value, source) && belongs(value, tenant))
    .map(({ name }) => name)
  names.sort()
  const rest = after === undefined ? names : names.filter((name) => name > after)
  const page = rest.slice(0, limit)
  return {
    items: page.map((name) => getSetting(managed, kind, name)),
    total: names.length,
    canChange: managed.sealer !== undefined,
    next: rest.length > limit ? (page.at(-1) ?? null) : null,
  }
}

/** @throws Refusal if there is none. */
export function getSetting(managed: Managed, kind: Kind, name: string): ManagedSetting {
  const value = managed.get(kind, name)
  if (!value) throw unknown(kind, name)
  return shownSetting(kind, value, managed.entry(kind, name)?.version)
}

/** Everything in the store, in the form of the settings file and by name. Each is computed when it is read. */
export function exportSettings(managed: Managed): {
  revision: string
  settings: Record<`${Kind}s`, Iterable<Fields>>
} {
  const of = (kind: Kind) => exportedOf(kind, Array.from(managed.entries(kind)))
  return {
    revision: revisionOf(managed.versions()),
    settings: { tenants: of('tenant'), sources: of('source'), destinations: of('destination') },
  }
}

function* exportedOf(kind: Kind, entries: [string, Entry][]): Generator<Fields> {
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [, { value }] of entries) yield exported(kind, value)
}

function matches(value: Setting, text: string): boolean {
  if (value.name.toLowerCase().includes(text)) return true
  if ('title' in value && value.title?.toLowerCase().includes(text)) return true
  return (
    'webhooks' in value &&
    value.webhooks.some(({ url }) => withoutQuery(url).toLowerCase().includes(text))
  )
}

function takes(value: Setting, source: string | undefined): boolean {
  return source === undefined || ('sources' in value && value.sources.includes(source))
}

function belongs(value: Setting, tenant: string | undefined): boolean {
  return tenant === undefined || ('tenant' in value && value.tenant === tenant)
}
