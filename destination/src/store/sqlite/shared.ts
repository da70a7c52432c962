import type { Database } from './driver.js'
import type { Names } from './names.js'
import type { FirstLeases } from './first-leases.js'
import type { StateCounts } from './state-counts.js'

/** The state of a connection that its statements share. */
export interface Shared {
  database: Database
  names: Names
  counts: StateCounts
  firstLeases: FirstLeases
  /** The id of the next delivery. */
  ids: { next: number }
}
