/** Names of columns that stand for others, or, if empty, for nothing. */
export type ColumnMap = Readonly<Record<string, string>>

/** The fields of a call that are text. */
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
 * The field that a column has: its path within the call, or `undefined` if the map leaves it out. `user_id` is `userId`.
 *
 * @throws Error that says which columns there are.
 */
export function toField(column: string, map: ColumnMap): readonly string[] | undefined {
  const name = Object.hasOwn(map, column) ? (map[column] ?? '') : column
  if (name === '' && column !== '') return undefined
  const [first = '', ...within] = name.split('.')
  if (OBJECTS.includes(first) && within.join('') !== '') return [first, within.join('.')]
  const field = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  if (FIELDS.includes(field)) return [field]
  throw new Error(
    `The column ${JSON.stringify(column)} is none of a call's: expected ${FIELDS.join(', ')}, or properties.…, ` +
      `traits.… or context.…. Say what it is with --map '${column}=properties.${column}', or leave it out with --map '${column}='.`,
  )
}
