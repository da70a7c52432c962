import { BUSY_MS } from './connection.js'
import type { Database } from './driver.js'

/** In bytes: how large a file may be to be rewritten. The copy is in memory, and other calls wait for it. */
const MAX_BYTES = 67_108_864

/**
 * Rewrites a file, so that it has no bytes but those of its rows, and empties its log. Of a file that is larger than
 * {@link MAX_BYTES} only the log is emptied.
 *
 * `secure_delete` overwrites a row where it is deleted. But when SQLite moves rows to another page, because their page is full
 * or nearly empty, it leaves their bytes in the part of the old page that is not used now. Only a new file has no such part.
 *
 * @param waitMs - How long it waits for a program that reads the file, such as a backup. Other calls wait meanwhile.
 * @returns `false` if another program still uses the log.
 */
export function rewrite(database: Database, waitMs: number, maxBytes = MAX_BYTES): boolean {
  database.exec(`PRAGMA busy_timeout = ${waitMs}`)
  try {
    if (bytesOf(database) <= maxBytes) {
      // A file for the copy would be in another folder, which may be read-only or on a disk without room.
      database.exec('PRAGMA temp_store = MEMORY')
      database.exec('VACUUM')
    }
    const { busy } = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number }
    return busy === 0
  } finally {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
  }
}

function bytesOf(database: Database): number {
  const { bytes } = database
    .prepare('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size')
    .get() as { bytes: number }
  return bytes
}
