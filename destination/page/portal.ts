// What the page of a tenant knows before anything else: this module runs first, because the address has the token.

/** Whether this is the page of a tenant, and not that of the operator. */
export const isPortal = location.pathname.endsWith('/portal')

/** The token of a link that was just opened; empty if there is none. It does not stay in the address, nor in the history. */
export function takeToken(): string {
  const token = isPortal ? /^#token=([\w.-]+)$/.exec(location.hash)?.[1] : undefined
  if (token !== undefined) history.replaceState(null, '', '#/')
  return token ?? ''
}

export const linkToken = takeToken()

/** The tenant that a token says it is for: the subject of a JWT (RFC 7519). The destination checks the token. */
export function tenantOf(token: string): unknown {
  const [, payload = ''] = token.split('.')
  try {
    return (JSON.parse(atob(payload.replace(/-/g, '+').replace(/_/g, '/'))) as { sub?: unknown })
      .sub
  } catch {
    return undefined
  }
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
