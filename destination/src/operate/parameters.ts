// The tools that read the parameters of requests. Each reader is beside the route that it is for.
import { Refusal, show } from '../http/refusal.js'
import type { Fields } from '../model/fields.js'

/** Where parameters come from. The numbers of a query are texts, and those of a body are not. */
export type Place = 'query' | 'body'

export function oneOf<Value extends string>(
  given: Fields,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const value = given[name]
  if (value === undefined || values.includes(value as Value)) return value as Value | undefined
  throw invalid(name, `one of ${values.join(', ')}`, value)
}

/** Refuses unknown names. A misspelled filter that is ignored would match everything. */
export function checkNames(given: object, names: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !names.includes(name))
  if (unknown === undefined) return
  const known = names.join(', ') || 'none'
  const message = `Unknown parameter ${show(unknown)}. Known parameters: ${known}.`
  throw new Refusal(400, 'invalid_parameter', message)
}

export function texts<Name extends string>(
  given: Fields,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {}
  for (const name of names) {
    const value = given[name]
    if (value === undefined) continue
    if (typeof value !== 'string') throw invalid(name, 'a single string', value)
    found[name] = value
  }
  return found
}

export function count(
  given: Fields,
  name: string,
  min: number,
  max: number,
  place: Place = 'query',
): number | undefined {
  const value = given[name]
  if (value === undefined) return undefined
  const isText = place === 'query' && typeof value === 'string' && /^\d{1,16}$/.test(value)
  const number = isText ? Number(value) : value
  if (Number.isInteger(number) && (number as number) >= min && (number as number) <= max) {
    return number as number
  }
  const isAnyLarge = max === Number.MAX_SAFE_INTEGER && !(Number(value) > max)
  const range = isAnyLarge ? `of at least ${min}` : `from ${min} to ${max}`
  throw invalid(name, `a whole number ${range}`, value)
}

export function flag(given: Fields, name: string): boolean {
  const { [name]: value = false } = given
  if (typeof value !== 'boolean') throw invalid(name, 'true or false', value)
  return value
}

export function invalid(name: string, expected: string, got: unknown): Refusal {
  return new Refusal(400, 'invalid_parameter', `${name} must be ${expected}, got ${show(got)}.`)
}
