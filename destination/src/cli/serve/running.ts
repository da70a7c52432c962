import type { Log } from '../../observe/log.js'
import type { Role } from '../../settings/role.js'
import type { Settings } from '../../settings/settings.js'

/** The part of a running destination that the command needs. */
export interface RunningDestination {
  /** The URL of the collector. */
  readonly url: string
  /** The URL of the admin API. */
  readonly adminUrl?: string
  /** Replaces the settings. If that is not possible, it rejects, and the old settings stay in use. */
  reload(settings: Settings): Promise<void>
  /** Lets requests under way finish, and closes everything. */
  close(): Promise<void>
}

/** Starts a destination. `signal` ends the waiting for a store that can't be reached. */
export type StartDestination = (
  settings: Settings,
  log: Log,
  role: Role,
  signal: AbortSignal,
) => Promise<RunningDestination>
