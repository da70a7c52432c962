/** Replaces the password in a URL so that the URL may be logged and shown: `postgres://user:***@host/db`. */
export function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^/?#\s:@]*):[^/?#\s]*@/, '$1:***@')
}

/** Removes the query from an endpoint's URL so that it may be logged and shown. Some customers keep keys in the query. */
export function withoutQuery(url: string): string {
  const end = url.indexOf('?')
  return end < 0 ? url : url.slice(0, end)
}
