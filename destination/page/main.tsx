import { render } from 'preact'
import { App } from './app.js'
import { isPortal } from './portal.js'
import { PortalApp } from './portal-app.js'
import { listenToKeys } from './keys.js'
import { start } from './state.js'
import { useStoredTheme } from './theme.js'

useStoredTheme()
start()
listenToKeys()
const root = document.getElementById('app')
if (root !== null) render(isPortal ? <PortalApp /> : <App />, root)
