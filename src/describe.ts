/**
 * Whether a value is an object as literals and JSON make them. It may come from another realm with an
 * `Object.prototype` of its own, such as the one in which Jest runs tests.
 */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  try {
    const prototype: unknown = Object.getPrototypeOf(value)
    return prototype === null || Object.getPrototypeOf(prototype) === null
  } catch {
    return false // a Proxy that refuses, or is revoked
  }
}

/** Whether JSON has more levels of objects and arrays than given. */
export function isDeeperThan(levels: number, json: unknown): boolean {
  if (typeof json !== 'object' || json === null) return false
  return levels === 0 || Object.values(json).some((inner) => isDeeperThan(levels - 1, inner))
}

const MAX_DESCRIBED = 40

/** Describes a value for an error message. It is short, because errors end up in logs. It never throws. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value.length > MAX_DESCRIBED
        ? `${JSON.stringify(value.slice(0, MAX_DESCRIBED))}… (${value.length} characters)`
        : JSON.stringify(value)
    case 'object':
      return describeObject(value)
    case 'number':
    case 'boolean':
    case 'undefined':
      return String(value)
    case 'bigint':
      return `${value}n`
    default:
      return `a ${typeof value}`
  }
}

function describeObject(value: object | null): string {
  if (value === null) return 'null'
  if (isPlainObject(value)) return 'a plain object'
  try {
    if (Array.isArray(value)) return 'an array'
    const { name }: { name: unknown } = value.constructor
    return typeof name === 'string' && name !== ''
      ? `an instance of ${name}`
      : 'an object of a class'
  } catch {
    return 'an object that cannot be read'
  }
}

/**
 * The message of a thrown value, or else its description. It never throws: an application can throw a Proxy whose
 * traps throw, or an Error whose message is a getter or a Symbol.
 */
export function messageOf(thrown: unknown): string {
  return readMessage(thrown) ?? describe(thrown)
}

/** The message of an Error, which may come from another realm. Undefined if there is none that can be read. */
export function readMessage(thrown: unknown): string | undefined {
  try {
    const { message } = thrown as Error
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
