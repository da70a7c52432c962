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
  const name = Object.hasOwn(map, column) ? (map[column] ?? '') : column
  if (name === '' && column !== '') return undefined
  const [first = '', ...within] = name.split('.')
  if (OBJECTS.includes(first) && within.join('') !== '') return [first, within.join('.')]
  const field = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  if (FIELDS.includes(field)) return [field]
  const what =
    name === column
      ? `The column ${JSON.stringify(column)} is not a field of a call`
      : `--map gives the column ${JSON.stringify(column)} the field ${JSON.stringify(name)}, which calls do not have`
  throw new Error(
    `${what}: expected ${FIELDS.join(', ')}, or properties.…, traits.… or context.…. ` +
      `Name its field with --map '${column}=properties.${column}', or leave it out with --map '${column}='.`,
  )
}
