/** Something that is wrong with the settings. */
export interface Problem {
  /** Where, such as `destinations[0].webhooks[1].url`; empty for the file as a whole. */
  path: string
  /** What was expected, what came, and the fix where it helps. Never a secret. */
  message: string
}

/** Steps from the root of the settings to one value. */
export type Path = readonly PropertyKey[]

/** Writes a path as code would: `destinations[0].webhooks[0].headers["X-Team"]`. */
export function formatPath(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`
      const name = String(step)
      if (!/^[\w$]+$/.test(name)) return `[${JSON.stringify(name)}]`
      return index === 0 ? name : `.${name}`
    })
    .join('')
}
