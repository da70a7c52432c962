import { messageOf } from '../describe.js'
import { SpoolError } from '../errors.js'
import type { Log } from '../log.js'
import { crc32, fs, hasCode, isDenied, PRIVATE_FILE } from './node.js'
import type { Loaded } from './segment.js'

/** Keeps damaged bytes for people to look at. The same bytes make the same file. */
export function quarantine(
  home: string,
  bytes: Uint8Array | undefined,
  log: Log,
): string | undefined {
  if (!bytes?.length) return undefined
  const path = `${home}/${crc32(bytes).toString(16)}-${bytes.length}.corrupt`
  try {
    fs.writeFileSync(path, bytes, { mode: PRIVATE_FILE })
    return path
  } catch (error) {
    log('spool: no quarantine: %s', error)
    return undefined
  }
}

/**
 * Keeps a file that can't be read: it would be removed, since all its messages have an outcome now. Gives nothing if the file
 * stays: its messages are not lost, since the next start may be able to read it.
 */
export function setAside(home: string, path: string): string | undefined {
  const kept = `${home}/${path.split('/').slice(-2).join('-')}.corrupt`
  try {
    fs.renameSync(path, kept)
    return kept
  } catch (error) {
    return hasCode(error, 'ENOENT', 'ENOTDIR') ? '' : undefined // empty: it was removed
  }
}

export function unreadable(
  path: string,
  count: number,
  kept: string | undefined,
  cause?: unknown,
): SpoolError {
  const why = cause === undefined ? 'damaged' : messageOf(cause)
  const where = kept ? ` The bytes are in ${kept}.` : ''
  const message = `${count} messages in ${path} can't be read: ${why}.${where}`
  return new SpoolError('spool_corrupt', message, { cause })
}

/** What is wrong with a file that another process left; `kept` has the bytes after its last message. */
export function faultsOf(
  from: string,
  { segment, torn, isCut, isPlaceLost }: Loaded,
  kept: string | undefined,
): SpoolError[] {
  const messages: string[] = []
  if (kept) {
    messages.push(
      `The last ${torn.length} bytes of a file of the spool are no complete message: see ${kept}.`,
    )
  } else if (isCut) {
    messages.push(`${from} lost its end, and an unknown number of messages with it.`)
  }
  if (isPlaceLost) {
    messages.push(
      `The first bytes of ${segment.path} are damaged: messages in it that were delivered arrive twice.`,
    )
  }
  return messages.map((message) => new SpoolError('spool_corrupt', message))
}

/** The messages in a folder stay there for now. */
export function blocked(folder: string, cause: unknown): SpoolError {
  const advice = isDenied(cause)
    ? 'Run as that user, or use chown -R and chmod -R u+rwX.'
    : 'Check the disk: it is asked again every few seconds.'
  const message = `Messages in ${folder} of user ${uidOf(folder)} wait: ${messageOf(cause)}. ${advice}`
  return new SpoolError('spool_failed', message, { cause })
}

/** Who owns a folder; unknown if what is above it is denied, too. */
function uidOf(folder: string): number | undefined {
  try {
    return fs.statSync(folder).uid
  } catch {
    return undefined
  }
}
