/** A problem in the settings. */
export interface Problem {
  /** The path of the value, such as `destinations[0].webhooks[1].url`; empty for the file as a whole. */
  path: string
  /** What was expected, what was found, and how to fix it. It never contains a secret. */
  message: string
}

/** The message for a field that an object has twice. Nobody could see which of the two counts. */
export const REPEATED = 'this field occurs twice in the same object. Remove one of the two.'

/** The fields and indexes that lead from the root of the settings to one value. */
export type Path = readonly PropertyKey[]

/**
 * Refuses a value. `step` leads from the value to its wrong part: an index, a field or a path; left out for the whole value.
 */
export type Refuse = (message: string, step?: PropertyKey | Path) => void

/** Formats a path in the syntax of JavaScript: `destinations[0].webhooks[0].headers["X-Team"]`. */
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
