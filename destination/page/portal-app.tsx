import { AccessGate } from './access.js'
import { NavLink, NotFound, Search, skip, ThemeButton, Toast, Unreachable, View } from './app.js'
import { compact } from './format.js'
import { tenant } from './portal-state.js'
import { ReplayDialog } from './replay.js'
import { route } from './route.js'
import { deadCount } from './state.js'

/** The views that tenants have. */
const VIEWS = ['', 'live', 'deliveries', 'destinations', 'messages', 'search']

/** The page of a tenant. It shares its views with that of the operator, and has no others. */
export function PortalApp() {
  const [view = ''] = route.value.path
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header>
        <a class="brand" href="#/">
          {tenant.value?.title ?? 'Deliveries'}
        </a>
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
        </nav>
        <Search />
        <div class="tools">
          <ThemeButton />
        </div>
      </header>
      <Unreachable />
      <main id="main" tabIndex={-1}>
        <AccessGate>{VIEWS.includes(view) ? <View /> : <NotFound />}</AccessGate>
      </main>
      <ReplayDialog />
      <Toast />
    </>
  )
}
