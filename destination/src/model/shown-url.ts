/**
 * Replaces the password in a URL so that the URL may be logged and shown: `postgres://user:***@host/db`. As for `URL`, the user and the
 * password may contain an @ and white space, and the last @ ends the password. The URL may be wrong: its password may have a `/`, `?`
 * or `#` that is not escaped, or be a parameter. A port is no password.
 */
export function withoutPassword(url: string): string {
  const end = url.lastIndexOf('@')
  // What comes before the password, of which the end is known: a search for both would take the square of the length.
  const start = /^[^/]*:\/+[^/?#:]*:(?!\d+[/?#])/.exec(url.slice(0, Math.max(0, end)))?.[0]
  const shown = start === undefined ? url : `${start}***${url.slice(end)}`
  return shown.replace(/([?&]password=)[^&#\s]+/i, '$1***')
}

/**
 * Shows only the scheme of a text that is not the URL of a store: `"mysql:…"`. The password may be anywhere in such a text, as in
 * `host=db password=…` and `jdbc:postgresql://db/app?password=…`.
 */
export function schemeOnly(text: string): string {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0]
  if (scheme === undefined) return `a string of ${text.length} characters`
  return JSON.stringify(scheme === text ? text : `${scheme}…`)
}

/** Removes the query from an endpoint's URL so that it may be logged and shown. Some customers keep keys in the query. */
export function withoutQuery(url: string): string {
  const end = url.indexOf('?')
  return end < 0 ? url : url.slice(0, end)
}
