import { formatPath, type Path, type Problem } from './problem.js'

/** The environment's variables, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The settings with their references filled in. */
export interface Expanded {
  value: unknown
  /** Paths of the strings that had references: what they hold may be secret. */
  referring: Set<string>
  /** References that could not be filled in; what holds them is left as it is. */
  problems: Problem[]
}

/** `$${` for a literal `${`, or a reference: everything up to the brace that closes it, if one does. */
const REFERENCE = /\$\$\{|\$\{([^}]*)(\}?)/g

/** Fills in each `${NAME}` in each string, from the environment. Names of fields are left alone. */
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
    // fromEntries defines what it is given: a field that is called __proto__ stays a field.
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, expand(each, [...path, name])]),
    )
  }

  return { value: expand(raw, []), referring, problems }
}

/** What is wrong with a reference, if anything is. */
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
  return undefined
}
