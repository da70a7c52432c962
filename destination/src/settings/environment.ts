import { formatPath, type Path, type Problem } from './problem.js'

/** The environment variables, in the form of `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Whether a variable has bytes that are not UTF-8. Node has replaced them, so the rest is not what was set. */
export const isGarbled = (value: string): boolean => value.includes('\uFFFD')

/** Continues a sentence that begins with the name of such a variable. */
export const GARBLED = 'has a byte that is not UTF-8. Set it in UTF-8.'

/** The settings after their references to environment variables were replaced. */
export interface Expanded {
  value: unknown
  /** The paths of the strings that contained references. Errors must not show these strings, which may be secrets. */
  referring: Set<string>
  /** The references that could not be replaced. Their strings are unchanged in `value`. */
  problems: Problem[]
}

/** Matches `$${`, which stands for a literal `${`, or a reference up to its closing brace. The brace may be missing. */
const REFERENCE = /\$\$\{|\$\{([^}]*)(\}?)/g

/** Replaces each `${NAME}` in each string by the environment variable. The names of fields are not changed. */
export function expandEnvironment(raw: unknown, env: Environment): Expanded {
  const referring = new Set<string>()
  const problems: Problem[] = []

  const expandText = (text: string, path: string): string => {
    const wrong = new Set<string>()
    const expanded = text.replace(REFERENCE, (match, name: string | undefined, brace: string) => {
      if (name === undefined) return '${'
      referring.add(path)
      const problem = problemOf(name, brace, env)
      if (problem !== undefined) wrong.add(problem)
      return env[name] ?? match
    })
    for (const message of wrong) problems.push({ path, message })
    return wrong.size > 0 ? text : expanded
  }

  const expand = (value: unknown, path: Path): unknown => {
    if (typeof value === 'string') return expandText(value, formatPath(path))
    if (Array.isArray(value)) return value.map((each, index) => expand(each, [...path, index]))
    if (typeof value !== 'object' || value === null) return value
    // An assignment to __proto__ would set the prototype. fromEntries creates a field of that name,
    // which the check refuses as unknown.
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, expand(each, [...path, name])]),
    )
  }

  return { value: expand(raw, []), referring, problems }
}

/** The problem of a reference; `undefined` if it can be replaced. */
function problemOf(name: string, brace: string, env: Environment): string | undefined {
  if (brace === '') return 'expected a } after ${. Write $${ for a literal ${.'
  if (!/^[A-Za-z_]\w*$/.test(name)) {
    return (
      'expected the name of an environment variable between ${ and }, made of letters, digits and "_". ' +
      'Default values are not supported. Write $${ for a literal ${.'
    )
  }
  if (env[name] === undefined) return `the environment variable ${name} is not set.`
  if (env[name] === '') return `the environment variable ${name} is empty.`
  if (isGarbled(env[name])) return `the environment variable ${name} ${GARBLED}`
  return undefined
}
