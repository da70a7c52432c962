import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { MIGRATIONS } from '../../../src/store/sqlite/schema.js'
import { formerFile, versionOf } from './former.js'
import { canMount } from '../../can-run.js'
import { folder } from './subject.js'

const ROWS = process.env['SLOW'] ? 1_000_000 : 100_000
const KILLS = process.env['SLOW'] ? 20 : 5
const MB = 1_048_576

test(`a file of ${ROWS} messages keeps all of them while its upgrade is killed again and again`, async () => {
  await using place = await folder()
  const [full, path] = [`${place.path}/full.db`, `${place.path}/store.db`]
  await formerFile(full, ROWS)

  copyFileSync(full, path)
  const startedAt = performance.now()
  await (await openStore(`sqlite:${path}`)).close()
  const upgradeMs = performance.now() - startedAt
  for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true })

  copyFileSync(full, path)
  let unfinished = 0
  for (let kill = 0; kill < KILLS; kill++) {
    await killUpgrade(path, (upgradeMs * kill) / KILLS)
    const version = await versionOf(path)
    if (version === 6) unfinished++
    else break
  }
  console.log(`upgraded in ${upgradeMs.toFixed(0)} ms; ${unfinished} kills before it was finished`)
  expect(unfinished).toBeGreaterThan(0)

  const store = await openStore(`sqlite:${path}`)
  expect(await versionOf(path)).toBe(MIGRATIONS.length)
  expect(await store.count()).toBe(ROWS)
  expect(await store.stats()).toMatchObject([{ leased: 0, backlog: ROWS / 2, dead: ROWS / 4 }])
  const copies = await store.copyOut(ROWS - 4, 4)
  expect(copies.map(({ state, attempts }) => [state, attempts.length])).toEqual([
    ['backlog', 0],
    ['done', 1],
    ['backlog', 1],
    ['dead', 1],
  ])
  await store.close()
}, 900_000)

test.skipIf(!canMount())(
  'an upgrade for which the disk has no room changes nothing, and succeeds once it has',
  async () => {
    await using place = await folder()
    const [full, disk] = [`${place.path}/full.db`, `${place.path}/disk`]
    await formerFile(full, 40_000)
    execFileSync('mkdir', [disk])
    const size = Math.ceil(statSync(full).size / MB) + 8
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}m`, 'none', disk])
    try {
      const path = `${disk}/store.db`
      copyFileSync(full, path)
      const { bavail, bsize } = statfsSync(disk)
      // What is left is enough for SQLite's small files, and too little for the new index.
      writeFileSync(`${disk}/filler`, Buffer.alloc(bavail * bsize - MB / 8))
      await expect(openStore(`sqlite:${path}`)).rejects.toMatchObject({ code: 'full' })
      // The driver closes a connection, and frees its locks, only after its statements are garbage.
      await expect.poll(() => versionOf(path)).toBe(6)
      rmSync(`${disk}/filler`)
      const store = await openStore(`sqlite:${path}`)
      expect(await store.stats()).toMatchObject([{ leased: 0, backlog: 20_000, dead: 10_000 }])
      await store.close()
      expect(await versionOf(path)).toBe(MIGRATIONS.length)
    } finally {
      // Lazy: the driver closes connections only after their statements are garbage.
      execFileSync('umount', ['--lazy', disk])
    }
  },
  120_000,
)

/** Starts a process that upgrades a file, and kills it at a time after the upgrade began. */
async function killUpgrade(path: string, afterMs: number): Promise<void> {
  const script = join(import.meta.dirname, 'upgrade-until-killed.js')
  const args = [script, inject('compiledDir'), `sqlite:${path}`]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  await once(createInterface({ input: child.stdout }), 'line')
  await wait(afterMs)
  child.kill('SIGKILL')
  await exited
}
