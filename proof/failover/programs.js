// The programs of a PostgreSQL cluster: on the PATH, or beside one that is, as in an unpacked package.
import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

/** Oldest first. Patroni's own minimum is older. */
const OLDEST_POSTGRES = 15

/** Debian's packages of Patroni belong to this Python, whatever other one is on the PATH. */
const PYTHON = '/usr/bin/python3'

const isProgram = (path) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const find = (name) =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find(isProgram)

const foldersIn = (path) => {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

/** The folder of the newest server that has all programs for a standby. */
function findPostgres(roots) {
  return roots
    .map((root) => join(root, 'lib/postgresql'))
    .flatMap((path) => foldersIn(path).map((version) => ({ path, version: Number(version) })))
    .filter(({ version }) => version >= OLDEST_POSTGRES)
    .sort((a, b) => b.version - a.version)
    .map(({ path, version }) => join(path, String(version), 'bin'))
    .find((bin) =>
      ['initdb', 'postgres', 'pg_basebackup', 'pg_rewind'].every((name) =>
        isProgram(join(bin, name)),
      ),
    )
}

/** @returns what starts a node and the store of its cluster; or the name of the program that is missing */
export function findPrograms() {
  const [patroni, etcd] = [find('patroni'), find('etcd')]
  if (!patroni || !etcd) return { missing: patroni ? 'etcd' : 'Patroni' }
  if (!isProgram(PYTHON)) return { missing: PYTHON }
  const root = dirname(dirname(patroni))
  const postgres = findPostgres([root, '/usr'])
  if (!postgres) return { missing: `PostgreSQL ${OLDEST_POSTGRES} or newer` }
  const modules = join(root, 'lib/python3/dist-packages')
  return { etcd, patroni, postgres, python: PYTHON, env: { PYTHONPATH: modules } }
}
