/** Whether something is an object as literals and JSON make them, of whatever realm (Jest has its own). */
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

/** Says what came instead of what was expected, in a few words: errors end up in logs. */
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
