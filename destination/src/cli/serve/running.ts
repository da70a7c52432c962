import type { Settings } from '../../settings/settings.js'

/** A destination that runs, as far as the command needs it. */
export interface RunningDestination {
  /** Where the collector listens. */
  readonly url: string
  /** Where the operator's routes are. */
  readonly adminUrl?: string
  /** Replaces the settings. If that is not possible, it rejects, and the former settings stay. */
  reload(settings: Settings): Promise<void>
  /** Ends what is under way, and closes everything. */
  close(): Promise<void>
}
