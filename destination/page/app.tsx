import type { ComponentChildren } from 'preact'
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks'
import { AccessGate, openTokenDialog, TokenDialog } from './access.js'
import { LateAnswer } from './form.js'
import { compact, span } from './format.js'
import { canWrite, deadCount, isRefused, lastReadAt, status, toast, statusError } from './state.js'
import { DeliveriesView } from './deliveries-view.js'
import { DeliveryView, Neighbours } from './delivery-view.js'
import { destinationPart, settingsPart, type Part } from './lazy.js'
import { LiveView } from './live-view.js'
import { MessageView } from './message-view.js'
import { overviewHash, OverviewView, SpanChoice } from './overview-view.js'
import { poll } from './poll.js'
import { ReplayDialog } from './replay.js'
import { go, route } from './route.js'
import { SearchView } from './search-view.js'
import { switchTheme, theme } from './theme.js'
import { now } from './state.js'

export function App() {
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header />
      <OldData />
      <LateAnswer />
      <main id="main" tabIndex={-1}>
        <AccessGate>
          <View />
        </AccessGate>
      </main>
      <footer>
        <p>
          <kbd>/</kbd> search <kbd>j</kbd> <kbd>k</kbd> next and previous <kbd>Enter</kbd> open{' '}
          <kbd>Esc</kbd> back
        </p>
        {status.value && (
          <p>
            hookline-destination {status.value.version}, {status.value.role}, {status.value.store},
            up for {span(status.value.now - status.value.startedAt)}
          </p>
        )}
      </footer>
      <TokenDialog />
      <ReplayDialog />
      <Toast />
    </>
  )
}

export function Toast() {
  return (
    <p class="toast" role="status">
      {toast.value && <span>{toast.value}</span>}
    </p>
  )
}

export function ThemeButton() {
  return (
    <button type="button" onClick={switchTheme}>
      <span class="sr">Colours: </span>
      {{ system: 'Auto', light: 'Light', dark: 'Dark' }[theme.value]}
    </button>
  )
}

export function skip(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

/** The view that the address names. A defect in one of them leaves the rest of the page as it is. */
export function View() {
  const [error, showAgain] = useErrorBoundary(console.error) as [unknown, () => void]
  return error === undefined ? <Views /> : <Failed error={error} showAgain={showAgain} />
}

function Failed({ error, showAgain }: { error: unknown; showAgain: () => void }) {
  const { hash } = route.value
  useEffect(() => showAgain, [hash]) // another view is shown
  return (
    <Page title="This view failed">
      <p class="error" role="alert">
        {`This is a defect of the page, not of your destination: ${String(error)}. Please report it.`}
      </p>
      <button type="button" onClick={showAgain}>
        Show it again
      </button>
    </Page>
  )
}

function Views() {
  const { path, query, hash } = route.value
  const [view = '', id = ''] = path
  switch (view) {
    case '':
      return (
        <Page title="Overview" tools={<SpanChoice hashOf={(span) => overviewHash({ span })} />}>
          <OverviewView />
        </Page>
      )
    case 'live':
      return (
        <Page title="Live">
          <LiveView />
        </Page>
      )
    case 'deliveries':
      if (id !== '') {
        return (
          <Page title={`Delivery ${id}`} tools={<Neighbours id={Number(id)} />} key={hash}>
            <DeliveryView id={id} key={id} />
          </Page>
        )
      }
      return (
        <Page title={query.get('state') === 'dead' ? 'Dead letters' : 'Deliveries'}>
          <DeliveriesView />
        </Page>
      )
    case 'destinations': {
      const views = destinationPart.loaded.value
      if (views === undefined) return <Loading title={id} part={destinationPart} />
      return (
        <Page title={id} tools={<views.DestinationSpan name={id} />} key={id}>
          <views.DestinationView name={id} />
        </Page>
      )
    }
    case 'messages':
      return (
        <Page title="Message" key={hash}>
          <MessageView id={id} />
        </Page>
      )
    case 'search':
      return (
        <Page title="Search" key={hash}>
          <SearchView text={query.get('q') ?? ''} />
        </Page>
      )
    case 'settings': {
      const views = settingsPart.loaded.value
      if (views === undefined) return <Loading title="Settings" part={settingsPart} />
      const { title, view: settings } = views.settingsPage(route.value)
      return (
        <Page title={title} tools={<views.SettingsTabs />} key={path.join('/')}>
          {settings}
        </Page>
      )
    }
    default:
      return <NotFound />
  }
}

/** In ms: the pause before a part is loaded again that could not be loaded. */
const RETRY_MS = 3_000

/** Stands for a view until its part of the page is loaded. */
function Loading<Module>({ title, part }: { title: string; part: Part<Module> }) {
  useEffect(() => poll(part.load, RETRY_MS), [part])
  return (
    <Page title={title}>
      {part.problem.value === '' ? (
        <p aria-busy="true">Reading …</p>
      ) : (
        <p class="error" role="alert">
          {part.problem.value}
        </p>
      )}
    </Page>
  )
}

export function NotFound() {
  return (
    <Page title="Not found">
      <p>
        There is no view at this address. <a href="#/">Go to the overview</a>
      </p>
    </Page>
  )
}

interface PageProps {
  title: string
  /** What stands beside the heading. */
  tools?: ComponentChildren
  children: ComponentChildren
}

/** A view with its heading. The heading gets the focus when the view opens, so that screen readers announce the view. */
function Page({ title, tools, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · hookline`
    const { activeElement } = document
    if (activeElement === document.body) heading.current?.focus({ preventScroll: true })
  }, [title])
  return (
    <>
      <div class="heading">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {tools}
      </div>
      {children}
    </>
  )
}

function Header() {
  return (
    <header>
      <a class="brand" href="#/">
        <Logo /> hookline
      </a>
      <Navigation>
        <NavLink href="#/settings" view="settings">
          Settings
        </NavLink>
      </Navigation>
      <Search />
      <div class="tools">
        <button type="button" onClick={openTokenDialog}>
          {canWrite.value ? 'Replay allowed' : 'Read-only'}
        </button>
        <ThemeButton />
      </div>
    </header>
  )
}

/** The same drawing as the icon of the browser tab. */
function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M7 9h5c6 0 6 7 11 7M7 23h5c6 0 6-7 11-7M7 16h15" />
      <circle cx="24" cy="16" r="3.5" />
    </svg>
  )
}

/** Leads to the views that operators and tenants have, and then to others. */
export function Navigation({ children }: { children?: ComponentChildren }) {
  return (
    <nav aria-label="Views">
      <NavLink href="#/" view="">
        Overview
      </NavLink>
      <NavLink href="#/live" view="live">
        Live
      </NavLink>
      <NavLink href="#/deliveries" view="deliveries">
        Deliveries
      </NavLink>
      <NavLink href="#/deliveries?state=dead" view="dead">
        Dead letters
        {deadCount.value > 0 && <span class="badge">{compact(deadCount.value)}</span>}
      </NavLink>
      {children}
    </nav>
  )
}

function NavLink(props: { href: string; view: string; children: ComponentChildren }) {
  const { path, query } = route.value
  const isDead = path[0] === 'deliveries' && path.length === 1 && query.get('state') === 'dead'
  const view = isDead ? 'dead' : path[0] === 'destinations' ? '' : (path[0] ?? '')
  return (
    <a href={props.href} aria-current={view === props.view ? 'page' : undefined}>
      {props.children}
    </a>
  )
}

export function Search() {
  const text = route.value.path[0] === 'search' ? (route.value.query.get('q') ?? '') : ''
  const search = (event: SubmitEvent) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const wanted = (data.get('q') as string).trim()
    if (wanted !== '') go(`#/search?q=${encodeURIComponent(wanted)}`)
  }
  return (
    <form role="search" onSubmit={search}>
      <input
        id="search"
        name="q"
        type="search"
        defaultValue={text}
        aria-label="Search by message id, user id or event"
        placeholder="Message id, user id or event"
        autocomplete="off"
        spellcheck={false}
      />
    </form>
  )
}

/**
 * Warns that the status could not be read, so that the page shows old data. It does not matter whether the destination does not answer,
 * answers with an error, or is behind a proxy that does.
 */
export function OldData() {
  const error = statusError.value
  const since = lastReadAt.value
  if (error === undefined || isRefused.value) return null
  // Before anything was read, an answer stands in the place of the view.
  if (error.code !== 'unreachable' && status.value === undefined) return null
  return (
    <p class="banner" role="alert">
      {error.message}
      {since !== undefined &&
        ` The page shows data that is ${span(Math.max(1_000, now.value - since))} old.`}{' '}
      The page tries again every few seconds.
    </p>
  )
}
