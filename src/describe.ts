/**
 * Whether a value is an object as literals and JSON make them. It may come from another realm with an
 * `Object.prototype` of its own, such as the one in which Jest runs tests.
 */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** Whether JSON has more levels of objects and arrays than given. */
export function isDeeperThan(levels: number, json: unknown): boolean {
  if (typeof json !== 'object' || json === null) return false
  return levels === 0 || Object.values(json).some((inner) => isDeeperThan(levels - 1, inner))
}

const MAX_DESCRIBED = 40

/** Describes a value for an error message. It is short, because errors end up in logs. */
export function describe(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  switch (typeof value) {
    case 'string':
      return value.length > MAX_DESCRIBED
        ? `${JSON.stringify(value.slice(0, MAX_DESCRIBED))}… (${value.length} characters)`
        : JSON.stringify(value)
    case 'object': {
      const prototype: unknown = Object.getPrototypeOf(value)
      if (prototype === null || Object.getPrototypeOf(prototype) === null) return 'a plain object'
      const { name } = value.constructor
      return name ? `an instance of ${name}` : 'an object of a class'
    }
    case 'number':
    case 'boolean':
      return String(value)
    case 'bigint':
      return `${value}n`
    default:
      return typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`
  }
}
