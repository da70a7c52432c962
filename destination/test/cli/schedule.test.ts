import { expect, test } from 'vitest'
import { scheduleLines } from '../../src/cli/schedule.js'
import { run } from './process.js'

const at = (attempt: number, earliestMs: number, latestMs: number) => ({
  attempt,
  earliestMs,
  latestMs,
})

test('the schedule is a table with times in two units, and says which attempt is the last', () => {
  const attempts = [
    at(1, 0, 0),
    at(2, 2_000, 2_400),
    at(3, 59_990, 119_999),
    at(4, 3_599_999, 3_630_000),
    at(5, 13_320_000, 14_400_000),
  ]
  expect(scheduleLines(attempts)).toEqual([
    'attempt     earliest      latest',
    '      1          0 s         0 s',
    '      2          2 s       2.4 s',
    '      3        1 min       2 min',
    '      4          1 h   1 h 1 min',
    '      5   3 h 42 min         4 h   the last attempt: then it is a dead letter',
  ])
})

test('with a start, the schedule has times of day', () => {
  const lines = scheduleLines([at(1, 0, 0), at(2, 2_000, 2_400)], new Date('2026-01-01T23:59:59Z'))
  expect(lines[2]).toBe(
    '      2   2026-01-02T00:00:01Z   2026-01-02T00:00:01Z   the last attempt: then it is a dead letter',
  )
})

test('schedule --json --from prints the attempts with their dates', async () => {
  const { code, stdout } = await run(['schedule', '--json', '--from', '2026-01-01T00:00:00Z'])
  expect(code).toBe(0)
  expect((JSON.parse(stdout) as object[])[1]).toEqual({
    attempt: 2,
    earliestMs: 2_000,
    latestMs: 2_400,
    earliest: '2026-01-01T00:00:02.000Z',
    latest: '2026-01-01T00:00:02.400Z',
  })
})

test('a time without a zone is in UTC, whatever the zone of the machine is', async () => {
  const args = ['schedule', '--json', '--from', '2026-01-01T00:00']
  const { stdout } = await run(args, { env: { TZ: 'America/New_York' } })
  expect((JSON.parse(stdout) as object[])[0]).toMatchObject({
    earliest: '2026-01-01T00:00:00.000Z',
  })
})
