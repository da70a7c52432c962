import { isFields, type Fields } from '../http/json-body.js'

/** Applies a JSON merge patch (RFC 7396) to an object. `null` removes a field, and a list replaces the whole list. */
export function mergePatch(target: unknown, patch: Fields): Fields {
  const merged = new Map(Object.entries(isFields(target) ? target : {}))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else merged.set(name, isFields(value) ? mergePatch(merged.get(name), value) : value)
  }
  // An assignment to __proto__ would set the prototype. fromEntries creates a field of that name, which is refused.
  return Object.fromEntries(merged)
}
