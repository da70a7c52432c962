import { prepareAudience } from './audience.js'
import { prepareClaim, prepareDue } from './claim.js'
import { prepareClock } from './clock.js'
import type { Database, OpenDatabase } from './driver.js'
import { prepareCopy } from './copy.js'
import { prepareDeadCounts, prepareDeadGroups } from './dead-groups.js'
import { prepareDiscard } from './discard.js'
import { prepareFind } from './find.js'
import { prepareHistory } from './history.js'
import { Names } from './names.js'
import { FirstLeases } from './first-leases.js'
import { preparePurge } from './purge.js'
import { preparePut } from './put.js'
import { prepareRelease } from './release.js'
import { prepareRecords } from './records.js'
import { prepareReplay } from './replay.js'
import { migrate, MIGRATIONS, type Upgrade } from './schema.js'
import { prepareSettle } from './settle.js'
import type { Shared } from './shared.js'
import { prepareSweep } from './sweep.js'
import { StateCounts } from './state-counts.js'
import { prepareGet, prepareTrace } from './trace.js'

/** In KB: enough for the inner pages of all indexes and the newest other pages. The system's cache has the rest. */
const CACHE_KB = 32_768

/**
 * In pages (16 MB). When the log is longer, a round copies it into the file itself: on a nearly full disk the log must not
 * take the room that the file needs. Usually `checkpoint.ts` has kept the log shorter.
 */
const CHECKPOINT_PAGES = 4_000

/** In bytes. A log that has grown beyond this, for example during a backup, is cut back to this size. */
const WAL_BYTES = 67_108_864

/** In ms: how long a round waits while another program writes to the file. */
export const BUSY_MS = 5_000

/** An open database with all its statements prepared. */
export type Connection = ReturnType<typeof connect>

/** Opens the file and brings its tables up to date. */
export function connect(open: OpenDatabase, path: string, upgrading?: (upgrade: Upgrade) => void) {
  const database = open(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    migrate(database, path, MIGRATIONS, upgrading)
    database.exec('PRAGMA journal_mode = WAL')
    database.exec(`PRAGMA journal_size_limit = ${WAL_BYTES}`)
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    // Deleted rows, and pages that become free, are overwritten with zeros. `rewrite.ts` says what remains.
    database.exec('PRAGMA secure_delete = ON')
    database.exec(`PRAGMA cache_size = -${CACHE_KB}`)
    // On macOS, fsync alone leaves data in the drive's cache, which a power cut loses. Other systems ignore both.
    database.exec('PRAGMA fullfsync = ON')
    database.exec('PRAGMA checkpoint_fullfsync = ON')
    return prepare(database)
  } catch (error) {
    database.close()
    throw error
  }
}

function prepare(database: Database) {
  const last = database
    .prepare('SELECT max(up_to, coalesce((SELECT max(id) FROM deliveries), 0)) AS id FROM deleted')
    .get() as { id: number }
  const firstLeases = new FirstLeases(database)
  const ids = { next: Math.max(last.id + 1, firstLeases.savedFrom) }
  const shared: Shared = {
    database,
    names: new Names(database),
    counts: new StateCounts(database, firstLeases),
    firstLeases,
    ids,
  }
  const put = preparePut(shared)
  const ping = database.prepare('SELECT min(id) FROM deliveries')
  return {
    ...shared,
    begin: database.prepare('BEGIN IMMEDIATE'),
    commit: database.prepare('COMMIT'),
    checkpoint: database.prepare('PRAGMA wal_checkpoint(PASSIVE)'),
    clock: prepareClock(database),
    /** Runs the cheapest query that reads the file. */
    ping: (): void => {
      ping.get()
    },
    put,
    claim: prepareClaim(shared),
    due: prepareDue(shared),
    settle: prepareSettle(shared),
    release: prepareRelease(shared),
    sweep: prepareSweep(shared),
    trace: prepareTrace(shared),
    get: prepareGet(shared),
    ...prepareFind(shared),
    deadGroups: prepareDeadGroups(shared),
    deadCounts: prepareDeadCounts(shared),
    history: prepareHistory(shared),
    records: prepareRecords(shared),
    replay: prepareReplay(shared),
    copy: prepareCopy(shared),
    discard: prepareDiscard(shared),
    audience: prepareAudience(shared, put.one),
    user: preparePurge(shared),
  }
}
