// What the page of a tenant knows before anything else: this module runs first, because the address has the token.

/** Whether this is the page of a tenant, and not that of the operator. */
export const isPortal = location.pathname.startsWith('/portal')

/** The token of a link that was just opened; empty if there is none. It does not stay in the address, nor in the history. */
function takeToken(): string {
  const token = isPortal ? /^#token=([\w.-]+)$/.exec(location.hash)?.[1] : undefined
  if (token !== undefined) history.replaceState(null, '', '#/')
  return token ?? ''
}

export const linkToken = takeToken()

/** Calls a function with the token of each further link. A page that contains this one in a frame may open one any time. */
export function onLink(use: (token: string) => void): void {
  addEventListener('hashchange', () => {
    const token = takeToken()
    if (token !== '') use(token)
  })
}

/** Reads what the browser keeps. In a frame of another site, browsers may refuse every access to it. */
export function load(storage: 'sessionStorage' | 'localStorage', key: string): string {
  try {
    return window[storage].getItem(key) ?? ''
  } catch {
    return ''
  }
}

/** Keeps a value, or removes it if it is empty. Where the browser refuses this, only the open page knows the value. */
export function store(
  storage: 'sessionStorage' | 'localStorage',
  key: string,
  value: string,
): void {
  try {
    if (value === '') window[storage].removeItem(key)
    else window[storage].setItem(key, value)
  } catch {
    // The value is forgotten with the page.
  }
}
