import { styleText } from 'node:util'
import pino from 'pino'
import { printable } from './printable.js'

/** Where the service says what it does: fields for programs, a message for people. Never a secret, never a body. */
export interface Log {
  /** For whoever looks for a fault. */
  debug(fields: object, message: string): void
  /** What happens as it should. */
  info(fields: object, message: string): void
  /** What failed and is tried again, or was refused. */
  warn(fields: object, message: string): void
  /** What needs somebody. */
  error(fields: object, message: string): void
}

/** The least that is logged. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** How to log. */
export interface LogOptions {
  level: LogLevel
  /** Lines for people in place of JSON. */
  pretty: boolean
  colour: boolean
  /** Where to: 1 for the standard output, 2 for the standard error, or a file. */
  to?: number | string
}

/** Lines wait for each other until so many characters are there: a write for each costs more than all else. */
const BUFFER_LENGTH = 4_096

/** And they wait no longer than this, in ms. */
const FLUSH_MS = 250

/** Lines beyond so many characters are dropped: whoever reads the log has stopped. */
const MAX_LENGTH = 64 * 1024 * 1024

/** Opens a log. `flush` waits until all of it is written. That it can't be written never stops the service. */
export function openLog({ level, pretty, colour, to = 1 }: LogOptions) {
  const destination = pino.destination({
    dest: to,
    sync: false,
    minLength: BUFFER_LENGTH,
    maxLength: MAX_LENGTH,
    periodicFlush: FLUSH_MS,
  })
  destination.on('error', () => undefined) // a full disk, or a reader that is gone: it is tried again
  const lines = {
    write: (line: string) => {
      destination.write(prettyLine(line, colour))
    },
  }
  const log: Log = pino(
    {
      level,
      base: null, // the process and the host are the supervisor's to know
      timestamp,
      formatters: { level: (label) => ({ level: label }) },
    },
    pretty ? lines : destination,
  )
  const flush = () =>
    new Promise<void>((resolve) => {
      destination.flush(() => {
        resolve()
      })
    })
  return { log, flush }
}

let timeMs = 0
let timeField = ''

/** The time for a line. Many lines share a millisecond, and to print one costs more than all else in a line. */
function timestamp(): string {
  const now = Date.now()
  if (now !== timeMs) {
    timeMs = now
    timeField = `,"time":"${new Date(now).toISOString()}"`
  }
  return timeField
}

const COLOURS = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const

/** One line of JSON as people read it: `12:00:00.000 info  listening  url=http://127.0.0.1:3300`. */
export function prettyLine(json: string, colour: boolean): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Record<string, unknown> & {
    level: keyof typeof COLOURS
    time: string
    msg: string
  }
  const paint = (style: Parameters<typeof styleText>[0], text: string) =>
    colour ? styleText(style, text) : text
  const details = Object.entries(fields).map(([name, value]) => {
    const isPlain = typeof value === 'string' && /^[!-~]+$/.test(value)
    return paint('gray', `${name}=`) + (isPlain ? value : printable(JSON.stringify(value)))
  })
  const clock = paint('gray', time.slice(11, 23))
  return `${[clock, paint(COLOURS[level], level.padEnd(5)), msg, ...details].join(' ')}\n`
}
