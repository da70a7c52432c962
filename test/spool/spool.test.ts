import fs, {
  copyFileSync,
  cpSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  renameSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  Analytics,
  type AnalyticsOptions,
  type FailedReport,
  type Fetch,
  type Stats,
  type WireMessage,
} from '../../src/index.js'
import {
  AT_ONCE,
  createClient,
  events,
  held,
  listen,
  names,
  pass,
  passUntil,
  runScript,
  scriptedFetch,
  sized,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
  type FetchReply,
  type ScriptedFetch,
} from '../collector.js'
import { crash, diskBytes, files, smallDisk, temporary } from './directory.js'

const balanced = ({ accepted, delivered, rejected, dropped, pending }: Stats) =>
  accepted === delivered + rejected + dropped + pending

/** A client in an outage, and its directory. */
function cutOff(options: AnalyticsOptions = {}, directory = temporary()) {
  const net = scriptedFetch()
  net.otherwise('hang')
  return { directory, net, analytics: createClient(net, { spool: { directory }, ...options }) }
}

/** A client whose endpoint took 30 messages, and goes down before the last 5. */
async function partlyDelivered() {
  const { net, analytics, directory } = cutOff()
  net.otherwise(200)
  trackMany(analytics, 30)
  await analytics.flush()
  net.otherwise('hang')
  trackMany(analytics, 5, 30)
  return { analytics, directory }
}

/** A client whose endpoint is down, and whose disk takes nothing until its `file` is deleted. */
function withoutDisk() {
  const file = join(temporary(), 'file')
  writeFileSync(file, '')
  useFakeClock()
  const net = scriptedFetch()
  net.otherwise(503)
  return { file, net, analytics: createClient(net, { spool: { directory: file }, flushAt: 10 }) }
}

/** What a client that starts on a directory delivers, until nothing is left. */
async function restart(directory: string, options: AnalyticsOptions = {}) {
  const net = scriptedFetch()
  const { hooks, failed } = listen()
  const analytics = new Analytics('wk_4f9a-secret', {
    fetch: net.fetch,
    spool: { directory },
    ...hooks,
    ...options,
  })
  const adopted = analytics.stats()
  const closed = vi.fn()
  void analytics.close().then(closed)
  await (vi.isFakeTimers() ? passUntil : until)(() => closed.mock.calls.length > 0)
  return {
    adopted,
    failed,
    stats: analytics.stats(),
    events: events(...net.arrivals),
    messages: net.arrivals.flatMap(({ messages }) => messages),
  }
}

describe('a message whose call returned', () => {
  test('is on disk, and goes out at the next start with the same id, in order', async () => {
    const { analytics, directory } = cutOff()
    for (let i = 0; i < 50; i++) {
      analytics.track({ userId: 'u', event: `e${i}`, messageId: `m${i}` })
    }
    const next = await restart(crash(directory))
    expect(next.events).toEqual(names(0, 50))
    expect(next.messages.map(({ messageId }) => messageId)).toEqual(
      names(0, 50).map((name) => name.replace('e', 'm')),
    )
    expect(next.adopted).toMatchObject({ accepted: 50, pending: 50 })
    expect(next.adopted.pendingBytes).toBe(analytics.stats().pendingBytes)
    expect(next.stats).toMatchObject({ accepted: 50, delivered: 50, pending: 0, pendingBytes: 0 })
    expect(next.failed).toEqual([])
  })

  test('is on disk as beforeSend left it', async () => {
    const beforeSend = (message: WireMessage) => ({ ...message, event: 'redacted' })
    const { analytics, directory } = cutOff({ beforeSend })
    analytics.track({ userId: 'u', event: 'secret' })
    expect(
      files(directory, '.log')
        .map((path) => readFileSync(path, 'latin1'))
        .join(),
    ).not.toContain('secret')
    expect((await restart(crash(directory))).events).toEqual(['redacted'])
  })

  test('is in folders and files for their owner alone', () => {
    const directory = join(temporary(), 'a/b')
    const { analytics } = cutOff({}, directory)
    trackMany(analytics, 1)
    const paths = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    const modes = ['..', '.', ...paths].map((path) => {
      const stats = statSync(join(directory, path))
      return `${stats.isDirectory() ? 'folder' : 'file'} ${(stats.mode & 0o777).toString(8)}`
    })
    expect(new Set(modes)).toEqual(new Set(['folder 700', 'file 600']))
  })

  test('comes before those of the process that takes it over', async () => {
    const { analytics, directory } = cutOff()
    trackMany(analytics, 30)
    const net = scriptedFetch()
    const next = createClient(net, { spool: { directory: crash(directory) } })
    trackMany(next, 30, 30)
    expect(await next.flush()).toEqual({ delivered: 60, failed: 0 })
    expect(events(...net.arrivals)).toEqual(names(0, 60))
  })

  test('is taken over by a process that runs already', async () => {
    useFakeClock()
    const { analytics, directory } = cutOff()
    trackMany(analytics, 30)
    const net = scriptedFetch()
    const shared = temporary()
    const next = createClient(net, { spool: { directory: shared } })
    trackMany(next, 20, 100)
    await turns()
    cpSync(crash(directory), shared, { recursive: true })
    await pass(5_000)
    trackMany(next, 20, 200)
    await pass(100)
    expect(events(...net.arrivals)).toEqual([
      ...names(100, 120),
      ...names(0, 30),
      ...names(200, 220),
    ])
    expect(next.stats()).toMatchObject({ accepted: 70, delivered: 70, pending: 0, pendingBytes: 0 })
  })

  test('is not for a client with another write key', async () => {
    const { analytics, directory } = cutOff()
    trackMany(analytics, 3)
    const image = crash(directory)
    const net = scriptedFetch()
    const other = new Analytics('another key', { fetch: net.fetch, spool: { directory: image } })
    await other.close()
    expect(net.arrivals).toEqual([])
    expect((await restart(image)).events).toEqual(names(0, 3))
  })

  test('survives crash after crash in few files', { tags: 'long' }, async () => {
    let { directory } = cutOff()
    for (let round = 0; round < 20; round++) {
      const { analytics, directory: used } = cutOff({}, directory)
      trackMany(analytics, 5, 5 * round)
      directory = crash(used)
    }
    expect(files(directory, '.log')).toHaveLength(1)
    expect((await restart(directory)).events).toEqual(names(0, 100))
  })
})

describe('a backlog of dead clients', () => {
  const MAX_BYTES = 1_048_576

  /** What dead clients left, each so many messages of 2,000 bytes. */
  function leftBy(...counts: number[]): string {
    const directory = temporary()
    let made = 0
    for (const count of counts) {
      const { analytics } = cutOff({}, directory)
      for (let i = 0; i < count; i++) analytics.track(sized(2_000, 'x', `e${made++}`))
    }
    return crash(directory)
  }

  test('that is more than a client may keep leaves room for its calls, and goes to others', () => {
    const spool = { directory: leftBy(150, 150, 150), maxBytes: MAX_BYTES }
    const net = scriptedFetch()
    net.otherwise('hang')
    const [next, other] = [createClient(net, { spool }), createClient(net, { spool })]
    expect([next.stats().pending, other.stats().pending]).toEqual([300, 150])
    next.track(sized(2_000))
    expect(next.stats()).toMatchObject({ pending: 301, dropped: 0 })
  })

  test('that is more than a client may keep is taken over bit by bit, and flush() waits for none of the rest', async () => {
    useFakeClock()
    const spool = { directory: leftBy(150, 150, 150, 150, 150), maxBytes: MAX_BYTES }
    const net = scriptedFetch()
    const next = createClient(net, { spool })
    const flushed = next.flush()
    await pass(1_000)
    expect(await flushed).toEqual({ delivered: 300, failed: 0 })
    await pass(4_000)
    await pass(500)
    expect(next.stats()).toMatchObject({ delivered: 600, pending: 0 })
    await pass(5_000)
    expect(next.stats()).toMatchObject({ delivered: 750, pending: 0 })
    expect(events(...net.arrivals).toSorted()).toEqual(names(0, 750).toSorted())
  })

  test('of which one left more than another may keep is taken over, and each call drops no more than it adds', async () => {
    const spool = { directory: leftBy(1_000), maxBytes: MAX_BYTES }
    const net = scriptedFetch()
    net.script(503)
    const { failed, hooks } = listen()
    const analytics = createClient(net, { spool, overflow: 'drop-oldest', ...hooks })
    expect(analytics.stats().pending).toBe(1_000)
    for (const name of names(1_000, 1_010)) analytics.track(sized(2_000, 'x', name))
    expect(analytics.stats()).toMatchObject({ pending: 1_000, dropped: 10 })
    await analytics.flush()
    expect(events(...net.arrivals.slice(1))).toEqual(names(10, 1_010))
    expect(failed.flatMap(({ messages }) => messages)).toHaveLength(10)
  })
})

describe('a message that has its outcome', () => {
  test('is not sent again by the next start', async () => {
    const { analytics, directory, net } = cutOff()
    net.script(200, 200)
    trackMany(analytics, 20)
    await until(() => analytics.stats().delivered === 20)
    trackMany(analytics, 20, 20)
    await until(() => analytics.stats().delivered === 40)
    trackMany(analytics, 20, 40)
    await until(() => net.arrivals.length === 3)
    expect((await restart(crash(directory))).events).toEqual(names(40, 60))
  })

  test('moves nothing while one before it has none: requests side by side', async () => {
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply)
    const directory = temporary()
    const analytics = createClient(collector, { flushAt: 1, spool: { directory } })
    trackMany(analytics, 5)
    await until(() => analytics.stats().delivered === 4)
    expect((await restart(crash(directory))).events).toEqual(names(0, 5))
    gate.release()
    await analytics.flush()
    expect((await restart(crash(directory))).events).toEqual([])
  })

  test('may be a refusal, of a message or of a batch', async () => {
    const { analytics, directory, net } = cutOff({ flushAt: 3 })
    const rejected = [{ index: 1, code: 'bad', message: 'it is' }]
    net.script({ status: 200, body: JSON.stringify({ rejected }) }, 401)
    trackMany(analytics, 3)
    await until(() => analytics.stats().rejected === 1)
    trackMany(analytics, 3, 3)
    await until(() => analytics.stats().rejected === 4)
    trackMany(analytics, 3, 6)
    expect((await restart(crash(directory))).events).toEqual(names(6, 9))
  })

  test.each(['a callback', 'onFailed'])(
    'stays on disk until %s has been told that it is lost: the process may end there',
    async (who) => {
      const directory = temporary()
      const copies: string[] = []
      const copy = () => copies.push(crash(directory))
      const { analytics, net } = cutOff(
        { flushAt: 3, ...(who === 'onFailed' && { onFailed: copy }) },
        directory,
      )
      net.script(401)
      trackMany(analytics, 3, 0, who === 'onFailed' ? undefined : () => copy)
      await until(() => copies.length === (who === 'onFailed' ? 1 : 3))
      for (const left of copies) expect((await restart(left)).events).toEqual(names(0, 3))
      await turns()
      expect((await restart(crash(directory))).events).toEqual([])
    },
  )

  test('frees the disk, file by file, while others wait', async () => {
    const collector = await startCollector()
    collector.otherwise(503)
    const directory = temporary()
    const spool = { directory, maxBytes: 1_048_576 }
    const analytics = createClient(collector, { spool })
    trackMany(analytics, 2_000)
    const before = files(directory, '.log').length
    const gate = held()
    collector.script(200, gate.reply)
    collector.otherwise(200)
    await until(() => analytics.stats().delivered > 0)
    const { pendingBytes, pending } = analytics.stats()
    expect(before).toBeGreaterThan(4)
    expect(diskBytes(directory)).toBeLessThan(pendingBytes + pending * 12 + 65_536)
    gate.release()
    await analytics.close()
    expect(files(directory)).toEqual([])
  })
})

/** Lets what is under way get its answers, on the clock of the machine. */
const pass0 = () => new Promise((resolve) => setTimeout(resolve, 5))
const until = async (holds: () => boolean) => {
  while (!holds()) await pass0()
}

describe('close()', () => {
  test('leaves on disk what it cannot deliver, which is no loss', async () => {
    const { hooks, failed, outcomes, as, codes } = { ...listen(), codes: [] as string[] }
    const { analytics, directory } = cutOff(hooks)
    trackMany(analytics, 25, 0, as)
    expect(await analytics.close({ timeout: 0 })).toEqual({ delivered: 0, failed: 0 })
    expect(codes).toEqual([])
    expect(outcomes.map(({ name, error }) => `${name} ${error?.code}`)).toEqual(
      names(0, 25).map((name) => `${name} spooled`),
    )
    expect(failed).toEqual([])
    expect(analytics.stats()).toMatchObject({ accepted: 25, dropped: 0, pending: 25 })
    expect((await restart(directory)).events).toEqual(names(0, 25))
  })

  test('leaves nothing that has its outcome, whatever was overtaken', async () => {
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply, 200, 401, 200)
    const directory = temporary()
    const analytics = createClient(collector, {
      flushAt: 1,
      onFailed: () => undefined,
      spool: { directory },
    })
    trackMany(analytics, 5)
    await until(() => analytics.stats().pending === 1)
    await analytics.close({ timeout: 0 })
    expect((await restart(crash(directory))).events).toEqual(['e0'])
    gate.release()
    expect((await restart(directory)).events).toEqual(['e0'])
  })

  test('leaves no file open, also of what it took over', async () => {
    const directory = temporary()
    const first = cutOff({}, directory).analytics
    trackMany(first, 5)
    await first.close({ timeout: 0 })
    const open = vi.spyOn(fs, 'openSync')
    const close = vi.spyOn(fs, 'closeSync')
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    const { analytics } = cutOff({}, directory)
    trackMany(analytics, 5, 5)
    await pass0()
    await analytics.close({ timeout: 0 })
    expect(analytics.stats().pending).toBe(10)
    const closed = close.mock.calls.map(([fd]) => fd)
    const opened = open.mock.results.map(({ value }) => value as number)
    expect(closed.sort()).toEqual(opened.sort())
  })

  test('leaves nothing behind when all is delivered', async () => {
    const directory = temporary()
    const net = scriptedFetch()
    const analytics = createClient(net, { spool: { directory } })
    trackMany(analytics, 25)
    expect(await analytics.close()).toEqual({ delivered: 25, failed: 0 })
    expect(files(directory)).toEqual([])
    expect(readdirSync(join(directory, readdirSync(directory)[0] ?? ''))).toEqual([])
  })

  test('gives each callback its outcome once, also of what was on disk only', async () => {
    const { outcomes, as } = listen()
    const { analytics, directory, net } = cutOff({ maxQueueBytes: 1_000, flushAt: 5 })
    net.script(200)
    trackMany(analytics, 40, 0, as)
    await until(() => analytics.stats().delivered > 0)
    const { delivered } = analytics.stats()
    await analytics.close({ timeout: 0 })
    expect(outcomes.map(({ error }) => error?.code)).toEqual(
      names(0, 40).map((_, i) => (i < delivered ? undefined : 'spooled')),
    )
    expect(new Set(outcomes.map(({ name }) => name)).size).toBe(40)
    expect((await restart(directory)).events).toEqual(names(delivered, 40))
  })
})

describe('an outage', () => {
  test(
    'is held on disk: far more than memory takes goes out in order, with its callbacks',
    { tags: 'long' },
    async () => {
      const { outcomes, as, hooks, failed } = listen()
      const { analytics, net, directory } = cutOff({ maxQueueBytes: 10_000, ...hooks })
      net.script(503)
      trackMany(analytics, 20_000, 0, as)
      await turns()
      expect(analytics.stats()).toMatchObject({ accepted: 20_000, pending: 20_000 })
      expect(diskBytes(directory)).toBeGreaterThan(100 * 10_000)
      net.otherwise(200)
      expect(await analytics.flush()).toEqual({ delivered: 20_000, failed: 0 })
      expect(events(...net.arrivals.slice(1))).toEqual(names(0, 20_000))
      expect(outcomes.map(({ name }) => name)).toEqual(names(0, 20_000))
      expect(failed).toEqual([])
      expect(analytics.stats()).toMatchObject({ delivered: 20_000, pendingBytes: 0 })
    },
  )

  test(
    'stays on disk for as long as it lasts, whatever shows that it does',
    { tags: 'long' },
    async () => {
      useFakeClock()
      const { analytics, net } = cutOff({ maxQueueBytes: 1_000_000 })
      net.otherwise(503)
      for (const name of names(0, 300)) analytics.track(sized(30_000, 'x', name))
      await turns()
      const read = vi.spyOn(fs, 'readSync')
      await pass(4 * 3_600_000)
      expect(net.arrivals.length).toBeGreaterThan(500)
      // What follows the messages in memory is read once, since one of it may show more than they do. A beat reads the start of a file.
      const reads = read.mock.calls.filter(([, bytes]) => bytes.byteLength > 100)
      expect(reads.length).toBeLessThanOrEqual(1)
      read.mockRestore()
      const before = net.arrivals.length
      net.otherwise(200)
      await pass(120_000)
      expect(events(...net.arrivals.slice(before))).toEqual(names(0, 300))
    },
  )

  const MAX_BYTES = 1_048_576

  test.each(['drop-newest', 'drop-oldest'] as const)(
    'never takes more disk: %s',
    { tags: 'long' },
    async (overflow) => {
      const directory = temporary()
      const spool = { directory, maxBytes: MAX_BYTES }
      const net = scriptedFetch()
      const gate = heldFetch(net)
      const { failed, hooks } = listen()
      const analytics = createClient(net, { spool, overflow, maxQueueBytes: 50_000, ...hooks })
      let most = 0
      for (let i = 0; i < 12_000; i++) {
        analytics.track({ userId: 'u', event: `e${i}` })
        if (i % 50 === 0) most = Math.max(most, diskBytes(directory))
        if (i % 1_000 === 0) await turns()
        expect(balanced(analytics.stats())).toBe(true)
      }
      expect(most).toBeLessThanOrEqual(MAX_BYTES)
      expect(most).toBeGreaterThan(MAX_BYTES / 2)
      gate.release()
      await analytics.flush()
      const { dropped, delivered } = analytics.stats()
      expect(dropped).toBeGreaterThan(1_000)
      expect(delivered).toBe(12_000 - dropped)
      expect(failed.flatMap(({ messages }) => messages)).toHaveLength(dropped)
      expect(new Set(failed.map(({ error }) => error.code))).toEqual(new Set(['queue_full']))
      const arrived = events(...net.arrivals)
      // The batch that was in flight stays, whoever goes.
      const inFlight = events(net.arrivals[0]).length
      const kept =
        overflow === 'drop-newest'
          ? names(0, delivered)
          : [...names(0, inFlight), ...names(12_000 - delivered + inFlight, 12_000)]
      expect(arrived).toEqual(kept)
    },
  )
})

test('the logger is told of the spool, as DEBUG=analytics is', async () => {
  const { analytics, directory } = cutOff()
  trackMany(analytics, 3)
  const lines: string[] = []
  const logger = { debug: (line: string) => lines.push(line), warn: () => undefined }
  await restart(crash(directory), { logger })
  expect(lines).toContain('spool: adopted 3 messages')
})

describe('damage', () => {
  const CORRUPT = 'spool_corrupt'

  test('of one message loses that one, says so, and keeps its bytes', async () => {
    const { analytics, directory } = cutOff()
    trackMany(analytics, 30)
    const image = crash(directory)
    const [path = ''] = files(image, '.log')
    const bytes = readFileSync(path)
    const at = bytes.indexOf('"e7"')
    bytes.write('d', at + 1)
    writeFileSync(path, bytes)
    const next = await restart(image)
    expect(next.events).toEqual([...names(0, 7), ...names(8, 30)])
    expect(next.failed.map(({ error, messages }) => [error.code, messages])).toEqual([
      [CORRUPT, [{ type: 'unknown', messageId: undefined, json: undefined }]],
    ])
    expect(next.stats).toMatchObject({ accepted: 30, delivered: 29, dropped: 1, pendingBytes: 0 })
    const [quarantined = ''] = files(image, '.corrupt')
    expect(readFileSync(quarantined, 'utf8')).toContain('"d7"')
    expect(next.failed[0]?.error.message).toContain(quarantined)
    expect(files(image, '.log')).toEqual([])
  })

  test('that a call finds, because it drops the oldest, is told after the call', async () => {
    const net = scriptedFetch()
    net.otherwise('hang')
    const inCall: string[] = []
    let current: string | undefined
    const onFailed = ({ error }: FailedReport) => {
      if (current !== undefined) inCall.push(`${error.code} in the call of ${current}`)
      if (error.code === CORRUPT) analytics.track(sized(200, 'n', 'nested'))
    }
    const directory = temporary()
    const analytics = createClient(net, {
      ...{ timeout: 500, spool: { directory, maxBytes: 1_048_576 }, maxQueueBytes: 40_000 },
      ...{ overflow: 'drop-oldest', onFailed },
    })
    const track = (name: string) => {
      current = name
      analytics.track(sized(2_000, 'x', name))
      current = undefined
    }
    for (const name of names(0, 300)) track(name)
    for (const path of files(directory, '.log')) {
      const bytes = readFileSync(path)
      for (let at = 3_000; at < bytes.length - 3_000; at += 20_000) bytes.fill('A', at, at + 20)
      writeFileSync(path, bytes)
    }
    for (const name of names(300, 1_000)) track(name)
    expect(inCall).toEqual([])
    await turns()
    net.otherwise(200)
    await analytics.close()
    const sent = new Set(events(...net.arrivals))
    expect(sent).toContain('nested')
    expect(names(950, 1_000).filter((name) => !sent.has(name))).toEqual([])
    expect(analytics.stats()).toMatchObject({ pending: 0, pendingBytes: 0 })
    expect(balanced(analytics.stats())).toBe(true)
  })

  test('at the end costs no message whose call returned', async () => {
    const { analytics, directory } = cutOff()
    trackMany(analytics, 10)
    const image = crash(directory)
    const [path = ''] = files(image, '.log')
    writeFileSync(path, readFileSync(path).subarray(30, 60), { flag: 'a' })
    const next = await restart(image)
    expect(next.events).toEqual(names(0, 10))
    expect(next.failed.map(({ error, messages }) => [error.code, messages])).toEqual([
      [CORRUPT, []],
    ])
    expect(files(image, '.corrupt')).toHaveLength(1)
  })

  test('is told before close() resolves', async () => {
    const { directory } = await partlyDelivered()
    const image = crash(directory)
    const [path = ''] = files(image, '.log')
    writeFileSync(path, readFileSync(path).subarray(0, 1))
    const { hooks, failed } = listen()
    await createClient(scriptedFetch(), { spool: { directory: image }, ...hooks }).close()
    expect(failed.map(({ error }) => error.code)).toEqual([CORRUPT])
  })

  test.each([1, 12, 20, 23, 24, 500])(
    'that cuts a file at %i bytes is reported, though nobody knows what it had',
    async (length) => {
      const { directory } = await partlyDelivered()
      const image = crash(directory)
      const [path = ''] = files(image, '.log')
      writeFileSync(path, readFileSync(path).subarray(0, length))
      const next = await restart(image)
      expect(next.events).toEqual([])
      expect(next.failed.map(({ error, messages }) => [error.code, messages])).toEqual([
        [CORRUPT, []],
      ])
    },
  )

  test.each([false, true])(
    'of the head sends all messages of the file, and says so; closed: %s',
    async (isClosed) => {
      const { analytics, directory } = await partlyDelivered()
      if (isClosed) await analytics.close({ timeout: 0 })
      const image = crash(directory)
      const [path = ''] = files(image, '.log')
      const bytes = readFileSync(path)
      bytes.writeUInt8(bytes.readUInt8(1) ^ 1, 1)
      writeFileSync(path, bytes)
      const next = await restart(image)
      expect(next.events).toEqual(names(0, 35))
      expect(next.failed).toMatchObject([
        {
          messages: [],
          error: { code: CORRUPT, message: expect.stringMatching('twice') as string },
        },
      ])
    },
  )

  type Harm = (bytes: Buffer, at: number) => Buffer[]
  const garbage = Buffer.from('garbage {"x":')
  test.each<[string, Harm, number[]]>([
    ['lacks bytes', (bytes, at) => [bytes.subarray(0, at), bytes.subarray(at + 5)], [10]],
    ['has more bytes', (bytes, at) => [bytes.subarray(0, at), garbage, bytes.subarray(at)], [10]],
    [
      'has much more',
      (bytes, at) => [bytes.subarray(0, at), Buffer.alloc(2_000_000), bytes.subarray(at)],
      [10],
    ],
    [
      'has more bytes in two',
      (bytes, at) => [
        ...[bytes.subarray(0, at), garbage, bytes.subarray(at, at + 1_000)],
        ...[garbage, bytes.subarray(at + 1_000)],
      ],
      [10, 15],
    ],
    [
      'has bytes between two messages',
      (bytes, at) => {
        const from = bytes.lastIndexOf(0xff, at)
        return [bytes.subarray(0, from), garbage, bytes.subarray(from)]
      },
      [],
    ],
  ])('of a closed file that %s costs no other message', async (_, harm, hit) => {
    const { analytics, directory } = cutOff()
    trackMany(analytics, 50)
    await analytics.close({ timeout: 0 })
    const [path = ''] = files(directory, '.log')
    const bytes = readFileSync(path)
    writeFileSync(path, Buffer.concat(harm(bytes, bytes.indexOf('"e10"'))))
    const next = await restart(directory)
    expect(next.events).toEqual(names(0, 50).filter((name) => !hit.includes(Number(name.slice(1)))))
    const dropped = hit.length
    expect(next.stats).toMatchObject({ accepted: 50, delivered: 50 - dropped, dropped })
    expect(next.stats).toMatchObject({ pending: 0, pendingBytes: 0 })
  })

  test('of any kind, at many places of a closed file, is counted: each message has one outcome', async () => {
    const { analytics, directory } = cutOff()
    trackMany(analytics, 50)
    await analytics.close({ timeout: 0 })
    const whole = readFileSync(files(directory, '.log')[0] ?? '')
    const first = whole.indexOf('"e0"')
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            at: fc.oneof(
              fc.integer({ min: first, max: whole.length }),
              fc.integer({ min: whole.length - 600, max: whole.length }),
            ),
            removed: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3_000 })),
            added: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3_000 })),
          }),
          { minLength: 1, maxLength: 4 },
        ),
        async (harms) => {
          const image = crash(directory)
          let bytes = whole
          for (const { at, removed, added } of harms) {
            const rest = bytes.subarray(at + removed)
            bytes = Buffer.concat([bytes.subarray(0, at), Buffer.alloc(added, '{'), rest])
          }
          writeFileSync(files(image, '.log')[0] ?? '', bytes)
          const { events, stats } = await restart(image)
          expect(events).toEqual(names(0, 50).filter((name) => events.includes(name)))
          const delivered = events.length
          expect(stats).toMatchObject({ accepted: 50, delivered, dropped: 50 - delivered })
          expect(stats).toMatchObject({ pending: 0, pendingBytes: 0 })
        },
      ),
      { numRuns: 60 },
    )
  })

  test('that is found right before close() gives up leaves no lost message as spooled', async () => {
    let found = 0
    for (const last of [1, 2, 3]) {
      const told = new Map<string, string[]>()
      let delivered = 0
      let closed: Promise<unknown> | undefined
      const net = scriptedFetch()
      const directory = temporary()
      let answer!: (status: number) => void
      const answered = new Promise<number>((resolve) => (answer = resolve))
      net.script(() => answered)
      const analytics = createClient(net, {
        spool: { directory },
        maxQueueBytes: 10_000,
        flushAt: 10,
        onFailed: () => undefined,
        onDelivered: () => {
          if (++delivered === last) closed = analytics.close({ timeout: 0 })
        },
      })
      for (const name of names(0, 200)) {
        analytics.track({ userId: 'u', event: name }, (error) => {
          told.set(name, [...(told.get(name) ?? []), error?.code ?? 'ok'])
        })
      }
      const [path = ''] = files(directory, '.log')
      const bytes = readFileSync(path)
      writeFileSync(path, bytes.fill('{', bytes.indexOf('"e70"'), bytes.indexOf('"e90"')))
      answer(200)
      await expect.poll(() => closed, { interval: 1 }).toBeDefined()
      await closed
      await expect.poll(() => told.size, { interval: 1 }).toBe(200)
      const codes = [...told.values()]
      expect(codes.every(({ length }) => length === 1)).toBe(true)
      const spooled = codes.filter(([code]) => code === 'spooled').length
      expect(spooled).toBe(analytics.stats().pending)
      found += codes.filter(([code]) => code === CORRUPT).length
    }
    expect(found).toBeGreaterThan(0)
  })

  test('of files, cut, emptied or gone, loses what was in them, counted', async () => {
    const directory = temporary()
    const { analytics } = cutOff({ spool: { directory, maxBytes: 1_048_576 } })
    trackMany(analytics, 2_000)
    const image = crash(directory)
    const segments = files(image, '.log')
    const count = (path = '') => readFileSync(path, 'latin1').split('"type"').length - 1
    const sizes = segments.map(count)
    const [, cut = '', emptied = ''] = segments
    truncateSync(cut, 20_000)
    const left = count(cut) - 1 // the last one is cut in two
    writeFileSync(emptied, readFileSync(emptied).subarray(0, 24))
    const next = await restart(image, { spool: { directory: image, maxBytes: 1_048_576 } })
    const [first = 0, second = 0, third = 0] = sizes
    const rest = first + second + third
    expect(next.events).toEqual([...names(0, first + left), ...names(rest, 2_000)])
    expect(next.failed.map(({ messages, error }) => [messages.length, error.code])).toEqual([
      [second - left, CORRUPT],
      [third, CORRUPT],
    ])
    expect(next.stats).toMatchObject({ accepted: 2_000, pending: 0, pendingBytes: 0 })
  })

  test('of a disk that can not read a file keeps the file for people to look at', async () => {
    const { failed, hooks } = listen()
    const directory = temporary()
    const net = scriptedFetch()
    const gate = heldFetch(net)
    const spool = { directory, maxBytes: 1_048_576 }
    const analytics = createClient(net, { spool, maxQueueBytes: 1_000, ...hooks })
    trackMany(analytics, 2_000)
    const [, broken = ''] = files(directory, '.log')
    const bytes = readFileSync(broken)
    const open = fs.openSync
    vi.spyOn(fs, 'openSync').mockImplementation((path, ...rest) => {
      if (path !== broken) return open(path, ...rest)
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
    })
    gate.release()
    await analytics.flush()
    vi.restoreAllMocks()
    const [kept = ''] = files(directory, '.corrupt')
    expect(readFileSync(kept).subarray(24)).toEqual(bytes.subarray(24))
    expect(failed[0]?.error.message).toContain(kept)
    expect(analytics.stats()).toMatchObject({ pending: 0, pendingBytes: 0 })
  })

  test('of files that vanish while they wait is told when it shows', async () => {
    const { failed, hooks } = listen()
    const directory = temporary()
    const net = scriptedFetch()
    const gate = heldFetch(net)
    const spool = { directory, maxBytes: 1_048_576 }
    const analytics = createClient(net, { spool, maxQueueBytes: 1_000, ...hooks })
    trackMany(analytics, 2_000)
    const [, gone = ''] = files(directory, '.log')
    rmSync(gone)
    gate.release()
    await analytics.flush()
    const lost = failed.flatMap(({ messages }) => messages).length
    expect(lost).toBeGreaterThan(100)
    expect(failed.map(({ error }) => error.code)).toEqual([CORRUPT])
    expect(failed[0]?.error.message).toContain('ENOENT')
    expect(events(...net.arrivals)).toHaveLength(2_000 - lost)
    expect(analytics.stats()).toMatchObject({ dropped: lost, pending: 0, pendingBytes: 0 })
  })
})

/** Lets the next request wait. */
function heldFetch(net: ScriptedFetch) {
  const gate = held()
  net.script(gate.reply as () => Promise<number>)
  return gate
}

describe('fsync', () => {
  /** The names of what was written through, each once it was. One of them may be refused. */
  function watchSyncs(refused = -1): string[] {
    const synced: string[] = []
    let opened = 0
    const open = fs.promises.open.bind(fs.promises)
    vi.spyOn(fs.promises, 'open').mockImplementation(async (path, flags) => {
      if (opened++ === refused) throw Object.assign(new Error('by the test'), { code: 'EMFILE' })
      const file = await open(path, flags)
      const sync = file.sync.bind(file)
      file.sync = async () => {
        await sync()
        synced.push(basename(path as string))
      }
      return file
    })
    onTestFinished(() => {
      vi.restoreAllMocks()
    })
    return synced
  }

  test("'batch' writes a batch through once it is closed: its file, and the folder's list", async () => {
    const synced = watchSyncs()
    const directory = temporary()
    const { analytics } = cutOff({ spool: { directory, fsync: 'batch' } })
    trackMany(analytics, 19)
    await pass0()
    expect(synced).toEqual([])
    trackMany(analytics, 1, 19)
    await until(() => synced.length === 2)
    expect(synced).toEqual([expect.stringMatching(/^\w{8}-/), '0000000001.log'])
    trackMany(analytics, 3, 20)
    await analytics.close({ timeout: 0 })
    expect(synced.slice(2)).toEqual(['0000000001.log'])
    expect((await restart(directory)).events).toEqual(names(0, 23))
  })

  test.each([0, 1, 3])(
    "'batch' writes through later what the disk refuses once, and the others at once: %i",
    async (refused) => {
      useFakeClock()
      const synced = watchSyncs(refused)
      const { failed, hooks } = listen()
      const directory = temporary()
      const spool = { directory, maxBytes: 1_048_576, fsync: 'batch' } as const
      const { analytics } = cutOff({ spool, ...hooks }, directory)
      for (let i = 0; i < 8; i++) analytics.track(sized(20_000, 'x', `e${i}`))
      void analytics.flush()
      const all = ['0000000001.log', '0000000002.log', '0000000003.log']
      await expect.poll(() => new Set(synced).size).toBe(all.length)
      await pass(5_000)
      await expect.poll(() => new Set(synced).size).toBe(all.length + 1)
      expect(synced).toEqual(expect.arrayContaining([...all, expect.stringMatching(/^\w{8}-/)]))
      expect(failed).toMatchObject([{ messages: [], error: { code: 'spool_failed' } }])
    },
  )

  test('does nothing by default', async () => {
    const synced = watchSyncs()
    const { analytics } = cutOff()
    trackMany(analytics, 50)
    await analytics.close({ timeout: 0 })
    expect(synced).toEqual([])
  })
})

test('a client that is disabled leaves the disk alone', async () => {
  const { analytics, directory } = cutOff({ disabled: true })
  trackMany(analytics, 3)
  await analytics.close()
  expect(files(directory)).toEqual([])
})

describe('a disk that fails', () => {
  const told = (failed: FailedReport[]) =>
    failed.map(({ messages, error }) => [messages.length, error.code])

  test('at the start is reported once, and messages go out from memory', async () => {
    const { failed, hooks } = listen()
    const file = join(temporary(), 'file')
    writeFileSync(file, '')
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { spool: { directory: file }, ...hooks })
    expect(failed).toEqual([]) // not inside of the constructor
    trackMany(analytics, 25)
    await pass(20_000)
    expect(events(...net.arrivals)).toEqual(names(0, 25))
    expect(told(failed)).toEqual([[0, 'spool_failed']])
    expect(failed[0]?.error.message).toContain(file)
    expect(failed[0]?.error.message).toContain('Check that the directory can be written')
    expect((failed[0]?.error.cause as NodeJS.ErrnoException).code).toBe('ENOTDIR')
    rmSync(file)
    await pass(5_000)
    net.otherwise('hang')
    trackMany(analytics, 5, 25)
    expect((await restart(crash(file))).events).toEqual(names(25, 30))
  })

  test('loses messages on disk to close(), for those that are in memory only', async () => {
    const { failed, hooks } = listen()
    const file = join(temporary(), 'file')
    writeFileSync(file, '')
    const { analytics } = cutOff({ spool: { directory: file }, maxQueueBytes: 2_000, ...hooks })
    trackMany(analytics, 20)
    await analytics.close({ timeout: 0 })
    const kept = failed.find(({ error }) => error.code === 'close_timeout')?.messages.length ?? 0
    expect(kept).toBeGreaterThan(5)
    expect(told(failed)).toEqual(
      expect.arrayContaining([
        [0, 'spool_failed'],
        [20 - kept, 'queue_full'],
        [kept, 'close_timeout'],
      ]),
    )
    expect(analytics.stats()).toMatchObject({ accepted: 20, dropped: 20, pending: 0 })
  })

  test('costs no message that is on disk only, with drop-oldest', async () => {
    const net = scriptedFetch()
    const gate = heldFetch(net)
    const spool = { directory: temporary() }
    const analytics = createClient(net, { spool, maxQueueBytes: 100_000, overflow: 'drop-oldest' })
    for (const name of names(0, 300)) analytics.track(sized(3_000, 'x', name))
    await turns()
    const write = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
      throw new Error('ENOSPC: no space left on device')
    })
    const drops = names(300, 400).map((name) => {
      const { dropped } = analytics.stats()
      analytics.track(sized(3_000, 'x', name))
      return analytics.stats().dropped - dropped
    })
    write.mockRestore()
    expect(Math.max(...drops)).toBe(1)
    const { pending, dropped } = analytics.stats()
    expect(pending).toBeGreaterThan(300)
    gate.release()
    expect(await analytics.flush()).toEqual({ delivered: pending, failed: 0 })
    // What was in memory is dropped, the oldest first: what was on disk too, and then what was not.
    expect(events(...net.arrivals).slice(-30)).toEqual(names(370, 400))
    expect(analytics.stats()).toMatchObject({ dropped })
  })

  test('gets all that waits in memory once it works, in order, before new messages', async () => {
    const { file, net, analytics } = withoutDisk()
    trackMany(analytics, 10)
    await turns()
    trackMany(analytics, 15, 10)
    await turns()
    rmSync(file)
    await pass(5_000)
    expect((await restart(crash(file))).events).toEqual(names(0, 25))
    trackMany(analytics, 5, 25)
    expect((await restart(crash(file))).events).toEqual(names(0, 30))
    net.otherwise(200)
    await pass(60_000)
    expect(analytics.stats()).toMatchObject({ delivered: 30, pending: 0 })
    expect((await restart(crash(file))).events).toEqual([])
  })

  test('and works again with messages of a dead process gets all of both', async () => {
    const dead = cutOff()
    trackMany(dead.analytics, 10, 100)
    await turns()
    const { file, net, analytics } = withoutDisk()
    trackMany(analytics, 15)
    await turns()
    rmSync(file)
    cpSync(crash(dead.directory), file, { recursive: true })
    await pass(5_000)
    trackMany(analytics, 5, 15)
    const all = [...names(0, 20), ...names(100, 110)]
    const next = await restart(crash(file))
    expect(next.events.slice(0, 10)).toEqual(names(0, 10))
    expect(next.events.toSorted()).toEqual(all.toSorted())
    const before = net.arrivals.length
    net.otherwise(200)
    await pass(60_000)
    expect(events(...net.arrivals.slice(before)).toSorted()).toEqual(all.toSorted())
    expect(analytics.stats()).toMatchObject({ delivered: 30, pending: 0 })
    await analytics.close()
    expect(files(file)).toEqual([])
  })

  test('because its folder vanished is reported, and a new one made', async () => {
    const { failed, hooks } = listen()
    useFakeClock()
    const { analytics, net, directory } = cutOff(hooks)
    trackMany(analytics, 20)
    await turns()
    for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true })
    await pass(5_000)
    expect(told(failed)).toEqual([[0, 'spool_failed']])
    expect(failed[0]?.error.message).toContain('was removed')
    trackMany(analytics, 20, 20)
    expect((await restart(crash(directory))).events).toEqual(names(0, 40))
    net.otherwise(200)
    await pass(30_000)
    expect(events(...net.arrivals.slice(2))).toEqual(names(0, 40)) // the first request was ended, and the second hung
    expect(analytics.stats()).toMatchObject({ delivered: 40, pending: 0 })
  })

  test('because its folder vanished, as a call finds out, has earlier messages before those of that call', async () => {
    useFakeClock()
    const { analytics, directory } = cutOff()
    trackMany(analytics, 20)
    await turns()
    for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true })
    vi.setSystemTime(Date.now() - 1) // the clock was set back, so the last beat counts for nothing
    trackMany(analytics, 20, 20)
    await turns()
    expect((await restart(crash(directory))).events).toEqual(names(0, 40))
  })

  const removals: [string, (directory: string) => void][] = [
    [
      'all of it',
      (directory) => {
        rmSync(directory, { recursive: true })
      },
    ],
    [
      'all of its logs',
      (directory) => {
        for (const path of files(directory, '.log')) rmSync(path)
      },
    ],
    [
      'its first log',
      (directory) => {
        rmSync(files(directory, '.log')[0] ?? '')
      },
    ],
    [
      'its second log',
      (directory) => {
        rmSync(files(directory, '.log')[1] ?? '')
      },
    ],
    [
      'each of its logs (an empty one is there)',
      (directory) => {
        for (const path of files(directory, '.log')) {
          renameSync(path, `${path}.1`)
          writeFileSync(path, '')
        }
      },
    ],
  ]
  const cases = removals.flatMap(([what, remove]) =>
    [0, 12_000].flatMap((waitMs) =>
      [40_000, undefined].map((maxQueueBytes) => ({ what, remove, waitMs, maxQueueBytes })),
    ),
  )

  test.each(cases)(
    'because somebody removed $what, $waitMs ms before close(), loses what was only there ($maxQueueBytes bytes in memory), and says so',
    async ({ remove, waitMs, maxQueueBytes }) => {
      useFakeClock()
      const told = new Map<string, string>()
      const { failed, hooks } = listen()
      const directory = temporary()
      const spool = { directory, maxBytes: 1_048_576 }
      const net = scriptedFetch()
      net.otherwise(503)
      const analytics = createClient(net, { spool, maxQueueBytes, ...hooks })
      const properties = { note: 'x'.repeat(2_000) }
      for (let n = 0; n < 120; n++) {
        const event = `e${n}`
        analytics.track({ userId: 'u', event, properties }, (error) => {
          told.set(event, `${told.get(event) ?? ''}${error?.code ?? 'ok'}`)
        })
      }
      await turns()
      remove(directory)
      await pass(waitMs)
      // A program may end as soon as it is closed.
      const closed = analytics.close({ timeout: 0 }).then(({ delivered }) => ({
        ...{ delivered, toldByThen: failed.flatMap(({ messages }) => messages).length },
        calledByThen: told.size,
      }))
      await pass(1_000)
      const { delivered, toldByThen, calledByThen } = await closed
      const { dropped, pending } = analytics.stats()
      const next = await restart(directory)
      const withCode = (code: string) =>
        [...told].filter(([, its]) => its === code).map(([event]) => event)
      expect(next.events.toSorted()).toEqual(withCode('spooled').toSorted())
      expect({ delivered, dropped, pending }).toEqual({
        delivered: 0,
        dropped: withCode('spool_corrupt').length,
        pending: next.events.length,
      })
      expect(dropped + pending).toBe(120)
      if (maxQueueBytes === undefined) expect(dropped).toBe(0)
      expect(failed.flatMap(({ messages }) => messages)).toHaveLength(dropped)
      expect({ toldByThen, calledByThen }).toEqual({ toldByThen: dropped, calledByThen: 120 })
      expect(failed[0]?.error.message).toMatch(/removed|ENOENT|can't be read/)
      expect(next.failed).toEqual([])
    },
  )

  test('because somebody removed many messages that are nowhere else is told a batch in a turn of the event loop, before close() ends', async () => {
    const told = [0]
    const count = () => {
      if (told.push(0) < 1_000) setImmediate(count)
    }
    const { failed, hooks } = listen()
    const { analytics, directory } = cutOff({ maxQueueBytes: 1_000, ...hooks })
    for (const name of names(0, 8_000)) {
      analytics.track({ userId: 'u', event: name }, (error) => {
        if (error?.code === 'spool_corrupt') told.push((told.pop() ?? 0) + 1)
      })
    }
    rmSync(directory, { recursive: true })
    setImmediate(count)
    const { failed: lost } = await analytics.close({ timeout: 0 })
    expect(lost).toBeGreaterThan(7_900)
    expect(told.reduce((sum, some) => sum + some)).toBe(lost)
    expect(failed.flatMap(({ messages }) => messages)).toHaveLength(lost)
    expect(Math.max(...told)).toBeLessThanOrEqual(2_500)
  })

  const inEach = (directory: string, ending: string, act: (path: string) => void) => {
    for (const path of files(directory, ending)) act(path)
  }
  /** What happens, and how many messages come before it is noticed; undefined if it costs none and is not reported. */
  const harms: [string, number | undefined, (directory: string) => void][] = [
    [
      'the owner file is removed',
      undefined,
      (directory) => {
        inEach(directory, 'owner', rmSync)
      },
    ],
    [
      'the owner file is emptied',
      undefined,
      (directory) => {
        inEach(directory, 'owner', (path) => {
          writeFileSync(path, '')
        })
      },
    ],
    [
      'all files are removed',
      5,
      (directory) => {
        inEach(directory, '', rmSync)
      },
    ],
    [
      'all files are emptied',
      5,
      (directory) => {
        inEach(directory, '', (path) => {
          truncateSync(path)
        })
      },
    ],
    [
      'all files are cut',
      0,
      (directory) => {
        inEach(directory, '', (path) => {
          truncateSync(path, 30)
        })
      },
    ],
    [
      'the logs are removed',
      5,
      (directory) => {
        inEach(directory, '.log', rmSync)
      },
    ],
    [
      'a copy comes to the place of the directory',
      undefined,
      (directory) => {
        const copy = temporary()
        cpSync(directory, copy, { recursive: true, preserveTimestamps: true })
        rmSync(directory, { recursive: true })
        renameSync(copy, directory)
      },
    ],
  ]
  const moments = harms.flatMap(([what, added, harm]) =>
    (['delivered', 'closed', 'killed'] as const).map((end) => ({ what, added, harm, end })),
  )

  test.each(moments)(
    'while it lives ($what) costs no message that is in memory, and none arrives twice ($end)',
    async ({ added, harm, end }) => {
      useFakeClock()
      const { failed, outcomes, hooks, as } = listen()
      const net = scriptedFetch()
      net.otherwise(503)
      const directory = temporary()
      const analytics = createClient(net, { spool: { directory }, ...hooks })
      trackMany(analytics, 30, 0, as)
      await turns()
      const other = scriptedFetch()
      const watcher = createClient(other, { spool: { directory } })
      await pass(2_000)
      harm(directory)
      trackMany(analytics, added ?? 0, 30, as)
      await pass(40_000)
      expect(told(failed)).toEqual(added === undefined ? [] : [[0, 'spool_corrupt']])
      const all = names(0, 30 + (added ?? 0))
      await watcher.close()
      if (end === 'delivered') {
        const before = net.arrivals.length
        net.otherwise(200)
        await pass(60_000)
        expect(events(...net.arrivals.slice(before))).toEqual(all)
        expect(outcomes.filter(({ error }) => error)).toEqual([])
      } else if (end === 'closed') {
        const closed = analytics.close({ timeout: 0 })
        await pass(1_000)
        await closed
        expect(outcomes.map(({ error }) => error?.code)).toEqual(all.map(() => 'spooled'))
        expect((await restart(directory)).events).toEqual(all)
      } else {
        expect((await restart(crash(directory))).events).toEqual(all)
      }
      expect(events(...other.arrivals)).toEqual([])
    },
  )

  test('goes on with a copy that somebody has put in the place of a log', async () => {
    const { failed, hooks } = listen()
    useFakeClock()
    const { analytics, directory } = cutOff(hooks)
    trackMany(analytics, 20)
    await turns()
    const [path = ''] = files(directory, '.log')
    copyFileSync(path, `${path}.1`)
    renameSync(`${path}.1`, path)
    await pass(5_000)
    trackMany(analytics, 20, 20)
    const closed = analytics.close({ timeout: 0 })
    await pass(1_000)
    await closed
    expect(failed).toEqual([])
    expect((await restart(directory)).events).toEqual(names(0, 40))
  })

  test.each(['directory', 'home', 'own folder'])(
    'because a file is in the place of its %s is never said to have a message that it has not',
    async (what) => {
      useFakeClock()
      const codes = new Set<string | undefined>()
      const { failed, hooks } = listen()
      const { analytics, directory } = cutOff(hooks)
      for (let n = 0; n < 50; n++)
        analytics.track({ userId: 'u', event: 'e' }, (error) => codes.add(error?.code))
      await turns()
      const [owner = ''] = files(directory, 'owner')
      const own = dirname(owner)
      const place = what === 'directory' ? directory : what === 'home' ? dirname(own) : own
      rmSync(place, { recursive: true })
      writeFileSync(place, '')
      const closed = analytics.close({ timeout: 0 })
      await pass(1_000)
      await closed
      const kept = place === own ? 50 : 0 // there is room for another folder beside the file
      expect(analytics.stats()).toMatchObject({ dropped: 50 - kept, pending: kept })
      expect([...codes]).toEqual([kept > 0 ? 'spooled' : 'close_timeout'])
      expect(failed.flatMap(({ messages }) => messages)).toHaveLength(50 - kept)
      if (kept > 0) expect((await restart(directory)).events).toHaveLength(kept)
    },
  )

  test('for want of room keeps what it has, and goes on once there is room', async ({ skip }) => {
    const disk = smallDisk('size=1200k')
    if (!disk) return skip('no root: the full disk is left out')
    const { failed, hooks } = listen()
    useFakeClock()
    const { analytics, directory } = cutOff({ spool: { directory: disk }, ...hooks }, disk)
    const ballast = join(disk, 'ballast')
    writeFileSync(ballast, Buffer.alloc(1_000_000))
    trackMany(analytics, 3_000)
    await turns()
    expect(told(failed)).toEqual([[0, 'spool_failed']])
    expect(failed[0]?.error.message).toContain('ENOSPC')
    expect(analytics.stats()).toMatchObject({ dropped: 0, pending: 3_000 })
    const onDisk = await restart(crash(directory))
    expect(onDisk.events.length).toBeGreaterThan(100)
    expect(onDisk.events).toEqual(names(0, onDisk.events.length))
    expect(onDisk.failed).toEqual([])

    rmSync(ballast)
    await pass(5_000)
    trackMany(analytics, 100, 3_000)
    expect((await restart(crash(directory))).events).toEqual(names(0, 3_100))
  })

  test.runIf(process.platform === 'linux')(
    'in a folder that takes none (/proc) is like one that cannot be had: Node would try for ever',
    async () => {
      const { stdout, code } = await runScript(`
        const fetch = async () => new Response('{}')
        const onFailed = ({ error }) => console.log(error.code, error.cause.code)
        for (const directory of ['/proc/nope', '/proc/no/such/folder']) {
          const analytics = new Analytics('k', { fetch, spool: { directory }, onFailed })
          analytics.track({ userId: 'u', event: 'e' })
          console.log((await analytics.close()).delivered)
        }
      `)
      expect({ stdout, code }).toEqual({ stdout: 'spool_failed ENOENT\n1\n'.repeat(2), code: 0 })
    },
  )

  test('several levels below a folder that exists is made, and others cannot read it', async () => {
    const directory = join(temporary(), 'a', 'b', 'c')
    const { analytics } = cutOff({}, directory)
    trackMany(analytics, 1)
    expect(files(directory, '.log')).toHaveLength(1)
    expect(statSync(join(directory, '..')).mode & 0o077).toBe(0)
    await analytics.close({ timeout: 0 })
  })

  test.for(['.', 'two/levels'])(
    'for being read-only is like one that cannot be had (%s)',
    async (below, { skip }) => {
      const disk = smallDisk('ro')
      if (!disk) return skip('no root: the read-only disk is left out')
      const { failed, hooks } = listen()
      const net = scriptedFetch()
      const analytics = createClient(net, { spool: { directory: join(disk, below) }, ...hooks })
      trackMany(analytics, 25)
      expect(await analytics.close()).toEqual({ delivered: 25, failed: 0 })
      expect(told(failed)).toEqual([[0, 'spool_failed']])
      expect(failed[0]?.error.message).toContain('EROFS')
    },
  )
})

interface Body {
  batch: { event: string }[]
}

/** A message alone in its request may be overtaken once it has failed so often. */
const TRIES_BEFORE_OVERTAKEN = 3

describe('whatever happens', () => {
  test(
    'the books hold, order holds, and nothing that was on disk is lost',
    { tags: 'long' },
    async () => {
      const track = (count: number) => ({ act: 'track' as const, count })
      const fail = (times: number) => ({
        act: 'answer' as const,
        replies: Array<503>(times).fill(503),
      })
      const step = fc.oneof(
        fc.record({ act: fc.constant('track' as const), count: fc.integer({ min: 1, max: 60 }) }),
        fc.record({
          act: fc.constant('answer' as const),
          replies: fc.array(fc.constantFrom(200, 503, 'reset' as const), { maxLength: 3 }),
        }),
        fc.record({ act: fc.constantFrom('flush' as const, 'crash' as const, 'close' as const) }),
      )
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 25 }),
          fc.constantFrom(1, 7, 20),
          fc.constantFrom(500, 5_000, 1_000_000),
          async (steps, flushAt, maxQueueBytes) => {
            let directory = temporary()
            const accepted: string[] = []
            const mayBeOvertaken = new Set<string>()
            const dead: Analytics[] = []
            const start = (reply: FetchReply = 'hang') => {
              const net = scriptedFetch()
              net.otherwise(reply)
              const fetch: Fetch = async (url, init) => {
                const { batch } = JSON.parse(Buffer.from(init.body).toString()) as Body
                const sent = batch.map(({ event }) => event)
                const retries = Number(new Headers(init.headers).get('X-Retry-Count') ?? 0)
                const isAlone = sent.length === 1 && retries >= TRIES_BEFORE_OVERTAKEN
                for (const event of isAlone ? sent : []) mayBeOvertaken.add(event)
                const response = await net.fetch(url, init)
                if (response.status === 200 && !dead.includes(analytics)) accepted.push(...sent)
                return response
              }
              const options = { flushAt, maxQueueBytes, spool: { directory }, fetch }
              const analytics = new Analytics('k', options, AT_ONCE)
              return { net, analytics }
            }
            let { net, analytics } = start()
            const again = async (image: string, reply?: FetchReply) => {
              dead.push(analytics)
              directory = image
              ;({ net, analytics } = start(reply))
              await turns()
            }
            let made = 0
            for (const one of steps) {
              if (one.act === 'track') {
                trackMany(analytics, one.count, made)
                made += one.count
              } else if (one.act === 'answer') {
                net.script(...one.replies.map((r) => (r === 'reset' ? new Error('reset') : r)))
              } else if (one.act === 'flush') {
                void analytics.flush()
              } else {
                if (one.act === 'close') await analytics.close({ timeout: 0 })
                await again(one.act === 'close' ? directory : crash(directory))
              }
              await turns()
              expect(balanced(analytics.stats())).toBe(true)
            }
            await again(crash(directory), 200)
            await analytics.close({ timeout: 5_000 })
            expect(analytics.stats()).toMatchObject({ pending: 0, pendingBytes: 0, dropped: 0 })
            const first = [...new Set(accepted)]
            expect(first).toHaveLength(made)
            const inOrder = (event: string) => !mayBeOvertaken.has(event)
            if (flushAt > 1) expect(first.filter(inOrder)).toEqual(names(0, made).filter(inOrder))
            await Promise.all(dead.map((each) => each.close({ timeout: 0 })))
          },
        ),
        {
          numRuns: 40,
          examples: [[[fail(1), fail(3), { act: 'answer', replies: [200] }, track(7)], 7, 500]],
        },
      )
    },
  )
})
