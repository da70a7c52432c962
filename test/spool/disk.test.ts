import fs, { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Analytics } from '../../src/index.js'
import {
  createClient,
  events,
  held,
  listen,
  names,
  pass,
  scriptedFetch,
  turns,
  useFakeClock,
  type ScriptedFetch,
} from '../collector.js'
import { crash, files, fillUp, smallDisk, temporary } from './directory.js'

const MIB = 1024 * 1024

/** Large messages fill a disk with few calls. */
const MESSAGE_BYTES = 32_000
const FILL = 'x'.repeat(MESSAGE_BYTES)

function trackLarge(analytics: Analytics, count: number, from = 0) {
  for (let i = from; i < from + count; i++) {
    analytics.track({ userId: 'u', event: `e${i}`, properties: { fill: FILL } })
  }
}

/** Lets the first request wait until the test releases it. */
function heldFetch() {
  const net = scriptedFetch()
  const gate = held()
  net.script(gate.reply as () => Promise<number>)
  return { net, gate }
}

/** The events of the messages that are on disk, in order. A full disk may have taken the start of one twice. */
const onDisk = (directory: string) => {
  const texts = files(directory, '.log').map((path) => readFileSync(path, 'latin1'))
  return [...new Set(texts.join('').match(/"event":"e\d+"/g))].map((text) => text.slice(9, -1))
}

const codes = (failed: { error: { code: string } }[]) => [
  ...new Set(failed.map(({ error }) => error.code)),
]

const LEFT_OUT = 'no right to mount a file system: the full disk is left out'

describe('a full disk', () => {
  test(
    'lets messages wait in memory up to maxQueueBytes, and keeps their order',
    { tags: 'long' },
    async ({ skip }) => {
      const directory = smallDisk('size=12m')
      if (!directory) return skip(LEFT_OUT)
      const { net, gate } = heldFetch()
      const { failed, hooks } = listen()
      const analytics = createClient(net, { spool: { directory }, ...hooks })
      let made = 0
      while (analytics.stats().dropped === 0) trackLarge(analytics, 1, made++)
      const { pending, pendingBytes } = analytics.stats()
      // Up to 64 MiB in memory, up to 8 of which are on disk too; the others on disk only.
      expect(pendingBytes).toBeGreaterThan(64 * MIB)
      expect(pendingBytes).toBeLessThan(76 * MIB)
      gate.release()
      expect(await analytics.flush()).toEqual({ delivered: pending, failed: 0 })
      expect(events(...net.arrivals)).toEqual(names(0, made - 1))
      expect(codes(failed).sort()).toEqual(['queue_full', 'spool_failed'])
    },
  )

  test(
    'takes the messages from memory, and new ones, once it has room',
    { tags: 'long' },
    async ({ skip }) => {
      const directory = smallDisk('size=24m')
      if (!directory) return skip(LEFT_OUT)
      const ballast = join(directory, 'ballast')
      writeFileSync(ballast, Buffer.alloc(23 * MIB))
      useFakeClock()
      const { net, gate } = heldFetch()
      const analytics = createClient(net, { spool: { directory } })
      trackLarge(analytics, 400)
      await turns()
      expect(onDisk(directory).length).toBeLessThan(40)
      rmSync(ballast)
      await pass(5_000)
      while (onDisk(directory).length < 400) await turns()
      trackLarge(analytics, 100, 400)
      expect(onDisk(directory)).toEqual(names(0, 500))
      const next = scriptedFetch()
      createClient(next, { spool: { directory: crash(directory) } })
      await pass(1_000)
      expect(events(...next.arrivals)).toEqual(names(0, 500))
      gate.release()
      await pass(1_000)
      expect(events(...net.arrivals)).toEqual(names(0, 500))
    },
  )

  test('keeps no later process from sending what is on it, nor the one after that', async ({
    skip,
  }) => {
    const directory = smallDisk('size=2m')
    if (!directory) return skip(LEFT_OUT)
    for (const round of [0, 1, 2]) {
      const { net } = heldFetch()
      const analytics = createClient(net, { spool: { directory } })
      await turns()
      if (round === 0) {
        trackLarge(analytics, 20)
        fillUp(join(directory, 'ballast'))
      }
      expect(analytics.stats().pending, `round ${round}`).toBe(20)
      trackLarge(analytics, 1) // waits in memory, and is lost with its process
      await analytics.close({ timeout: 0 })
    }
    const net = scriptedFetch()
    const { failed, hooks } = listen()
    const analytics = createClient(net, { spool: { directory }, ...hooks })
    expect(await analytics.flush()).toEqual({ delivered: 20, failed: 0 })
    expect(events(...net.arrivals)).toEqual(names(0, 20))
    expect(failed).toEqual([])
  })

  test('that gives not even a folder says that messages of earlier processes wait', async ({
    skip,
  }) => {
    const directory = smallDisk('size=2m')
    if (!directory) return skip(LEFT_OUT)
    fillUp(join(directory, 'ballast'))
    const { failed, hooks } = listen()
    createClient(scriptedFetch(), { spool: { directory }, ...hooks })
    await turns()
    expect(failed).toMatchObject([
      {
        error: { message: expect.stringContaining('earlier processes left there wait') as string },
      },
    ])
  })

  test('keeps the newest messages with drop-oldest', async ({ skip }) => {
    const directory = smallDisk('size=2m')
    if (!directory) return skip(LEFT_OUT)
    const { net, gate } = heldFetch()
    const maxQueueBytes = 4 * MIB
    const spool = { directory }
    const analytics = createClient(net, { spool, maxQueueBytes, overflow: 'drop-oldest' })
    trackLarge(analytics, 20)
    await turns()
    trackLarge(analytics, 480, 20)
    const { pending, dropped } = analytics.stats()
    expect(dropped).toBeGreaterThan(100)
    gate.release()
    await analytics.flush()
    const arrived = events(...net.arrivals)
    const inFlight = events(net.arrivals[0]).length
    expect(arrived.slice(inFlight)).toEqual(names(500 - (pending - inFlight), 500))
  })
})

describe('a disk that can not be written', () => {
  test('lets memory hold maxQueueBytes, even if maxBytes is less', () => {
    const file = join(temporary(), 'file')
    writeFileSync(file, '')
    const { net } = heldFetch()
    const spool = { directory: file, maxBytes: MIB }
    const analytics = createClient(net, { spool, maxQueueBytes: 4 * MIB })
    trackLarge(analytics, 200)
    expect(analytics.stats().pendingBytes).toBeGreaterThan(4 * MIB - 2 * MESSAGE_BYTES)
  })
})

/** Makes `fs` fail as if too many files were open, for paths that `concerns`. */
function useUpDescriptors(concerns: (path: string) => boolean) {
  const open = fs.openSync
  const spy = vi.spyOn(fs, 'openSync').mockImplementation((path, ...rest) => {
    if (!concerns(String(path))) return open(path, ...rest)
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
  })
  onTestFinished(() => {
    spy.mockRestore()
  })
  return spy
}

/** A client that waits for an answer, with 200 messages on disk of which most are in memory no more. */
async function backlogOnDisk() {
  useFakeClock()
  const directory = temporary()
  const { net, gate } = heldFetch()
  const { failed, hooks } = listen()
  const spool = { directory, maxBytes: 16 * MIB }
  const analytics = createClient(net, { spool, maxQueueBytes: 100_000, ...hooks })
  trackLarge(analytics, 200)
  await turns()
  return { directory, net, gate, failed, analytics }
}

describe('too many open files', () => {
  const isLog = (path: string) => path.endsWith('.log')

  test('cost no message that has to be read back', async () => {
    const { net, gate, failed, analytics } = await backlogOnDisk()
    const descriptors = useUpDescriptors(isLog)
    gate.release()
    await pass(20_000)
    expect(analytics.stats().pending).toBeGreaterThan(100)
    descriptors.mockRestore()
    await pass(20_000)
    expect(events(...net.arrivals)).toEqual(names(0, 200))
    expect(failed).toEqual([])
  })

  test('do not end the takeover of what a dead process left', async () => {
    useFakeClock()
    const directory = temporary()
    const dead = createClient(heldFetch().net, { spool: { directory, maxBytes: 2 * MIB } })
    trackLarge(dead, 40)
    await turns()
    const image = crash(directory)
    const [, second = ''] = files(image, '.log')
    const descriptors = useUpDescriptors((path) => path.endsWith(second.slice(-14)))
    const { failed, hooks } = listen()
    const net: ScriptedFetch = scriptedFetch()
    const analytics = createClient(net, { spool: { directory: image }, ...hooks })
    await pass(1_000)
    expect(events(...net.arrivals).length).toBeLessThan(40)
    descriptors.mockRestore()
    await pass(6_000)
    expect(events(...net.arrivals)).toEqual(names(0, 40))
    expect(failed).toEqual([])
    await analytics.close()
    expect(files(image)).toEqual([])
  })

  test('leave to the next client, at once, what could not be taken over before close()', async () => {
    useFakeClock()
    let directory = temporary()
    trackLarge(createClient(heldFetch().net, { spool: { directory } }), 40)
    await turns()
    directory = crash(directory)
    const descriptors = useUpDescriptors(isLog)
    await Promise.all([
      createClient(scriptedFetch(), { spool: { directory } }).close(),
      pass(1_000),
    ])
    descriptors.mockRestore()
    const net = scriptedFetch()
    createClient(net, { spool: { directory } })
    await pass(1_000)
    expect(events(...net.arrivals)).toEqual(names(0, 40))
  })
})

/** Makes one operation of `fs` fail for a path. */
function deny(operation: 'openSync' | 'renameSync' | 'rmSync', ending: string, code: string) {
  const real = fs[operation] as (...given: unknown[]) => unknown
  const spy = vi.spyOn(fs, operation).mockImplementation((...given: unknown[]) => {
    if (!String(given[0]).endsWith(ending)) return real(...given) as never
    throw Object.assign(new Error(`${code}: by the test`), { code })
  })
  onTestFinished(() => {
    spy.mockRestore()
  })
  return spy
}

describe('what was told of a message is true:', () => {
  test.each([
    ['opened', 'openSync', 'EIO'],
    ['moved', 'renameSync', 'ENOSPC'],
    ['moved', 'renameSync', 'EPERM'],
  ] as const)(
    'a file of a dead process that cannot be %s (%s: %s) waits, and holds up no other',
    async (_, operation, code) => {
      useFakeClock()
      let directory = temporary()
      const dead = () => createClient(heldFetch().net, { spool: { directory, maxBytes: 2 * MIB } })
      trackLarge(dead(), 40)
      await pass(10) // the folders are in the order of their times
      trackLarge(dead(), 10, 40)
      await turns()
      directory = crash(directory)
      const [, second = ''] = files(directory, '.log')
      const spy = deny(operation, second.split('/').slice(-2).join('/'), code)
      const net = scriptedFetch()
      const { failed, hooks } = listen()
      const analytics = createClient(net, { spool: { directory }, ...hooks })
      await pass(20_000)
      const first = events(...net.arrivals)
      expect(first.length).toBeGreaterThan(40)
      expect(first).toContain('e49')
      expect(failed).toMatchObject([{ messages: [], error: { code: 'spool_failed' } }])
      expect(failed[0]?.error.message).toMatch(
        code === 'EPERM' ? /wait: EPERM.* chmod/ : /wait: E.* disk/,
      )
      spy.mockRestore()
      await pass(6_000)
      expect(events(...net.arrivals).sort()).toEqual(names(0, 50).sort())
      expect(failed).toHaveLength(1)
      await Promise.all([analytics.close(), pass(1_000)])
      expect(files(directory)).toEqual([])
    },
  )

  test.each([
    ['may not be read', ['EACCES']],
    ['can neither be read nor be set aside', ['EIO', 'EROFS']],
  ])('a file that %s is not lost, but waits', async (_, [opened = '', renamed]) => {
    const { directory, net, gate, failed, analytics } = await backlogOnDisk()
    const [, second = ''] = files(directory, '.log')
    const spies = [deny('openSync', second, opened)]
    if (renamed) spies.push(deny('renameSync', second, renamed))
    gate.release()
    await pass(20_000)
    expect(failed).toMatchObject([{ messages: [], error: { code: 'spool_failed' } }])
    expect(failed[0]?.error.message).toContain(`${opened}: by the test`)
    for (const spy of spies) spy.mockRestore()
    await pass(20_000)
    expect(events(...net.arrivals)).toEqual(names(0, 200))
    expect(failed).toHaveLength(1)
    await Promise.all([analytics.close(), pass(1_000)])
    expect(files(directory)).toEqual([])
  })

  test('a file that cannot be removed is not sent again, and removed later', async () => {
    useFakeClock()
    const directory = temporary()
    const net = scriptedFetch()
    const analytics = createClient(net, { spool: { directory, maxBytes: 16 * MIB } })
    const spy = deny('rmSync', '.log', 'EACCES')
    trackLarge(analytics, 200)
    await pass(20_000)
    expect(events(...net.arrivals)).toEqual(names(0, 200))
    const before = files(directory, '.log').length
    expect(before).toBeGreaterThan(2)
    const next = scriptedFetch()
    createClient(next, { spool: { directory: crash(directory) } })
    await pass(1_000)
    expect(next.arrivals).toEqual([])
    spy.mockRestore()
    await pass(5_000)
    expect(files(directory, '.log').length).toBeLessThan(2)
    await Promise.all([analytics.close(), pass(1_000)])
    expect(files(directory)).toEqual([])
    expect(events(...net.arrivals)).toEqual(names(0, 200))
  })
})
