import { signal } from '@preact/signals'
import './portal.js' // it takes the token out of the address before the address is read

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
  seen++
  route.value = read()
})

export function go(hash: string): void {
  location.hash = hash
}

/** Goes back to the previous view, or to `above` if this tab was opened with a link to the current view. */
export function goBack(above: string): void {
  if (seen > 1) history.back()
  else go(above)
}
