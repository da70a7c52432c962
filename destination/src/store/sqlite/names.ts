import { fromStored, toStored } from '../text.js'
import type { Database, Statement } from './driver.js'

/**
 * Numbers for the names that rows repeat: sources, destinations, types, URLs and codes. There are few of them, from the
 * present and former settings, so all are kept in memory.
 */
export class Names {
  readonly #insert: Statement
  readonly #numbers = new Map<string, number>()
  readonly #names = new Map<number, string>()
  /** The names that the open transaction has added. A rollback forgets them. */
  #added: string[] = []

  constructor(database: Database) {
    this.#insert = database.prepare('INSERT INTO names (name) VALUES (?) RETURNING id')
    for (const row of database.prepare('SELECT id, name FROM names').all()) {
      const { id, name } = row as { id: number; name: string }
      this.#know(id, fromStored(name))
    }
  }

  /** The number of a name. A new name gets one, so call this only in a transaction. */
  number(name: string): number {
    return this.#numbers.get(name) ?? this.#add(name)
  }

  /** The number of a name; `undefined` if it has none, and then no row has the name. */
  find(name: string): number | undefined {
    return this.#numbers.get(name)
  }

  /** The numbers of the names that a condition holds for. */
  numbersOf(isWanted: (name: string) => boolean): number[] {
    return Array.from(this.#numbers).flatMap(([name, id]) => (isWanted(name) ? [id] : []))
  }

  /** The name for the number in a row. */
  name(id: number): string {
    return this.#names.get(id) ?? ''
  }

  commit(): void {
    this.#added = []
  }

  rollback(): void {
    for (const name of this.#added) {
      this.#names.delete(this.#numbers.get(name) ?? 0)
      this.#numbers.delete(name)
    }
    this.#added = []
  }

  #add(name: string): number {
    const { id } = this.#insert.get(toStored(name)) as { id: number }
    this.#know(id, name)
    this.#added.push(name)
    return id
  }

  #know(id: number, name: string): void {
    this.#numbers.set(name, id)
    this.#names.set(id, name)
  }
}
