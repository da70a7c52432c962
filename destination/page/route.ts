import { signal } from '@preact/signals'

/** What the address asks for, after its `#`: `#/deliveries?state=dead` has the path `['deliveries']`. */
export interface Route {
  path: string[]
  query: URLSearchParams
  /** As it stands in the address. */
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

/** Pages seen in this tab since it was opened: with one alone, there is nothing to go back to. */
let seen = 1

addEventListener('hashchange', () => {
  seen++
  route.value = read()
})

export function go(hash: string): void {
  location.hash = hash
}

/** To the page before, or, for who came by a link, to the one above. */
export function goBack(above: string): void {
  if (seen > 1) history.back()
  else go(above)
}
