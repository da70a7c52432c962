/** A URL without its password, such as `postgres://user:***@host/db`, which may be logged and shown. */
export function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^/?#\s:@]*):[^/?#\s]*@/, '$1:***@')
}

/** An endpoint's URL without its query, where some customers keep keys. This may be logged and shown. */
export function withoutQuery(url: string): string {
  const end = url.indexOf('?')
  return end < 0 ? url : url.slice(0, end)
}
