import { signal } from '@preact/signals'
import { keepToken, token } from './api.js'
import { kept, leave } from './leaving.js'
import { takeToken, tenantOf } from './portal.js' // it takes the token out of the address before the address is read

/** The part of the address after `#`. For `#/deliveries?state=dead`, the path is `['deliveries']`. */
export interface Route {
  path: string[]
  query: URLSearchParams
  /** The unparsed text, with its `#`. */
  hash: string
}

function read(): Route {
  const hash = location.hash
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  return {
    path: path === '' ? [] : path.split('/').map(decode),
    query: new URLSearchParams(query),
    hash,
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export const route = signal(read())

/** How many views this tab has shown. While it is 1, the browser's history has no view to go back to. */
let seen = 1

addEventListener('hashchange', () => {
  const link = takeToken()
  if (link !== '') openPortal(link)
  else if (kept.peek().size === 0) show()
  else {
    // The browser has changed the address already, and gives no way to prevent that.
    history.pushState(null, '', route.peek().hash || '#/')
    leave(() => {
      history.back()
    })
  }
})

function show(): void {
  seen++
  route.value = read()
}

/**
 * Uses the token of a further link to the portal. A page that contains this one in a frame may open a link any time, before or after
 * the one before has expired. A view that has something that would be lost stays, unless the link is of another tenant. For another
 * tenant the page is loaded anew, so that nothing of what it has read stays.
 */
function openPortal(link: string): void {
  const isOther = tenantOf(link) !== tenantOf(token.peek())
  if (isOther || kept.peek().size > 0) history.replaceState(null, '', route.peek().hash || '#/')
  if (isOther) {
    leave(() => {
      history.replaceState(null, '', `#token=${link}`)
      location.reload()
    })
    return
  }
  keepToken(link)
  if (kept.peek().size === 0) show()
}

// A link that is not followed leaves no entry in the history.
addEventListener('click', (event) => {
  const { target, ctrlKey, metaKey, shiftKey } = event
  const link = target instanceof Element ? target.closest<HTMLAnchorElement>('a[href^="#"]') : null
  if (kept.peek().size === 0 || link === null) return
  if (event.defaultPrevented || ctrlKey || metaKey || shiftKey) return
  event.preventDefault()
  go(link.hash)
})

export function go(hash: string): void {
  leave(() => {
    location.hash = hash
  })
}

/** Goes back to the previous view, or to `above` if this tab was opened with a link to the current view. */
export function goBack(above: string): void {
  leave(() => {
    if (seen > 1) history.back()
    else go(above)
  })
}
