import { AccessGate } from './access.js'
import { Navigation, NotFound, OldData, Search, skip, ThemeButton, Toast, View } from './app.js'
import { LateAnswer } from './form.js'
import { tenant } from './portal-state.js'
import { ReplayDialog } from './replay.js'
import { route } from './route.js'

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
        <Navigation />
        <Search />
        <div class="tools">
          <ThemeButton />
        </div>
      </header>
      <OldData />
      <LateAnswer />
      <main id="main" tabIndex={-1}>
        <AccessGate>{VIEWS.includes(view) ? <View /> : <NotFound />}</AccessGate>
      </main>
      <ReplayDialog />
      <Toast />
    </>
  )
}
