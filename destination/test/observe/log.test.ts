import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { LogLevel } from '../../src/observe/log-level.js'
import { openLog, prettyLine } from '../../src/observe/log.js'

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

test.runIf(existsSync('/dev/full'))('a log on a full disk lets the service go on', async () => {
  const { log, flush } = openLog({ level: 'info', pretty: false, colour: false, to: '/dev/full' })
  for (let i = 0; i < 100; i++) log.info({ text: 'x'.repeat(100) }, 'of many')
  expect(await flush(20_000)).toBe(true)
  log.info({}, 'after it')
  expect(await flush(20_000)).toBe(true)
})
