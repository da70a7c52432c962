import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Analytics } from '../../src/index.js'
import { startCollector, type Collector } from '../collector.js'
import { files, fillUp, smallDisk, temporary } from './directory.js'
import { compileWith, startWriter } from './processes.js'

/** `SLOW=1` kills ten times as often. */
const ROUNDS = process.env['SLOW'] ? 100 : 10

const folder = compileWith()

/** Of each writer, the numbers of its messages in the order in which they were accepted. */
function arrived({ accepted }: Collector): Map<string, number[]> {
  const byWriter = new Map<string, number[]>()
  for (const { userId = '', event = '', messageId } of accepted) {
    const number = Number(event.slice(1))
    expect(messageId).toBe(`${userId}${number}`)
    byWriter.set(userId, [...(byWriter.get(userId) ?? []), number])
  }
  return byWriter
}

/** Numbers without those that came before. */
const first = (numbers: number[] = []) => [...new Set(numbers)]

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i)

/** Sends all that is left in a directory. */
async function drain(directory: string, collector: Collector) {
  collector.otherwise(200)
  const lost: unknown[] = []
  await new Analytics('wk_4f9a-secret', {
    endpoint: collector.url,
    spool: { directory },
    onFailed: ({ messages }) => void lost.push(...messages),
  }).close({ timeout: Infinity })
  expect(lost).toEqual([])
  expect(left(directory)).toEqual([])
}

/** The files of messages. A kill in the middle of a write leaves a part of a record, which is kept for people to look at. */
const left = (directory: string) => files(directory).filter((file) => !file.endsWith('.corrupt'))

/** At times it takes messages, at times not, at times it answers too late. */
function moody(collector: Collector, round: number): void {
  const moods = [200, 503, 'silence', 200, 'reset'] as const
  collector.otherwise(moods[round % moods.length] ?? 200)
  collector.script(200, moods[(round + 2) % moods.length] ?? 200)
}

describe('kill -9 at any instant', { timeout: 60_000 * ROUNDS }, () => {
  test('loses no message whose call returned, and keeps them in order', async () => {
    const collector = await startCollector()
    const directory = temporary()
    const returned: [string, number][] = []
    for (let round = 0; round < ROUNDS; round++) {
      moody(collector, round)
      const name = `w${round}-`
      const writer = startWriter(folder, { name, directory, endpoint: collector.url })
      await writer.kill(1 + Math.floor(Math.random() * 600))
      returned.push([name, writer.returned])
    }
    await drain(directory, collector)
    const byWriter = arrived(collector)
    for (const [name, count] of returned) {
      const numbers = first(byWriter.get(name))
      // The call that was under way may have got through, or not.
      expect(numbers.length - count, name).toBeOneOf([0, 1])
      expect(numbers).toEqual(upTo(numbers.length))
    }
  })

  test('of several at a time, on a disk that stays full, does not keep the next one from sending what is on it', async ({
    skip,
  }) => {
    const disk = smallDisk('size=2m')
    if (!disk) return skip('no right to mount a file system: the full disk is left out')
    const directory = join(disk, 'spool')
    const collector = await startCollector()
    collector.otherwise(503)
    for (let round = 0; round < ROUNDS / 2; round++) {
      const writers = ['a', 'b', 'c'].map((one) =>
        startWriter(folder, { name: `${one}${round}-`, directory, endpoint: collector.url }),
      )
      const calls = () => (round === 0 ? 100 : 1 + Math.floor(Math.random() * 300))
      await Promise.all(writers.map((writer) => writer.kill(calls())))
      if (round === 0) fillUp(join(disk, 'ballast'))
    }
    await drain(directory, collector)
    for (const name of ['a0-', 'b0-', 'c0-']) {
      expect(first(arrived(collector).get(name)).slice(0, 100)).toEqual(upTo(100))
    }
  })

  test('of processes that share a directory loses none either, in any order of dying', async () => {
    const collector = await startCollector()
    const directory = temporary()
    const returned: [string, number][] = []
    for (let round = 0; round < ROUNDS / 2; round++) {
      moody(collector, round)
      const pair = ['a', 'b'].map((one) => `${one}${round}-`)
      await Promise.all(
        pair.map(async (name, i) => {
          const order = { name, directory, endpoint: collector.url, flushAt: i === 0 ? 1 : 20 }
          const writer = startWriter(folder, order)
          await writer.kill(1 + Math.floor(Math.random() * 400))
          returned.push([name, writer.returned])
        }),
      )
    }
    await drain(directory, collector)
    const byWriter = arrived(collector)
    for (const [name, count] of returned) {
      const numbers = first(byWriter.get(name)).sort((x, y) => x - y)
      expect(numbers.length - count, name).toBeOneOf([0, 1])
      expect(numbers).toEqual(upTo(numbers.length))
    }
  })
})

describe('what a process left', () => {
  test('is sent once, though several that live share it', async () => {
    const collector = await startCollector()
    const directory = temporary()
    const endpoint = collector.url
    collector.otherwise('silence') // nothing is under way that may have arrived
    const names = ['l0-', 'l1-', 'l2-']
    for (const name of names) await startWriter(folder, { name, directory, endpoint }).kill(150)
    collector.otherwise(200)
    const end = { after: 500, how: 'close' } as const
    const live = ['x-', 'y-', 'z-']
    const ends = live.map((name) => startWriter(folder, { name, directory, endpoint, end }).end())
    for (const end of await Promise.all(ends)) {
      expect(end).toEqual({ code: 0, signal: null, stderr: '' })
    }
    const byWriter = arrived(collector)
    for (const name of live) expect(byWriter.get(name)).toEqual(upTo(500))
    for (const name of names) {
      const numbers = byWriter.get(name) ?? []
      expect(numbers.length).toBeGreaterThanOrEqual(150)
      expect(numbers).toEqual(upTo(numbers.length))
    }
    expect(left(directory)).toEqual([])
  })
})

describe('a process that ends by itself loses nothing:', () => {
  test.each([
    ['process.exit()', 'exit', []],
    ['an uncaught exception', 'throw', []],
    ['an end of its memory', 'memory', ['--max-old-space-size=24']],
  ] as const)('%s', async (_, how, flags) => {
    const collector = await startCollector(onTestFinished)
    collector.otherwise(503)
    const directory = temporary()
    const order = { name: 'w-', directory, endpoint: collector.url, end: { after: 300, how } }
    const writer = startWriter(folder, order, [...flags])
    const { code, stderr } = await writer.end()
    if (how === 'exit') expect(code).toBe(7)
    else expect(stderr).toContain(how === 'throw' ? 'uncaught' : 'heap out of memory')
    expect(writer.returned).toBe(300)
    await drain(directory, collector)
    expect(first(arrived(collector).get('w-'))).toEqual(upTo(300))
  })

  test('the end of its script, in an outage: it takes 5 s, and no complaint', async () => {
    const collector = await startCollector(onTestFinished)
    collector.otherwise(503)
    const directory = temporary()
    const end = { after: 300, how: 'dry' } as const
    const writer = startWriter(folder, { name: 'w-', directory, endpoint: collector.url, end })
    expect(await writer.end()).toEqual({ code: 0, signal: null, stderr: '' })
    await drain(directory, collector)
    expect(arrived(collector).get('w-')).toEqual(upTo(300))
  })
})
