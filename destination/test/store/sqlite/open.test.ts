import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { expect, inject, test } from 'vitest'
import { errorMessage } from '../../../src/observe/error-message.js'
import { openStore } from '../../../src/store/open.js'
import { installCommand, loadDriver } from '../../../src/store/sqlite/driver.js'
import { toStoreError } from '../../../src/store/sqlite/failure.js'
import { migrate, MIGRATIONS } from '../../../src/store/sqlite/schema.js'
import { LEASE_MS } from '../../../src/store/store.js'
import { canMount } from '../../can-run.js'
import { newDelivery } from '../contract.js'
import { folder, sqliteSubject } from './subject.js'

const openDatabase = await loadDriver()
const driver = await loadDriver('node:sqlite').then(
  () => 'node:sqlite' as const,
  () => '@photostructure/sqlite' as const,
)

const PAGE_BYTES = 4_096

/** The error of a failed opening. */
function failure(code: string, message: RegExp): unknown {
  return expect.objectContaining({
    name: 'StoreError',
    code,
    message: expect.stringMatching(message) as unknown,
  })
}

test.each([
  ['sqlite::memory:', /would lose all accepted calls/],
  ['sqlite:', /expected sqlite: and a path/],
  ['sqlite://host/x.db', /expected sqlite: and a path/],
  ['./x.db', /expected sqlite: and a path.*got a string of 6 characters/],
  ['mysql://u:secret@db/x', /expected sqlite: and a path.*got "mysql:…"/],
  ['jdbc:postgresql://db/x?password=secret', /expected sqlite: and a path.*got "jdbc:…"/],
])('%s is refused, and what is expected named', async (url, message) => {
  await expect(openStore(url)).rejects.toEqual(failure('unsupported', message))
})

test('missing folders and files are made for their owner alone', async () => {
  await using place = await folder()
  const store = await openStore(`sqlite:${place.path}/a/b/store.db`)
  await store.put([newDelivery()])
  const mode = (path: string) => statSync(`${place.path}/${path}`).mode & 0o777
  expect([mode('a'), mode('a/b')]).toEqual([0o700, 0o700])
  const files = readdirSync(`${place.path}/a/b`)
  expect(files).toEqual(expect.arrayContaining(['store.db', 'store.db-lock', 'store.db-wal']))
  for (const file of files) expect(mode(`a/b/${file}`)).toBe(0o600)
  await store.close()
})

test('the runtime says nothing of its SQLite being new', async () => {
  await using place = await folder()
  const script = `${inject('compiledDir')}/quiet.js`
  writeFileSync(
    script,
    `import { openStore } from './store/open.js'
     const store = await openStore('sqlite:${place.path}/store.db')
     await store.close()
     process.emitWarning('another', 'ExperimentalWarning')`,
  )
  const { stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' })
  expect(stderr).toContain('another')
  expect(stderr).not.toContain('SQLite')
})

test('what was leased is due at once after opening, and its attempt counts', async () => {
  const subject = await sqliteSubject(driver)
  await subject.store.put([newDelivery({ messageId: 'm', state: 'leased' })])
  const store = await subject.reopen()
  expect(await store.stats()).toMatchObject([{ leased: 0, backlog: 1 }])
  const claimed = await store.claim([{ destination: 'crm', lane: 'backlog', limit: 9 }])
  expect(claimed).toMatchObject([{ messageId: 'm', attempt: 2, sinceFirstMs: 0 }])
  expect(await store.trace('m')).toMatchObject([{ dueAt: subject.now() + LEASE_MS }])
  await subject.dispose()
})

test('messages of audiences that a store of version 2 has in the backlog become bulk work', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const database = openDatabase(path)
  migrate(database, path, MIGRATIONS.slice(0, 2))
  database.exec(
    `INSERT INTO names (id, name) VALUES (1, 'web'), (2, 'crm'), (3, 'identify'), (4, 'audience:vip');
     INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at, received_at,
         attempts_before)
       VALUES (1, 'retry', 1, 2, 3, 'u', '', 1, 1, 1, 1, 0), (2, 'notice', 4, 2, 3, 'u', '', 1, 0, 1, 1, 0),
         (3, 'dead', 4, 2, 3, 'u', '', 3, 9, 1, 1, 0), (4, 'done', 4, 2, 3, 'u', '', 4, 1, 1, 1, 0)`,
  )
  database.close()
  const store = await openStore(`sqlite:${path}`)
  expect(await store.stats()).toMatchObject([{ fresh: 0, backlog: 1, bulk: 1, dead: 1 }])
  const states = await Promise.all(['retry', 'notice', 'dead', 'done'].map((id) => store.trace(id)))
  expect(states.flat().map(({ state }) => state)).toEqual(['backlog', 'bulk', 'dead', 'done'])
  await store.close()
})

test('a store of a newer version is refused, and left as it was', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  await (await openStore(`sqlite:${path}`)).close()
  const database = openDatabase(path)
  database.exec('PRAGMA user_version = 99')
  database.close()
  await expect(openStore(`sqlite:${path}`)).rejects.toEqual(
    failure('newer', /its schema has version 99, and this version knows only \d/),
  )
})

test('older tables are brought up to date, all the steps or none', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const first = ['CREATE TABLE one (a)']
  migrateTo(path, first)
  expect(() => {
    migrateTo(path, [...first, 'CREATE TABLE two (b)', 'CREATE TABLE one (c)'])
  }).toThrow(/already exists/)
  expect(tablesOf(path)).toEqual(['one'])
  migrateTo(path, [...first, 'CREATE TABLE two (b)', 'CREATE TABLE three (c)'])
  expect(tablesOf(path)).toEqual(['one', 'three', 'two'])
})

test('a database of another program is refused, and left as it was', async () => {
  await using place = await folder()
  const path = `${place.path}/other.db`
  const database = openDatabase(path)
  database.exec('CREATE TABLE theirs (a); PRAGMA user_version = 1')
  database.close()
  await expect(openStore(`sqlite:${path}`)).rejects.toEqual(failure('failed', /another program/))
  expect(tablesOf(path)).toEqual(['theirs'])
})

test('a damaged file is refused with the way out', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  writeFileSync(path, Buffer.alloc(16_384, 'damage'))
  await expect(openStore(`sqlite:${path}`)).rejects.toEqual(
    failure(
      'failed',
      /store\.db is damaged or is not a SQLite database .*stop it first.*put a backup in its place/,
    ),
  )
})

test('so is damage that only a later statement finds, at the start or at run time', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const before = await openStore(`sqlite:${path}`)
  await before.put(Array.from({ length: 50 }, (_, n) => newDelivery({ messageId: `m${n}` })))
  await before.close()
  const file = readFileSync(path)
  const atStart: unknown[] = []
  const atRunTime: unknown[] = []
  // The first page has the header, which the opening reads.
  for (let from = PAGE_BYTES; from < file.length; from += PAGE_BYTES) {
    // A file of its own: the log of a store that could not be closed has good copies of pages.
    const damaged = `${place.path}/${from}.db`
    writeFileSync(damaged, Buffer.from(file).fill(0, from, from + PAGE_BYTES))
    const store = await openStore(`sqlite:${damaged}`).catch((error: unknown) => {
      atStart.push(error)
    })
    if (!store) continue
    const note = (error: unknown) => atRunTime.push(error)
    await store.trace('m7').catch(note)
    await store.find({}, undefined, 100).catch(note)
    await store.put([newDelivery()]).catch(note)
    await store.close()
  }
  const advised = failure('failed', /is damaged or is not .*stop it first.*put a backup in its/)
  expect(atStart.length).toBeGreaterThan(1)
  expect(atStart).toEqual(atStart.map(() => advised))
  expect(atRunTime.length).toBeGreaterThan(1)
  expect(atRunTime).toEqual(atRunTime.map(() => advised))
})

test.each(['before', 'after'])(
  'a file that is opened through a symbolic link is locked: the link is made %s the file',
  async (when) => {
    await using place = await folder()
    const [file, link] = [`${place.path}/store.db`, `${place.path}/link.db`]
    if (when === 'before') symlinkSync('store.db', link)
    const store = await openStore(`sqlite:${when === 'before' ? link : file}`)
    if (when === 'after') symlinkSync(file, link)
    for (const path of [file, link]) {
      await expect(openStore(`sqlite:${path}`)).rejects.toEqual(
        failure('locked', /is the store of another running process/),
      )
    }
    await store.close()
  },
)

test('a file with a second name is refused under both: each would have a lock and a log of its own', async () => {
  await using place = await folder()
  const [file, link] = [`${place.path}/store.db`, `${place.path}/link.db`]
  await (await openStore(`sqlite:${file}`)).close()
  linkSync(file, link)
  for (const path of [file, link]) {
    await expect(openStore(`sqlite:${path}`)).rejects.toEqual(
      failure(
        'unsupported',
        /\.db has 2 names \(hard links\).*Stop them, and remove the other names/,
      ),
    )
  }
  expect(readdirSync(place.path)).not.toContain('link.db-lock')
  rmSync(link)
  await (await openStore(`sqlite:${file}`)).close()
})

test.skipIf(!canMount())('a file that is mounted without its folder is refused', async () => {
  await using place = await folder()
  const [file, mounted] = [`${place.path}/store.db`, `${place.path}/a mounted.db`]
  await (await openStore(`sqlite:${file}`)).close()
  writeFileSync(mounted, '')
  execFileSync('mount', ['--bind', file, mounted])
  try {
    await expect(openStore(`sqlite:${mounted}`)).rejects.toEqual(
      failure('unsupported', /a mounted\.db is mounted as a single file.*Mount its folder instead/),
    )
  } finally {
    execFileSync('umount', [mounted])
  }
})

test.skipIf(process.getuid?.() !== 0)(
  'a lock file that root makes belongs to the owner of the store',
  async () => {
    await using place = await folder()
    const path = `${place.path}/store.db`
    await (await openStore(`sqlite:${path}`)).close()
    rmSync(`${path}-lock`)
    chownSync(path, 65_534, 65_533)
    await (await openStore(`sqlite:${path}`)).close()
    expect(statSync(`${path}-lock`)).toMatchObject({ uid: 65_534, gid: 65_533 })
  },
)

test('a lock file that cannot be opened is named', async () => {
  await using place = await folder()
  mkdirSync(`${place.path}/store.db-lock`)
  await expect(openStore(`sqlite:${place.path}/store.db`)).rejects.toEqual(
    failure('failed', /store\.db-lock can't be written/),
  )
})

test('a symbolic link to itself is refused', async () => {
  await using place = await folder()
  symlinkSync('store.db', `${place.path}/store.db`)
  await expect(openStore(`sqlite:${place.path}/store.db`)).rejects.toEqual(
    failure('failed', /too many symbolic links/),
  )
})

test('a delivery whose id is taken is an error, never a duplicate', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const store = await openStore(`sqlite:${path}`)
  const [id] = await store.put([newDelivery()])
  const database = openDatabase(path)
  database.exec(`UPDATE deliveries SET id = ${(id ?? 0) + 1}`)
  database.close()
  await expect(store.put([newDelivery()])).rejects.toMatchObject({ name: 'StoreError' })
  await store.close()
})

test.each(['node:sqlite', '@photostructure/sqlite'] as const)(
  'the error of %s says why, also for the log',
  async (driver) => {
    const isLoaded = await loadDriver(driver).then(
      () => true,
      () => false,
    )
    if (!isLoaded) return
    await using place = await folder()
    const path = `${place.path}/store.db`
    writeFileSync(path, Buffer.alloc(16_384, 'damage'))
    const error = await openStore(`sqlite:${path}`, { driver }).catch((error: unknown) => error)
    const text = errorMessage(error)
    expect(text).toContain('or start with an empty store.')
    expect(text.match(/file is not a database/g)).toHaveLength(1)
  },
)

test('without SQLite, the command that installs one fits the way of the installation', async () => {
  await using place = await folder()
  const file = `${place.path}/app/node_modules/hookline-destination/dist/store/sqlite/driver.js`
  mkdirSync(`${place.path}/app`)
  expect(installCommand(file, '/elsewhere')).toBe('npm install -g @photostructure/sqlite@1')
  writeFileSync(`${place.path}/app/package.json`, '{}')
  expect(installCommand(file, `${place.path}/app`)).toBe('npm install @photostructure/sqlite@1')
  expect(installCommand(file, '/elsewhere')).toBe(
    `npm install --prefix "${place.path}/app" @photostructure/sqlite@1`,
  )
})

test.each([
  ['EACCES', 'Its folder and the files in it must belong to the user that runs this process.'],
  ['EROFS', 'Mount its file system for writing, or set "store" to a path on another one.'],
])('a folder that cannot be written is refused, with the fix for %s', (code, fix) => {
  const cause = Object.assign(new Error(`${code}: reason`), { code })
  expect(toStoreError(cause, 'a.db').message).toBe(
    `a.db can't be written (${code}: reason). ${fix}`,
  )
})

// File modes do not restrict root.
test.skipIf(process.getuid?.() === 0)('a folder that belongs to another is refused', async () => {
  await using place = await folder()
  const path = `${place.path}/locked-up`
  mkdirSync(path)
  chmodSync(path, 0o500)
  try {
    await expect(openStore(`sqlite:${path}/store.db`)).rejects.toEqual(
      failure('failed', /store\.db can't be written .*must belong to the user that runs this/),
    )
  } finally {
    chmodSync(path, 0o700)
  }
})

test.skipIf(!canMount())('a folder on a read-only file system is refused', async () => {
  await using place = await folder()
  const path = `${place.path}/read-only`
  mkdirSync(path)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'none', path])
  try {
    await expect(openStore(`sqlite:${path}/store.db`)).rejects.toEqual(
      failure('failed', /store\.db can't be written \(EROFS.*Mount its file system for writing/),
    )
  } finally {
    execFileSync('umount', [path])
  }
})

function migrateTo(path: string, migrations: string[]): void {
  const database = openDatabase(path)
  try {
    migrate(database, path, migrations)
  } finally {
    database.close()
  }
}

function tablesOf(path: string): string[] {
  const database = openDatabase(path)
  const rows = database.prepare('SELECT name FROM sqlite_schema ORDER BY name').all()
  database.close()
  return rows.map((row) => (row as { name: string }).name)
}
