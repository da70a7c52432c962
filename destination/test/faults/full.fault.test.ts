import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { works } from '../can-run.js'
import { folderWith } from '../cli/process.js'
import { duplicatesAt, lateAt, startCustomer } from './customer.js'
import { post, type Load } from './load.js'
import { serve, settingsFor, type Service } from './service.js'

const MB = 1_048_576

/** How a store comes to have no room. */
interface Disk {
  /** Before the service starts. */
  prepare: (folder: string) => void
  /** Once it listens. */
  limit: (service: Service) => void
  makeRoom: (folder: string, service: Service) => void
}

const tmpfs: Disk = {
  prepare: (folder) => {
    const data = join(folder, 'data')
    mkdirSync(data)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'none', data])
    onTestFinished(() => {
      execFileSync('umount', ['--lazy', data])
    })
    writeFileSync(join(data, 'filler'), Buffer.alloc(42 * MB))
  },
  limit: () => undefined,
  makeRoom: (folder) => {
    rmSync(join(folder, 'data/filler'))
  },
}

const limitFiles = ({ pid }: Service, size: string): void => {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${size}:`])
}
const quota: Disk = {
  prepare: () => undefined,
  limit: (service) => {
    limitFiles(service, String(3 * MB))
  },
  makeRoom: (_, service) => {
    limitFiles(service, 'unlimited')
  },
}

const disk = works('mount', '-t', 'tmpfs', 'none', '/mnt')
  ? (execFileSync('umount', ['/mnt']), tmpfs)
  : works('prlimit', '--version')
    ? quota
    : undefined

/** Batches of 160 KB fill a disk soon. */
const TEXT_LENGTH = 8_000

/** Refusals before there is room again, and batches taken after. */
const REFUSALS = 10
const TAKEN_AFTER = 5

test.skipIf(!disk)(
  'a full disk: 503 until there is room, and what was answered 200 arrives once',
  async () => {
    const { prepare, limit, makeRoom } = disk as Disk
    await using well = await startCustomer()
    await using shaky = await startCustomer()
    const folder = folderWith(settingsFor({ well, shaky }))
    prepare(folder)
    await using service = await serve(folder)
    limit(service)
    // So that something waits in the store while it is full.
    shaky.mode = 'failing'
    const send = (name: string, answered: (load: Load) => boolean) =>
      post({ url: service.url, name, connections: 4, textLength: TEXT_LENGTH, answered })

    const filling = await send('filling', ({ refused }) => refused.length >= REFUSALS)
    expect(filling.unanswered).toEqual([])
    expect(filling.taken.length).toBeGreaterThan(0)
    for (const { status, retryAfter } of filling.refused) {
      expect(status).toBe(503)
      expect(retryAfter).toMatch(/^[1-5]$/)
    }

    shaky.mode = 'well'
    makeRoom(folder, service)
    const after = await send('after', ({ taken }) => taken.length >= TAKEN_AFTER)
    expect([after.refused, after.unanswered]).toEqual([[], []])
    const expected = [...filling.taken, ...after.taken].flat()
    await Promise.all([well.has(expected), shaky.has(expected)])
    service.kill('SIGTERM')
    const { code, stdout } = await service.ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/the store takes no calls[^]*the store takes calls again[^]*"stopped"/)

    const count = ({ taken, refused }: Load) => ({ taken: taken.length, refused: refused.length })
    console.log(
      `a full disk, in batches: ${JSON.stringify({ filling: count(filling), after: count(after) })}`,
    )
    for (const customer of [well, shaky]) {
      expect(customer.wrong).toEqual([])
      expect(new Set(customer.accepted.keys())).toEqual(new Set(expected))
      expect(duplicatesAt(customer, lateAt(customer, stdout))).toBe(0)
    }
  },
  900_000,
)
