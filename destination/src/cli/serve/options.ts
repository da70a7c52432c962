import { InvalidArgumentError } from 'commander'
import { LOG_LEVELS, type LogLevel } from '../../observe/log-level.js'
import type { Role } from '../../settings/role.js'

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
