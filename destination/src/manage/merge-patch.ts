import { isFields, type Fields } from '../model/fields.js'

/** Settings have fewer levels than this. What is deeper is no field that there is, and could overflow the stack. */
const MAX_LEVELS = 10

/** Applies a JSON merge patch (RFC 7396) to an object. `null` removes a field, and a list replaces the whole list. */
export function mergePatch(target: unknown, patch: Fields, levels = MAX_LEVELS): Fields {
  const merged = new Map(Object.entries(isFields(target) ? target : {}))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else if (!isFields(value) || levels === 0) merged.set(name, value)
    else merged.set(name, mergePatch(merged.get(name), value, levels - 1))
  }
  // An assignment to __proto__ would set the prototype. fromEntries creates a field of that name, which is refused.
  return Object.fromEntries(merged)
}
