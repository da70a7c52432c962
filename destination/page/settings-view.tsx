// The settings: the lists of sources, destinations and tenants, and what each address below #/settings shows.
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { get, query } from './api.js'
import { AuditView } from './audit-view.js'
import { count, counted, shortUrl } from './format.js'
import { Failure, SearchField } from './form.js'
import { HealthPill } from './health.js'
import { NoChanges } from './no-changes.js'
import type {
  ManagedSetting,
  ManagedSettings,
  Overview,
  OverviewRow,
} from '../src/model/answers.js'
import { usePoll } from './poll.js'
import { route, type Route } from './route.js'
import { destinationForm, sourceForm, tenantForm } from './setting-form.js'
import { hashOf, list, type Kind } from './setting-kinds.js'
import { NewSettingView, SettingView } from './setting-view.js'
import { isAdmin, toApiError } from './state.js'

/** What an address below #/settings shows. */
export function settingsPage({ path }: Route): { title: string; view: ComponentChildren } {
  const [, view = 'destinations', name = ''] = path
  if (view === 'audit') return { title: 'Audit log', view: <AuditView /> }
  if (view === 'sources') return { title: 'Sources', view: <List kind="source" key={view} /> }
  if (view === 'tenants') return { title: 'Tenants', view: <List kind="tenant" key={view} /> }
  if (view === 'new') {
    const kind = name === 'source' || name === 'tenant' ? name : 'destination'
    return { title: `New ${kind}`, view: <NewSettingView kind={kind} /> }
  }
  if (view === 'source' || view === 'destination' || view === 'tenant') {
    return { title: name, view: <SettingView kind={view} name={name} key={`${view} ${name}`} /> }
  }
  return { title: 'Destinations', view: <List kind="destination" /> }
}

const TABS = [
  ['destination', 'destinations', 'Destinations'],
  ['source', 'sources', 'Sources'],
  ['tenant', 'tenants', 'Tenants'],
  ['audit', 'audit', 'Audit log'],
] as const

/** The choice of the list at the title of the view. */
export function SettingsTabs() {
  const [, view = 'destinations', kind] = route.value.path
  const shown = view === 'new' ? kind : view
  return (
    <nav class="segments" aria-label="Settings">
      {TABS.map(([one, all, words]) => (
        <a
          href={`#/settings/${all}`}
          aria-current={shown === one || shown === all ? 'page' : undefined}
          key={one}
        >
          {words}
        </a>
      ))}
    </nav>
  )
}

/** How many rows a page has. */
const ROWS = 25

const REFRESH_MS = 5_000

function List({ kind }: { kind: Kind }) {
  const found = useSignal<ManagedSettings | undefined>(undefined)
  const health = useSignal<ReadonlyMap<string, OverviewRow>>(new Map())
  const failure = useSignal('')
  const given = route.value.query
  const [q, after] = [given.get('q') ?? '', given.get('after') ?? '']
  const tenant = given.get('tenant') ?? ''
  const offset = Number(given.get('offset') ?? 0)
  const readList = async (abort: AbortSignal) => {
    try {
      const [answer, rows] = await Promise.all([
        list(kind, { q, tenant, after, limit: ROWS }, abort),
        // The overview can't be asked for the destinations of one tenant.
        kind === 'destination' && tenant === '' ? readRows(q, offset, abort) : [],
      ])
      found.value = answer
      health.value = new Map(rows.map((row) => [row.name, row]))
      failure.value = ''
    } catch (error) {
      if (!abort.aborted) failure.value = toApiError(error).message
    }
  }
  usePoll(readList, REFRESH_MS, [kind, q, tenant, after])
  if (found.value === undefined) {
    return failure.value === '' ? (
      <p aria-busy="true">Reading …</p>
    ) : (
      <Failure text={failure.value} />
    )
  }
  const { items, total, canChange, next } = found.value
  return (
    <>
      {(!canChange || !isAdmin.value) && <NoChanges canChange={canChange} />}
      <Failure text={failure.value} />
      <section class="card" aria-label={`${kind}s`}>
        <div class="title">
          <Search kind={kind} q={q} tenant={tenant} />
          {tenant !== '' && (
            <a
              class="chip active"
              href={listHash(kind, { q })}
              aria-label={`Remove the filter tenant ${tenant}`}
            >
              <span class="chip-text">of the tenant {tenant}</span>{' '}
              <span aria-hidden="true">×</span>
            </a>
          )}
          <span class="hint" role="status">
            {counted(total, kind)}
          </span>
          {canChange && isAdmin.value && (
            <a class="button primary" href={`#/settings/new/${kind}`}>
              New {kind}
            </a>
          )}
        </div>
        {total === 0 && (
          <p class="empty">
            {q + tenant === '' ? `There is no ${kind} yet.` : `No ${kind} matches.`}
          </p>
        )}
        <ul class="settings">
          {items.map((item) => (
            <Row item={item} row={health.value.get(item.name)} key={item.name} />
          ))}
        </ul>
        {(next !== null || after !== '') && (
          <nav class="pages" aria-label={`Pages of ${kind}s`}>
            <span>
              {count(offset + 1)} to {count(offset + items.length)} of {count(total)}
            </span>
            {after !== '' && <a href={listHash(kind, { q, tenant })}>First</a>}
            {next !== null && (
              <a href={listHash(kind, { q, tenant, after: next, offset: offset + items.length })}>
                Next
              </a>
            )}
          </nav>
        )}
      </section>
    </>
  )
}

/** The overview knows the health of destinations. It has the same order and search as the list. */
async function readRows(q: string, offset: number, abort: AbortSignal): Promise<OverviewRow[]> {
  const fields = { q, offset, limit: ROWS, sort: 'name' }
  return (await get<Overview>(`/overview${query(fields)}`, abort)).rows
}

const listHash = (kind: Kind, fields: Record<string, string | number>) =>
  `#/settings/${kind}s${query(fields)}`

function Search({ kind, q, tenant }: { kind: Kind; q: string; tenant: string }) {
  const what = kind === 'destination' ? 'name or URL' : 'name'
  return (
    <SearchField
      label={`Search ${kind}s by ${what}`}
      placeholder={what.charAt(0).toUpperCase() + what.slice(1)}
      value={q}
      onSearch={(typed) => {
        // The history of the browser needs no entry for each key.
        location.replace(listHash(kind, { q: typed, tenant }))
      }}
    />
  )
}

function Row({ item, row }: { item: ManagedSetting; row: OverviewRow | undefined }) {
  const { kind, name, origin, settings, secrets } = item
  const isRotating = Object.values(secrets).some((many) => many > 1)
  return (
    <li data-row>
      <span class="what">
        <a href={hashOf(kind, name)}>{name}</a>
        <span class="hint break">{WORDS[kind](item)}</span>
      </span>
      <span class="marks">
        {isRotating && <span class="pill state-fresh">rotation under way</span>}
        {origin === 'file' && <span class="pill">settings file</span>}
        {row ? (
          <HealthPill health={row.health} failedShare={row.failedShare} />
        ) : (
          settings['enabled'] === false && <span class="pill health-disabled">disabled</span>
        )}
      </span>
    </li>
  )
}

/** A row in words, by its kind. */
const WORDS: Readonly<Record<Kind, (item: ManagedSetting) => string>> = {
  source: ({ settings }) => {
    const { tenant, rateLimit } = sourceForm(settings)
    const { callsPerSecond } = rateLimit
    const limit =
      callsPerSecond === '' ? 'no rate limit' : `at most ${callsPerSecond} calls per second`
    return `${limit}${ofTenant(tenant)}`
  },
  destination: ({ settings }) => {
    const { tenant, webhooks, sources } = destinationForm(settings)
    const [first, ...others] = webhooks
    const more = others.length === 0 ? '' : ` and ${others.length} more`
    const from = sources.length === 0 ? 'no source' : sources.join(', ')
    return `${shortUrl(first?.url ?? '')}${more}, from ${from}${ofTenant(tenant)}`
  },
  tenant: ({ settings }) => tenantForm(settings).title,
}

const ofTenant = (tenant: string): string => (tenant === '' ? '' : `, of the tenant ${tenant}`)
