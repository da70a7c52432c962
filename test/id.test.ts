import { Worker } from 'node:worker_threads'
import { once } from 'node:events'
import { version, validate } from 'uuid'
import { beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { runScript } from './collector.js'
import { temporary } from './spool/directory.js'

let createId: () => string

/** Each test has a generator of its own: what it makes depends on the ids that it made before. */
beforeEach(async () => {
  vi.resetModules()
  createId = (await import('../src/id.js')).createId
})

function setClock(ms: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: ms })
  onTestFinished(() => {
    vi.useRealTimers()
  })
}

const make = (count: number) => Array.from({ length: count }, () => createId())
const timeOf = (id: string) => parseInt(id.slice(0, 13).replace('-', ''), 16)

/** In order, and none twice. */
function expectRising(ids: readonly string[]): void {
  const broken = ids.findIndex((id, index) => index > 0 && id <= (ids[index - 1] ?? ''))
  expect(broken).toBe(-1)
}

const MS = Date.parse('2026-01-02T03:04:05.678Z')

test('each id is a valid UUID of version 7', () => {
  for (const id of make(20_000)) {
    expect(validate(id) && version(id)).toBe(7)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  }
})

test.each([0, 1, MS, 0xffffffff, 2 ** 48 - 1])('an id starts with the time: %d ms', (ms) => {
  setClock(ms)
  expect(timeOf(createId())).toBe(ms)
  expect(timeOf(createId())).toBe(ms)
})

describe('ids rise', () => {
  test('for 100,000 of them within one millisecond', () => {
    setClock(MS)
    const ids = make(100_000)
    expectRising(ids)
    // The counter has room for 8,192 ids at least. After these, the time of the ids runs ahead.
    expect(ids.slice(0, 8_192).every((id) => timeOf(id) === MS)).toBe(true)
    expect(timeOf(ids.at(-1) ?? '')).toBeLessThanOrEqual(MS + 12)
  })

  test('when the clock goes back, and goes on', () => {
    const ids: string[] = []
    for (const ms of [MS, MS - 3_600_000, MS - 1, 0, MS, MS + 1, MS - 1]) {
      setClock(ms)
      ids.push(...make(3))
    }
    expectRising(ids)
    expect(ids.map((id) => timeOf(id) - MS)).toEqual([
      ...Array<0>(15).fill(0),
      ...[1, 1, 1, 1, 1, 1],
    ])
  })

  test('while the clock runs', () => {
    const ids: string[] = []
    for (let ms = MS; ms < MS + 500; ms++) {
      setClock(ms)
      ids.push(...make(7))
    }
    expectRising(ids)
    expect(timeOf(ids.at(-1) ?? '')).toBe(MS + 499)
  })
})

test('what is random in an id differs from the one before it, across many refills of the random bytes', () => {
  setClock(MS)
  const tails = make(20_000).map((id) => id.slice(24))
  expect(new Set(tails).size).toBe(tails.length)
})

test('what the ids of a millisecond start with differs from millisecond to millisecond', () => {
  const starts = new Set<string>()
  for (let ms = MS; ms < MS + 64; ms++) {
    setClock(ms)
    starts.add(createId().slice(14, 23))
  }
  expect(starts.size).toBeGreaterThan(60)
})

test('a runtime without a global crypto, as Node 20 can be, makes ids and spools', async () => {
  const ended = await runScript(
    `import { signedRequest } from 'hookline/testing'
     const fetch = async () => new Response()
     const analytics = new Analytics('k', { fetch, spool: { directory: '${temporary()}' } })
     analytics.track({ userId: 'u', event: 'e' })
     const { headers } = signedRequest('track', {}, 's3cret')
     console.log(await analytics.close(), headers['X-Message-Id'].length, typeof crypto)`,
    { flags: ['--import', 'data:text/javascript,delete globalThis.crypto'] },
  )
  expect(ended).toMatchObject({ stdout: '{ delivered: 1, failed: 0 } 36 undefined\n', stderr: '' })
})

test('four worker threads in the same millisecond make ids that differ', async () => {
  const file = `${inject('compiledDir')}/hookline/id.js`
  const source = `
    const { parentPort } = require('node:worker_threads')
    Date.now = () => ${MS}
    const main = async () => {
      const { createId } = await import('${file}')
      parentPort.postMessage(Array.from({ length: 10_000 }, createId))
    }
    main()
  `
  const workers = Array.from({ length: 4 }, () => new Worker(source, { eval: true }))
  const made = await Promise.all(workers.map((worker) => once(worker, 'message')))
  const ids = made.flatMap(([list]) => list as string[])
  expect(ids).toHaveLength(40_000)
  expect(new Set(ids).size).toBe(40_000)
})
