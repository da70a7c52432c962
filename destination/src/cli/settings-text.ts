import { isFields, type Fields } from '../model/fields.js'
import { shownFile } from '../settings/file.js'
import { SettingsError } from '../settings/settings-error.js'
import { readBody } from './body-file.js'
import { CommandError, EXIT } from './command.js'

/** What is printed below secrets that were generated. */
export const SHOWN_ONCE = 'Keep what was generated: it will not be shown again.'

/**
 * Reads an object of YAML or JSON, and fills in its environment variables. Secrets come from there, or from the standard input, because
 * every user of the machine sees the arguments of a command.
 *
 * @param file - Is read as YAML, of which JSON is a part, unless its name ends in `.json`; `-` reads the standard input.
 * @throws SettingsError with all problems that were found.
 */
export async function readObject(file: string): Promise<Fields> {
  const bytes = await readBody(file)
  const [{ parseText }, { expandEnvironment }] = await Promise.all([
    import('../settings/syntax.js'),
    import('../settings/environment.js'),
  ])
  const shown = file === '-' ? 'The standard input' : shownFile(file)
  const isYaml = !/\.json$/i.test(file) && !isJson(bytes.toString())
  const { value, problems } = expandEnvironment(parseText(bytes, isYaml, shown), process.env)
  if (problems.length > 0) throw new SettingsError('settings_invalid', shown, problems)
  if (isFields(value)) return value
  throw new CommandError(EXIT.usage, `${shown}: expected an object with named fields.`)
}

/** JSON is YAML too, but the parser of YAML takes seconds for the settings of thousands of destinations. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Settings as YAML or JSON that {@link readObject} reads back, without the last end of line. */
export async function textOf(settings: object, json: true | undefined): Promise<string> {
  const literal = withoutReferences(settings)
  if (json) return JSON.stringify(literal, null, 2)
  const { stringify } = await import('yaml')
  return stringify(literal, { lineWidth: 0 }).replace(/\n$/, '')
}

/** Doubles the `$` of each `${`, which would be an environment variable. The names of fields are not read so. */
function withoutReferences(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('${', () => '$${')
  if (Array.isArray(value)) return value.map(withoutReferences)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, withoutReferences(field)]),
  )
}
