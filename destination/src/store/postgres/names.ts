import { toStored } from '../text.js'
import type { RunQuery } from './connection.js'

/**
 * The numbers that stand for names in each row. There are few: those in the settings, and those that were. A number
 * is never given up, so that what is known once need not be asked for again.
 */
export class Names {
  readonly #query: RunQuery
  readonly #schema: string
  readonly #numbers = new Map<string, number>()

  constructor(query: RunQuery, schema: string) {
    this.#query = query
    this.#schema = schema
  }

  /** Sees to it that each name has a number. */
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

  /** The number of a name that was added. */
  number(name: string): number {
    const number = this.#numbers.get(name)
    if (number === undefined) throw new Error(`The name ${JSON.stringify(name)} was not added.`)
    return number
  }
}
