import { withoutPassword } from '../model/shown-url.js'

const MAX_SHOWN = 60

/** Says what came instead of what was expected. A password in a URL is left out. */
export function show(value: unknown): string {
  if (typeof value === 'string' && value !== '') {
    const text = withoutPassword(value)
    return text.length > MAX_SHOWN
      ? `${JSON.stringify(text.slice(0, MAX_SHOWN))}… (${text.length} characters)`
      : JSON.stringify(text)
  }
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  return showShape(value)
}

/** Says of what kind a value is, and not what it is: for secrets. */
export function showShape(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (value === '') return 'an empty string'
  if (typeof value === 'string') {
    return `a string of ${value.length} character${value.length === 1 ? '' : 's'}`
  }
  if (Array.isArray(value))
    return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
