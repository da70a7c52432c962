import { InvalidArgumentError } from 'commander'
import { parseTime } from '../collect/timestamp.js'
import type { AddCommand } from './command.js'

/** The earliest and the latest time of an attempt, in ms after the first attempt. */
export interface PlannedAttempt {
  attempt: number
  earliestMs: number
  latestMs: number
}

interface ScheduleOptions {
  from?: Date
  json?: true
}

const EXAMPLES = `
Examples:
  $ hookline-destination schedule
  $ hookline-destination schedule --from 2026-11-21T14:00:00Z    # for a first attempt at this time
  $ hookline-destination schedule --json | jq .[-1]`

/** @param plannedAttempts - Gives all attempts of a message that no endpoint accepts, in order. */
export function addSchedule(plannedAttempts: () => PlannedAttempt[]): AddCommand {
  return (program) => {
    program
      .command('schedule')
      .description('print when a message that fails is tried again during its 4 hours')
      .option(
        '--from <iso>',
        'time of the first attempt (UTC, if it has no zone): prints dates and times',
        readDate,
      )
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action(({ from, json }: ScheduleOptions) => {
        const attempts = plannedAttempts()
        if (json)
          console.log(
            JSON.stringify(
              attempts.map((each) => withDates(each, from)),
              null,
              2,
            ),
          )
        else console.log(scheduleLines(attempts, from).join('\n'))
      })
  }
}

function readDate(text: string): Date {
  const at = parseTime(text)
  if (at !== undefined) return new Date(at)
  throw new InvalidArgumentError(
    'Expected a date and time in ISO 8601 that exist, such as 2026-11-21T14:00:00Z.',
  )
}

function withDates(attempt: PlannedAttempt, from: Date | undefined) {
  if (!from) return attempt
  const at = (ms: number) => new Date(from.getTime() + ms).toISOString()
  return { ...attempt, earliest: at(attempt.earliestMs), latest: at(attempt.latestMs) }
}

/**
 * Formats the schedule as a table.
 *
 * @param from - The time of the first attempt. With it the table has dates; without it, durations since that attempt.
 */
export function scheduleLines(attempts: readonly PlannedAttempt[], from?: Date): string[] {
  const say = from
    ? (ms: number) => new Date(from.getTime() + ms).toISOString().slice(0, 19) + 'Z'
    : formatMs
  const rows = attempts.map(({ attempt, earliestMs, latestMs }, index) => [
    String(attempt),
    say(earliestMs),
    say(latestMs),
    index === attempts.length - 1 ? 'the last attempt: then it is a dead letter' : '',
  ])
  const table = [['attempt', 'earliest', 'latest', ''], ...rows]
  const widths = [0, 1, 2].map((column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  )
  return table.map((row) =>
    row
      .map((cell, column) => (column < 3 ? cell.padStart(widths[column] ?? 0) : cell))
      .join('   ')
      .trimEnd(),
  )
}

/** Formats a duration in its two largest units: `2.4 s`, `1 min 20 s`, `3 h 42 min`. */
function formatMs(ms: number): string {
  const seconds = Math.round(ms / 100) / 10
  if (seconds < 60) return `${seconds} s`
  const [large, small, size, perUnit] =
    seconds < 3_600 ? (['min', 's', 60, 1] as const) : (['h', 'min', 60, 60] as const)
  const units = Math.round(seconds / perUnit)
  const rest = units % size
  return `${Math.floor(units / size)} ${large}${rest === 0 ? '' : ` ${rest} ${small}`}`
}
