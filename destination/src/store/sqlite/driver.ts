import type BetterSqlite from 'better-sqlite3'
import { StoreError } from '../store-error.js'

/** A package that contains SQLite. */
export type DriverName = 'node:sqlite' | 'better-sqlite3'

/** A value of a column. */
export type Value = string | number | null

/** A prepared statement. */
export interface Statement {
  /** @returns how many rows changed. */
  run(...values: Value[]): number
  get(...values: Value[]): unknown
  all(...values: Value[]): unknown[]
}

/** One connection. All calls are synchronous and throw the errors of the driver. */
export interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}

/** Opens a file, and creates it if it does not exist. */
export type OpenDatabase = (path: string) => Database

/** The part of `node:sqlite` that is used here. The types of the oldest supported Node do not include it. */
interface NodeSqlite {
  DatabaseSync: new (path: string) => {
    exec(sql: string): void
    prepare(sql: string): {
      run(...values: Value[]): { changes: number | bigint }
      get(...values: Value[]): unknown
      all(...values: Value[]): unknown[]
    }
    close(): void
  }
}

/**
 * Loads a SQLite driver.
 *
 * @param name - By default `node:sqlite` where Node has it (22.13 and newer), else better-sqlite3.
 * @throws StoreError `unsupported` if the driver can't be loaded.
 */
export async function loadDriver(name?: DriverName): Promise<OpenDatabase> {
  const node = name === 'better-sqlite3' ? undefined : nodeSqlite()
  if (node) return (path) => new NodeDatabase(node, path)
  if (name === 'node:sqlite') {
    throw new StoreError(
      'unsupported',
      `Node ${process.versions.node} has no node:sqlite. Use Node 22.13 or newer.`,
    )
  }
  const better = await betterSqlite()
  return (path) => new BetterDatabase(better, path)
}

function nodeSqlite(): NodeSqlite | undefined {
  // Node warns that the API of node:sqlite may still change. Operators can't act on this, so their logs omit it.
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = (warning: string | Error, ...rest: never[]): void => {
    if (!String(warning).includes('SQLite is an experimental feature'))
      emitWarning(warning, ...rest)
  }
  try {
    return process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined
  } finally {
    process.emitWarning = emitWarning
  }
}

async function betterSqlite(): Promise<typeof BetterSqlite> {
  try {
    const { default: Better } = await import('better-sqlite3')
    // The import succeeds even if the compiled part is missing. Only the first use loads that part.
    new Better(':memory:').close()
    return Better
  } catch (cause) {
    throw new StoreError(
      'unsupported',
      "better-sqlite3 can't be loaded, and Node before 22.13 has no SQLite of its own. Use Node 22.13 or newer, " +
        'or install a C++ compiler, make and Python, and then run `npm rebuild better-sqlite3`.',
      { cause },
    )
  }
}

class NodeDatabase implements Database {
  readonly #database: InstanceType<NodeSqlite['DatabaseSync']>

  constructor(sqlite: NodeSqlite, path: string) {
    this.#database = new sqlite.DatabaseSync(path)
  }

  exec(sql: string): void {
    this.#database.exec(sql)
  }

  prepare(sql: string): Statement {
    const statement = this.#database.prepare(sql)
    return {
      run: (...values) => Number(statement.run(...values).changes),
      get: (...values) => statement.get(...values),
      all: (...values) => statement.all(...values),
    }
  }

  close(): void {
    this.#database.close()
  }
}

class BetterDatabase implements Database {
  readonly #database: BetterSqlite.Database

  constructor(Better: typeof BetterSqlite, path: string) {
    this.#database = new Better(path)
  }

  exec(sql: string): void {
    this.#database.exec(sql)
  }

  prepare(sql: string): Statement {
    const statement = this.#database.prepare<Value[]>(sql)
    return {
      run: (...values) => statement.run(...values).changes,
      get: (...values) => statement.get(...values),
      all: (...values) => statement.all(...values),
    }
  }

  close(): void {
    this.#database.close()
  }
}
