import { setTimeout as wait } from 'node:timers/promises'
import { styleText } from 'node:util'
import pino from 'pino'
import type { LogLevel } from './log-level.js'
import { LogWriter } from './log-writer.js'
import { printable } from './printable.js'

/** The service's log. A line has fields for programs and a message for people. It never contains a secret or a body. */
export interface Log {
  /** Details for debugging. */
  debug(fields: object, message: string): void
  /** Normal operation. */
  info(fields: object, message: string): void
  /** Something failed and is tried again, or was refused. */
  warn(fields: object, message: string): void
  /** Something failed, and an operator should look at it. */
  error(fields: object, message: string): void
}

/** The options of a log. */
export interface LogOptions {
  level: LogLevel
  /** Writes lines for people instead of JSON. */
  pretty: boolean
  colour: boolean
  /**
   * A file descriptor (1 is the standard output, 2 the standard error) or the path of a file.
   *
   * @defaultValue 1
   */
  to?: number | string
}

/** In characters. Lines are collected up to this length, because one write per line would be the largest cost of a line. */
const CHUNK_LENGTH = 16_000

/** In ms. Lines are written after this time even if there are few. */
const COLLECT_MS = 250

/** A log, and how to end it. */
export interface OpenLog {
  log: Log
  /**
   * Waits until all lines are written or can't be, such as on a full disk, but no longer than a time in ms.
   *
   * @returns whether all lines are written.
   */
  flush: (withinMs: number) => Promise<boolean>
  /** Writes the lines that it can, without waiting for a reader. It is for the `exit` event of the process. */
  writeNow: () => void
  /**
   * Gives up the lines that are not written, so that the process can exit although the reader of the log has stopped or its
   * disk is full. If the system does not end a write, such as to a network drive that does not answer, this kills the
   * process: it could not exit.
   */
  abandon: () => Promise<void>
}

/** Opens a log. A log that can't be written never stops the service. */
export function openLog({ level, pretty, colour, to = 1 }: LogOptions): OpenLog {
  const writer = new LogWriter(to)
  const lines = new Lines((chunk) => {
    writer.write(chunk)
  })
  const prettyLines = {
    write: (line: string) => {
      lines.write(prettyLine(line, colour))
    },
  }
  const log: Log = pino(
    {
      level,
      base: null, // no process id and no host name: the supervisor adds them
      timestamp,
      formatters: { level: (label) => ({ level: label }) },
    },
    pretty ? prettyLines : lines,
  )
  const flush = (withinMs: number) => {
    lines.flush()
    return Promise.race([writer.flush(), wait(withinMs, false)])
  }
  const writeNow = () => {
    writer.writeNow(lines.take())
  }
  const abandon = async () => {
    if (!(await writer.abandon())) process.kill(process.pid, 'SIGKILL')
  }
  return { log, flush, writeNow, abandon }
}

/**
 * Collects lines into chunks. pino's own buffer measures everything that it holds at each line, which took as long as all
 * other work on a line.
 */
class Lines {
  readonly #writeChunk: (chunk: string) => void
  #lines: string[] = []
  #length = 0
  #timer: NodeJS.Timeout | undefined

  constructor(writeChunk: (chunk: string) => void) {
    this.#writeChunk = writeChunk
  }

  write(line: string): void {
    this.#lines.push(line)
    this.#length += line.length
    if (this.#length >= CHUNK_LENGTH) this.flush()
    else
      this.#timer ??= setTimeout(() => {
        this.flush()
      }, COLLECT_MS).unref()
  }

  flush(): void {
    const chunk = this.take()
    if (chunk !== '') this.#writeChunk(chunk)
  }

  /** Returns the collected lines, which the caller writes. */
  take(): string {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const chunk = this.#lines.join('')
    this.#lines = []
    this.#length = 0
    return chunk
  }
}

let timeMs = 0
let timeField = ''

/** The time field of a line. It is cached per millisecond, because formatting the time is the largest cost of a line. */
function timestamp(): string {
  const now = Date.now()
  if (now !== timeMs) {
    timeMs = now
    timeField = `,"time":"${new Date(now).toISOString()}"`
  }
  return timeField
}

const COLOURS = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const

/** Turns a line of JSON into a line for people: `12:00:00.000 info  listening url=http://127.0.0.1:3300`. */
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
