// Keys: `/` focuses the search, j and k move through lists, Esc goes back. The browser handles Enter and Tab.
import { goBack, route } from './route.js'

export function listenToKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
    if (document.querySelector('dialog[open]') !== null) return
    const { target } = event
    const isTyping =
      target instanceof HTMLElement &&
      target.matches('input:not([type=checkbox]), select, textarea')
    if (event.key === 'Escape') {
      if (isTyping) target.blur()
      else leave()
    } else if (isTyping) return
    else if (event.key === '/') {
      event.preventDefault()
      document.querySelector<HTMLInputElement>('#search')?.focus()
    } else if (event.key === 'j') move(1)
    else if (event.key === 'k') move(-1)
  })
}

function leave(): void {
  const [view, id] = route.value.path
  if (view === 'search' || id !== undefined)
    goBack(view === 'settings' ? '#/settings' : '#/deliveries')
}

function move(by: 1 | -1): void {
  const rows = Array.from(document.querySelectorAll<HTMLElement>('[data-row]'))
  const at = rows.findIndex((row) => row.contains(document.activeElement))
  const next = at === -1 ? (by === 1 ? 0 : rows.length - 1) : at + by
  const row = rows[Math.min(rows.length - 1, Math.max(0, next))]
  const link = row?.matches('a') ? row : row?.querySelector('a')
  link?.focus()
  row?.scrollIntoView({ block: 'nearest' })
}
