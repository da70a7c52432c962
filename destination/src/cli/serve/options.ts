import { InvalidArgumentError } from 'commander'
import { LOG_LEVELS, type LogLevel } from '../../observe/log-level.js'
import type { Role } from '../../settings/role.js'
import { CommandError, EXIT } from '../command.js'

/** The options of the command line. */
export interface ServeOptions {
  config?: string
  check?: true
  init?: true
  json?: true
  logLevel?: LogLevel
  pretty?: boolean
  role: Role
}

/** @throws InvalidArgumentError if there is no such level. */
export function readLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === text.toLowerCase())
  if (level) return level
  throw new InvalidArgumentError(`Expected one of ${LOG_LEVELS.join(', ')}.`)
}

/**
 * The level of the log: that of the command line, or else that of the environment.
 *
 * @throws CommandError if the one of the environment is wrong.
 */
export function levelOf({ logLevel }: ServeOptions): LogLevel {
  const level = process.env['LOG_LEVEL']
  if (logLevel !== undefined || !level) return logLevel ?? 'info'
  try {
    return readLevel(level)
  } catch (error) {
    throw new CommandError(EXIT.usage, `LOG_LEVEL is wrong: ${(error as Error).message}`)
  }
}
