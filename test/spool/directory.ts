// What the tests of the spool have in common: directories, and what a crash leaves in them.
import { execFileSync } from 'node:child_process'
import {
  accessSync,
  appendFileSync,
  constants,
  cpSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'

/** The tests make thousands of files: a file system in memory takes a quarter of the time, if it has room. */
function root(): string {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    accessSync('/dev/shm', constants.W_OK)
    return bavail * bsize > 1024 ** 3 ? '/dev/shm' : tmpdir()
  } catch {
    return tmpdir()
  }
}

/** A directory for the length of the test. */
export function temporary(atEnd = onTestFinished): string {
  const directory = mkdtempSync(join(root(), 'hookline-spool-'))
  atEnd(() => {
    rmSync(directory, { recursive: true, force: true })
  })
  return directory
}

/** The paths of all files, the oldest segment first. */
export function files(directory: string, ending = ''): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => path.endsWith(ending) && statSync(path).isFile())
    .sort()
}

export const diskBytes = (directory: string) =>
  files(directory, '.log').reduce((sum, path) => sum + statSync(path).size, 0)

/** What the disk would hold if the processes on a directory were killed now; `owner` says whose it is. */
export function crash(directory: string, owner: string | object = 'free'): string {
  const image = temporary()
  cpSync(directory, image, { recursive: true })
  for (const path of files(image, 'owner')) {
    writeFileSync(path, typeof owner === 'string' ? owner : JSON.stringify(owner))
  }
  return image
}

/** A file system of its own in memory; undefined without the right to mount one. */
export function smallDisk(flags: string): string | undefined {
  const directory = temporary()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', flags, 'tmpfs', directory], { stdio: 'ignore' })
  } catch {
    return undefined
  }
  onTestFinished(() => {
    execFileSync('umount', ['-l', directory])
  })
  return directory
}

/** Takes the last byte of a disk. */
export function fillUp(path: string): void {
  try {
    for (;;) appendFileSync(path, new Uint8Array(4_096))
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOSPC' })
  }
}
