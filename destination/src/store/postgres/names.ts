import { toStored } from '../text.js'
import type { Connection, RunAll, RunQuery, Statement } from './connection.js'
import { isOfMissingValue } from './failure.js'

/**
 * The names that rows repeat: sources, destinations, types, URLs and codes. There are few of them, from the present and
 * former settings. Rows have their numbers.
 *
 * No process remembers a number. After a restore from a backup, or in a schema that was created again, a number may belong to
 * another name, and messages would go to the endpoint of another customer. So each statement contains the names
 * themselves and looks up their numbers.
 */
export class Names {
  readonly #query: RunQuery
  readonly #preparedAll: RunAll
  readonly #schema: string
  /** Names that were in the table once. If a statement misses one of them, all are added again. */
  readonly #known = new Set<string>()

  constructor({ query, preparedAll }: Pick<Connection, 'query' | 'preparedAll'>, schema: string) {
    this.#query = query
    this.#preparedAll = preparedAll
    this.#schema = schema
  }

  /**
   * Runs a prepared statement that writes numbers of names, after names without a number got one.
   *
   * @param toValues - Returns the values of the statement. One of them is the list, for {@link numbersOf}.
   */
  async write<Row>(text: string, toValues: (list: NameList) => unknown[]): Promise<Row[]> {
    return (await this.writeAll<Row>((list) => [{ text, values: toValues(list) }])).flat()
  }

  /** As {@link write}, for statements that are carried out together by `run`. */
  async writeAll<Row>(
    toStatements: (list: NameList) => Statement[],
    run = this.#preparedAll,
  ): Promise<Row[][]> {
    const list = new NameList()
    const statements = toStatements(list)
    await this.#add(list.names)
    try {
      return await run<Row>(statements)
    } catch (error) {
      if (!isOfMissingValue(error)) throw error
      this.#known.clear()
      await this.#add(list.names)
      return run<Row>(statements)
    }
  }

  async #add(names: readonly string[]): Promise<void> {
    await this.ensure(names.filter((name) => !this.#known.has(name)))
  }

  /** Gives names a number if they have none. They are given as they are stored. */
  async ensure(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    await this.#query(
      `INSERT INTO ${this.#schema}.names (name) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO NOTHING`,
      [names],
    )
    for (const name of names) this.#known.add(name)
  }
}

/** The names of one statement, each once. Its rows have their positions in this list. */
export class NameList {
  /** As they are stored. */
  readonly names: string[] = []
  readonly #positions = new Map<string, number>()

  /** The position of a name, from 1. */
  position(name: string): number {
    let position = this.#positions.get(name)
    if (position === undefined) {
      position = this.names.push(toStored(name))
      this.#positions.set(name, position)
    }
    return position
  }

  /** The value of the parameter for {@link numbersOf}. */
  toString(): string {
    return JSON.stringify(this.names)
  }
}

/**
 * A common table expression `numbers` with one row. The number of the name at position `n` is `ids[n]`; `null` if the name
 * is not in the table.
 *
 * The names are one JSON text: the planner then expects the same number of them whether or not it knows the text, and so keeps
 * the plan of a prepared statement.
 *
 * @param list - The parameter that has the {@link NameList}, such as `$3`.
 */
export function numbersOf(schema: string, list: string): string {
  return `numbers AS MATERIALIZED (
      SELECT array_agg(id ORDER BY n) AS ids
      FROM json_array_elements_text(${list}::json) WITH ORDINALITY AS given (name, n)
        LEFT JOIN LATERAL (SELECT id FROM ${schema}.names WHERE names.name = given.name LIMIT 1) known ON true
    )`
}
