import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import type { LogLevel } from '../../src/observe/log-level.js'
import { openLog, prettyLine } from '../../src/observe/log.js'
import { canMount } from '../can-run.js'

const execute = promisify(execFile)

/** What is written by a log of some level. */
async function written(level: LogLevel, pretty = false): Promise<string> {
  const to = join(mkdtempSync(join(tmpdir(), 'hookline-log-')), 'log')
  const { log, flush } = openLog({ level, pretty, colour: false, to })
  log.debug({ n: 1 }, 'of debugging')
  log.info({ n: 2 }, 'of the usual')
  log.warn({ n: 3 }, 'of a worry')
  log.error({ n: 4 }, 'of a failure')
  expect(await flush(20_000)).toBe(true)
  return readFileSync(to, 'utf8')
}

test.each([
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['error', ['error']],
  ['silent', []],
] as const)('the level %s lets %j through, in order', async (level, through) => {
  const lines = (await written(level)).split('\n').slice(0, -1)
  const levels = lines.map((line) => (JSON.parse(line) as { level: string }).level)
  expect(levels).toEqual(through)
})

test('a line of JSON has level, time and fields, and nothing of the machine', async () => {
  expect(JSON.parse(await written('error'))).toEqual({
    level: 'error',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
    n: 4,
    msg: 'of a failure',
  })
})

test('a pretty log has the same lines for people', async () => {
  expect(await written('warn', true)).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3} warn  of a worry n=3\n\d\d:\d\d:\d\d\.\d{3} error of a failure n=4\n$/,
  )
})

test('a pretty line quotes what has spaces or control characters', () => {
  const line = prettyLine(
    '{"level":"info","time":"2026-01-01T12:00:00.000Z","url":"http://a/?b=c","error":"no \\u001b[2J","list":["a b"],"msg":"attempt"}',
    false,
  )
  expect(line).toBe(
    '12:00:00.000 info  attempt url=http://a/?b=c error="no \\u001b[2J" list=["a b"]\n',
  )
})

const openFor = (to: number | string) =>
  openLog({ level: 'info', pretty: false, colour: false, to })

/** The numbers of lines, in their order. A line that is not whole is an error. */
const numbers = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { n: number }).n)

test.runIf(existsSync('/dev/full'))(
  'a log on a full disk lets the service go on, and end',
  async () => {
    const { log, flush, writeNow, abandon } = openFor('/dev/full')
    for (let i = 0; i < 100; i++) log.info({ text: 'x'.repeat(100) }, 'of many')
    expect(await flush(20_000)).toBe(false)
    log.info({}, 'after it')
    expect(await flush(20_000)).toBe(false)
    writeNow()
    await abandon()
    log.info({}, 'after the end')
    expect(await flush(20_000)).toBe(true)
  },
)

test.skipIf(!canMount())(
  'a log whose disk has room again gets the lines of the meantime, whole and in order',
  async () => {
    const disk = mkdtempSync(join(tmpdir(), 'hookline-log-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', disk])
    try {
      const file = join(disk, 'log')
      writeFileSync(join(disk, 'other'), Buffer.alloc(50_000))
      const { log, flush } = openFor(file)
      for (let n = 0; n < 300; n++) log.info({ n, text: 'x'.repeat(100) }, 'of many')
      expect(await flush(20_000)).toBe(false)
      expect(readFileSync(file).length).toBeGreaterThan(0)
      rmSync(join(disk, 'other'))
      log.info({ n: 300 }, 'the last one')
      expect(await flush(20_000)).toBe(true)
      expect(numbers(readFileSync(file, 'utf8'))).toEqual(Array.from({ length: 301 }, (_, n) => n))
    } finally {
      execFileSync('umount', ['-l', disk])
    }
  },
)

test.runIf(process.platform === 'linux')(
  'a reader of a pipe that has stopped holds up nobody, and gets all lines once it goes on',
  async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'hookline-log-')), 'pipe')
    execFileSync('mkfifo', [path])
    const { log, flush } = openFor(openSync(path, 'r+'))
    for (let n = 0; n < 2_000; n++) log.info({ n, text: 'x'.repeat(100) }, 'of many')
    expect(await flush(1)).toBe(false)
    const read = execute('head', ['-n', '2000', path])
    expect(await flush(20_000)).toBe(true)
    expect(numbers((await read).stdout)).toEqual(Array.from({ length: 2_000 }, (_, n) => n))
  },
)

test('the last lines are written when the process exits', async () => {
  const to = join(mkdtempSync(join(tmpdir(), 'hookline-log-')), 'log')
  const { log, flush, writeNow } = openFor(to)
  for (let n = 0; n < 3; n++) log.info({ n }, 'of many')
  writeNow()
  expect(numbers(readFileSync(to, 'utf8'))).toEqual([0, 1, 2])
  for (let n = 3; n < 1_000; n++) log.info({ n, text: 'x'.repeat(100) }, 'of many')
  writeNow() // while a thread writes the first of them
  expect(await flush(20_000)).toBe(true)
  const written = numbers(readFileSync(to, 'utf8')).sort((a, b) => a - b)
  expect(written).toEqual(Array.from({ length: 1_000 }, (_, n) => n))
})
