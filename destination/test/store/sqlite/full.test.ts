import { execFileSync } from 'node:child_process'
import { rmSync, truncateSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { StoreError } from '../../../src/store/store-error.js'
import { canMount, canRun } from '../../can-run.js'
import { newDelivery, settlement } from '../contract.js'
import { folder } from './subject.js'

const BODY = JSON.stringify({ text: 'x'.repeat(8_000) })
const MB = 1_048_576

test.skipIf(!canMount())(
  'a full disk: nothing is acknowledged that is not stored, and it goes on when there is room',
  async () => {
    await using place = await folder()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'none', place.path])
    try {
      writeFileSync(`${place.path}/filler`, Buffer.alloc(4 * MB))
      await fillAndRecover(`sqlite:${place.path}/store.db`, () => {
        rmSync(`${place.path}/filler`)
      })
    } finally {
      execFileSync('umount', ['--lazy', place.path])
    }
  },
)

test.skipIf(!canMount())(
  'on a full disk, as much as the error says is enough, also with a long log',
  async () => {
    await using place = await folder()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'none', place.path])
    try {
      const filler = `${place.path}/filler`
      writeFileSync(filler, Buffer.alloc(20 * MB))
      const store = await openStore(`sqlite:${place.path}/store.db`)
      const fill = async () => {
        for (let n = 0; ; n++) {
          const several = Array.from({ length: 20 }, (_, i) => large(`put-${n} ${i}`))
          const error: unknown = await store.put(several).catch((failed: unknown) => failed)
          if (error instanceof StoreError) return error
        }
      }
      let { message } = await fill()
      for (let n = 0; n < 10; n++) {
        const failed: unknown = await store
          .put([large(`small-${n}`)])
          .catch((error: unknown) => error)
        if (failed instanceof StoreError) ({ message } = failed)
      }
      const [, megabytes = ''] = /Free at least (\d+) MB of disk space/.exec(message) ?? []
      truncateSync(filler, 20 * MB - Number(megabytes) * 1e6)
      for (let n = 0; n < 20; n++) {
        expect(await store.put([large(`after-${n}`)])).toEqual([expect.any(Number)])
      }
      await store.close()
    } finally {
      execFileSync('umount', ['--lazy', place.path])
    }
  },
)

test.skipIf(!canRun('prlimit', '--version'))('a file that may grow no more: the same', async () => {
  await using place = await folder()
  const limit = (size: string): void => {
    execFileSync('prlimit', ['--pid', `${process.pid}`, `--fsize=${size}:`])
  }
  const url = `sqlite:${place.path}/store.db`
  const store = await openStore(url)
  await store.close()
  limit(`${2 * MB}`)
  try {
    await fillAndRecover(url, () => {
      limit('unlimited')
    })
  } finally {
    limit('unlimited')
  }
})

test.skipIf(!canRun('prlimit', '--version'))(
  'what is being sent of a deleted user is told, also if there is no room to rewrite the file',
  async () => {
    await using place = await folder()
    const limit = (size: string): void => {
      execFileSync('prlimit', ['--pid', `${process.pid}`, `--fsize=${size}:`])
    }
    const url = `sqlite:${place.path}/store.db`
    let store = await openStore(url)
    for (let n = 0; n < 10; n++)
      await store.put(Array.from({ length: 50 }, (_, i) => large(`filler ${n} ${i}`)))
    // The log begins anew, so that there is room for the deletion itself.
    await store.close()
    store = await openStore(url)
    const [id] = await store.put([newDelivery({ user: 'bob', state: 'leased' })])
    const told: number[] = []
    store.onRemoved((ids) => told.push(...ids))
    const purge = async () => {
      let from: number | undefined = 0
      while (from !== undefined) ({ next: from } = await store.purgeUser('bob', from))
    }
    limit(`${2 * MB}`)
    try {
      await expect(purge()).rejects.toMatchObject({ code: 'full' })
    } finally {
      limit('unlimited')
    }
    expect(told).toEqual([id])
    await purge()
    expect(await store.hasUser('bob')).toBe(false)
    await store.close()
  },
)

async function fillAndRecover(url: string, makeRoom: () => void): Promise<void> {
  const full = expect.objectContaining({ code: 'full' }) as unknown
  const store = await openStore(url)
  const [leased] = await store.put([newDelivery({ messageId: 'leased', state: 'leased' })])
  const acknowledged = await putUntilItFails(store, full)
  expect(acknowledged.length).toBeGreaterThan(0)
  // All further puts are refused, and they do not damage the store.
  for (let n = 0; n < 5; n++) {
    await expect(store.put([large(`refused-${n}`)])).rejects.toEqual(full)
  }
  expect(await store.trace('refused-0')).toEqual([])
  const done = settlement({ id: leased as number, attempt: 1 })
  const isSettled = await store.settle([done]).then(
    () => true,
    (error: unknown) => {
      expect(error).toEqual(full)
      return false
    },
  )
  makeRoom()
  expect(await store.put([large('after')])).toEqual([expect.any(Number)])
  expect(await store.settle([done])).toBe(isSettled ? 1 : 0)
  await store.close()

  const again = await openStore(url)
  for (const messageId of [...acknowledged, 'leased', 'after']) {
    expect(await again.trace(messageId)).toHaveLength(1)
  }
  const stored = acknowledged.length + 1
  expect(await again.stats()).toMatchObject([{ fresh: stored, backlog: 0, leased: 0 }])
  await again.close()
}

async function putUntilItFails(store: Store, expected: unknown): Promise<string[]> {
  const acknowledged: string[] = []
  for (let n = 0; n < 10_000; n++) {
    try {
      await store.put([large(`put-${n}`)])
    } catch (error) {
      expect(error).toEqual(expected)
      return acknowledged
    }
    acknowledged.push(`put-${n}`)
  }
  throw new Error('the disk was never full')
}

function large(messageId: string) {
  return newDelivery({ messageId, body: BODY })
}

/** Whether a command works on this system. If not, it prints that the tests that need it are left out. */
