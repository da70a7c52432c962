import type BetterSqlite from 'better-sqlite3'
import { StoreError } from '../store-error.js'

/** Which SQLite is used. */
export type DriverName = 'node:sqlite' | 'better-sqlite3'

/** What a column holds. */
export type Value = string | number | null

/** A prepared statement. */
export interface Statement {
  /** @returns how many rows changed. */
  run(...values: Value[]): number
  get(...values: Value[]): unknown
  all(...values: Value[]): unknown[]
}

/** One connection. Everything is synchronous; errors are the driver's own. */
export interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}

/** Opens a file, and makes it if it isn't there. */
export type OpenDatabase = (path: string) => Database

/** The part of `node:sqlite` that is used; the types of the oldest Node that is supported don't have it. */
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
 * Finds SQLite: the runtime's own from Node 22.13 on, else better-sqlite3.
 *
 * @throws StoreError `unsupported` if there is neither.
 */
export async function loadDriver(name?: DriverName): Promise<OpenDatabase> {
  const node = name === 'better-sqlite3' ? undefined : nodeSqlite()
  if (node) return (path) => new NodeDatabase(node, path)
  if (name === 'node:sqlite') {
    throw new StoreError(
      'unsupported',
      `Node ${process.versions.node} has no node:sqlite: use Node 22.13 or newer.`,
    )
  }
  const better = await betterSqlite()
  return (path) => new BetterDatabase(better, path)
}

function nodeSqlite(): NodeSqlite | undefined {
  // The module is fit for use; that its API may still change is for this file to know, not for every operator's log.
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
    // The import finds JavaScript; that the part that was compiled is there shows at the first use.
    new Better(':memory:').close()
    return Better
  } catch (cause) {
    throw new StoreError(
      'unsupported',
      "better-sqlite3 can't be loaded, and this is the SQLite for Node before 22.13: use Node 22.13 or newer, " +
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
