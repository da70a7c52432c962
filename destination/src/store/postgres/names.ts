import { toStored } from '../text.js'
import type { RunQuery } from './connection.js'

/**
 * Numbers for the names that rows repeat: sources, destinations, types, URLs and codes. There are few of them, from the
 * present and former settings. A number is never deleted, so that it can be kept in memory.
 */
export class Names {
  readonly #query: RunQuery
  readonly #schema: string
  readonly #numbers = new Map<string, number>()

  constructor(query: RunQuery, schema: string) {
    this.#query = query
    this.#schema = schema
  }

  /** Gives each name a number that has none yet, and remembers the numbers. */
  async add(names: Iterable<string>): Promise<void> {
    const unknown = new Set<string>()
    for (const name of names) if (!this.#numbers.has(name)) unknown.add(name)
    if (unknown.size === 0) return

    const all = [...unknown]
    const stored = all.map(toStored)
    await this.#query(
      `INSERT INTO ${this.#schema}.names (name) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO NOTHING`,
      [stored],
    )
    const rows = await this.#query<{ id: number; n: number }>(
      `SELECT id, n FROM unnest($1::text[]) WITH ORDINALITY AS given (name, n) JOIN ${this.#schema}.names USING (name)`,
      [stored],
    )
    for (const { id, n } of rows) this.#numbers.set(all[n - 1] ?? '', id)
  }

  /** The number of a name that {@link add} has got. */
  number(name: string): number {
    const number = this.#numbers.get(name)
    if (number === undefined) throw new Error(`The name ${JSON.stringify(name)} was not added.`)
    return number
  }
}
