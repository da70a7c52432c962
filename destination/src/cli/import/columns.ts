/** The field of each column that `--map` names. An empty field leaves the column out. */
export type ColumnMap = Readonly<Record<string, string>>

/** The fields of a call that have a text. */
const FIELDS = [
  'type',
  'userId',
  'anonymousId',
  'previousId',
  'groupId',
  'event',
  'name',
  'category',
  'timestamp',
  'messageId',
]

const OBJECTS = ['properties', 'traits', 'context']

/**
 * Finds the field of a column. `user_id` stands for `userId`.
 *
 * @returns the path of the field within the call, or `undefined` if the map leaves the column out.
 * @throws Error that lists the possible fields, if the column is not one of them.
 */
export function toField(column: string, map: ColumnMap): readonly string[] | undefined {
  const isMapped = Object.hasOwn(map, column)
  const name = isMapped ? (map[column] ?? '') : column
  if (isMapped && name === '') return undefined
  const path = pathOf(name)
  if (path) return path
  const what =
    name === column
      ? `The column ${JSON.stringify(column)} is not a field of a call`
      : `--map gives the column ${JSON.stringify(column)} the field ${JSON.stringify(name)}, which calls do not have`
  throw new Error(
    `${what}: expected ${FIELDS.join(', ')}, or properties.…, traits.… or context.…. ` +
      `Name its field with --map '${column}=${likelyField(column)}', or leave it out with --map '${column}='.`,
  )
}

/** Programs put spaces around names, which JSON and CSV keep. */
function likelyField(column: string): string {
  const name = column.trim()
  return pathOf(name)?.join('.') ?? `properties.${name || 'name'}`
}

/** Divides `column=field`. Both may have an equals sign: the first one after which there is a field counts. */
export function divide(text: string): { column: string; field: string } | undefined {
  const parts = text.split('=')
  const divided = parts.slice(1).map((_, before) => ({
    column: parts.slice(0, before + 1).join('='),
    field: parts.slice(before + 1).join('='),
  }))
  return divided.find(({ field }) => field === '' || pathOf(field)) ?? divided[0]
}

/** `undefined` if calls do not have this field. */
function pathOf(name: string): readonly string[] | undefined {
  const [first = '', ...within] = name.split('.')
  if (OBJECTS.includes(first) && within.join('') !== '') return [first, within.join('.')]
  const field = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return FIELDS.includes(field) ? [field] : undefined
}
