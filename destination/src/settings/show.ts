import { withoutPassword } from '../model/shown-url.js'

const MAX_SHOWN = 60

/** Shows a value in an error message. A password in a URL is left out, and long strings are cut. */
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

/** Shows only the type and the size of a value, for secrets. */
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
