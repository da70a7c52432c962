import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { StoreError } from '../store-error.js'

/**
 * What contains SQLite. The package has the API of `node:sqlite` for Node before 22.13. It is an optional peer, so that
 * newer Node does not install it, and it brings compiled binaries, so that no installation needs a compiler.
 */
export type DriverName = 'node:sqlite' | '@photostructure/sqlite'

/** The package, with the major version that still runs on Node 20. */
const PACKAGE = '@photostructure/sqlite@1'

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
interface Sqlite {
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
 * @param name - By default `node:sqlite` where Node has it (22.13 and newer), else the package.
 * @throws StoreError `unsupported` if the driver can't be loaded.
 */
export async function loadDriver(name?: DriverName): Promise<OpenDatabase> {
  const node = name === '@photostructure/sqlite' ? undefined : nodeSqlite()
  if (name === 'node:sqlite' && !node) {
    throw new StoreError(
      'unsupported',
      `Node ${process.versions.node} has no node:sqlite. Use Node 22.13 or newer.`,
    )
  }
  const sqlite = node ?? (await packagedSqlite())
  return (path) => new FileDatabase(sqlite, path)
}

function nodeSqlite(): Sqlite | undefined {
  // Node warns that the API of node:sqlite may still change. Operators can't act on this, so their logs omit it.
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = (warning: string | Error, ...rest: never[]): void => {
    if (!String(warning).includes('SQLite is an experimental feature'))
      emitWarning(warning, ...rest)
  }
  try {
    return process.getBuiltinModule('node:sqlite') as Sqlite | undefined
  } finally {
    process.emitWarning = emitWarning
  }
}

async function packagedSqlite(): Promise<Sqlite> {
  try {
    return await import('@photostructure/sqlite')
  } catch (cause) {
    const command = installCommand(fileURLToPath(import.meta.url), process.cwd())
    throw new StoreError(
      'unsupported',
      `Node ${process.versions.node} has no SQLite of its own. Install one with \`${command}\`, or use Node 22.13 or newer.`,
      { cause },
    )
  }
}

/**
 * The command that installs the package where a file of this package finds it.
 *
 * @param file - The path of this file, below the folder `node_modules` of an installation.
 * @param folder - The folder in which the command will run.
 */
export function installCommand(file: string, folder: string): string {
  const [root = ''] = file.split(/[/\\]node_modules[/\\]/, 1)
  const isInstalled = root !== file
  if (isInstalled && !existsSync(join(root, 'package.json'))) return `npm install -g ${PACKAGE}`
  const prefix = isInstalled && resolve(folder) !== root ? `--prefix ${JSON.stringify(root)} ` : ''
  return `npm install ${prefix}${PACKAGE}`
}

class FileDatabase implements Database {
  readonly #database: InstanceType<Sqlite['DatabaseSync']>

  constructor(sqlite: Sqlite, path: string) {
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
    // The package closes a connection only after its statements are garbage. Until then an open transaction keeps its lock.
    try {
      this.#database.exec('ROLLBACK')
    } catch {
      // There was no transaction.
    }
    this.#database.close()
  }
}
