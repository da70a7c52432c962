/** Formats a time for people: `2026-11-21 15:35:10Z`. */
export function timeOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')}Z`
}

/** Formats a duration in its two largest units: `8 s`, `12 min`, `3 h 42 min`. */
export function inWords(ms: number): string {
  const seconds = Math.ceil(ms / 1_000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
