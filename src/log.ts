import debug from 'debug'

/** Where log lines and warnings go. `console` fits, and so do pino and winston. */
export interface Logger {
  /** Gets each line that `DEBUG=analytics` would show. */
  debug(line: string): void
  /** Gets the first loss of each kind, with its cause and its fix. */
  warn(line: string): void
}

/** Writes a line of the log: `%s`, `%d` and `%O` stand for the values. */
export type Log = (format: string, ...values: unknown[]) => void

/**
 * Logs what the client does when the environment has `DEBUG=analytics`. Source: spec "Endpoints", rule 6.
 *
 * Never give it a write key, and of a message no more than its type and id.
 */
export const log: Log & { readonly enabled: boolean } = debug('analytics')

/** The log of a client: `DEBUG=analytics`, and the application's logger if it gave one. */
export function createLog(logger: Logger | undefined): Log {
  if (!logger) return log
  return (format, ...values) => {
    log(format, ...values)
    let index = 0
    const line = format.replace(/%[sdO]/g, () => String(values[index++]))
    try {
      logger.debug(line)
    } catch (error) {
      log('logger.debug threw: %O', error)
    }
  }
}
