/** The URLs that refused a delivery, as a column holds them: JSON, or NULL for the usual none. */
export function toRefusedBy(urls: readonly string[]): string | null {
  return urls.length === 0 ? null : JSON.stringify(urls)
}

/** What {@link toRefusedBy} was given. */
export function refusedByOf(column: string | null): string[] {
  return column === null ? [] : (JSON.parse(column) as string[])
}
