import debug from 'debug'
import { messageOf } from './describe.js'
import { HooklineError } from './hookline-error.js'

/** Where log lines and warnings go. `console` fits, and so do pino and winston. */
export interface Logger {
  /** Gets each line that `DEBUG=analytics` would show. */
  debug(line: string): void
  /** Gets the first loss of each kind, with its cause and its fix. */
  warn(line: string): void
}

/** A method of the application's logger, which may give a promise: that must be guarded, too. */
export type Guarded<Name extends keyof Logger> = Record<Name, (line: string) => unknown>

/** Writes a line of the log: `%s`, `%d` and `%O` stand for the values. */
export type Log = (format: string, ...values: unknown[]) => void

const write = debug('analytics')

/**
 * Logs what the client does when the environment has `DEBUG=analytics`. Source: spec "Endpoints", rule 6.
 *
 * It never throws. `debug` inspects the values, which runs code of the application, and writes to a stream that may be
 * closed. Values that cannot be inspected are described.
 *
 * Never give it a write key, and of a message no more than its type and id.
 */
export const log: Log = (format, ...values) => {
  try {
    write(format, ...values)
  } catch {
    try {
      write(format, ...values.map(show))
    } catch {
      // The log is for people: the client goes on without it.
    }
  }
}

/** Whether `DEBUG=analytics` is set. The application may have given `debug` a function that gets the lines. */
export const isDebugging = (): boolean => write.enabled

/** Runs a function of the application: what it throws, or rejects with, is logged and goes no further. */
export function guard<Arguments extends unknown[]>(
  write: Log,
  name: string,
  act: (...args: Arguments) => unknown,
  ...args: Arguments
): void {
  const onError = (error: unknown) => {
    // An error of ours that is thrown on may repeat what a server said.
    write('%s threw: %O', name, error instanceof HooklineError ? error.code : error)
  }
  try {
    const result = act(...args)
    // Perhaps a promise, of whatever realm.
    if (typeof result === 'object' && result !== null) Promise.resolve(result).catch(onError)
  } catch (error) {
    onError(error)
  }
}

function show(value: unknown): string {
  return typeof value === 'string' ? value : messageOf(value)
}

/** The log of a client: `DEBUG=analytics`, and the application's logger if it gave one. */
export function createLog(logger: Guarded<'debug'> | undefined): Log {
  if (!logger) return log
  return (format, ...values) => {
    log(format, ...values)
    let index = 0
    guard(log, 'logger.debug', () =>
      logger.debug(format.replace(/%[sdO]/g, () => show(values[index++]))),
    )
  }
}
