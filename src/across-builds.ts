type Class = abstract new (...args: never[]) => object

/**
 * Makes `instanceof` hold across the ES module build and the CommonJS build. One process may load both, and each has
 * classes of its own. An instance is recognised by a symbol that is the same in both.
 *
 * @param classes - by their names, which a minifier leaves as they are
 */
export function recogniseAcrossBuilds(classes: Readonly<Record<string, Class>>): void {
  for (const [name, Class] of Object.entries(classes)) {
    const symbol = Symbol.for(`hookline.${name}`)
    Object.defineProperty(Class.prototype, symbol, { value: true })
    Object.defineProperty(Class, Symbol.hasInstance, {
      value(this: unknown, value: unknown): boolean {
        // An application's subclass inherits this method, but has instances of its own.
        if (this !== Class) return Function.prototype[Symbol.hasInstance].call(this, value)
        if (typeof value !== 'object' || value === null) return false
        try {
          // Not `symbol in value`: a Proxy may claim to have every property.
          return (value as Record<symbol, unknown>)[symbol] === true
        } catch {
          return false // a Proxy that throws, or is revoked
        }
      },
    })
  }
}
