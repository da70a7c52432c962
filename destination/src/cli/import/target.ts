import { createHash } from 'node:crypto'
import { CommandError, EXIT } from '../command.js'
import type { ImportOptions } from './options.js'
import type { Place } from './row.js'

/** Where an import sends its calls, in a form that can be saved and compared. It contains no secret. */
export interface Target {
  /** The URL of the collector. A query is hashed, because it may have a key. */
  collector: string
  /** A hash of the write key. */
  keyHash: string
}

/** @param endpoint - As it was found. The client has accepted it; `undefined` if the client finds it itself. */
export function targetOf({ key, endpoint }: { key: string; endpoint?: string }): Target {
  const url = new URL(endpoint ?? (process.env['ANALYTICS_ENDPOINT'] || DEFAULT_ENDPOINT))
  // What the client adds if there is no path. The URL has the host and the port in one spelling already.
  const path = url.pathname.replace(/\/+$/, '') || '/v1/batch'
  const query = url.search && `?${hashOf(url.search)}`
  return { collector: url.origin + path + query, keyHash: hashOf(key) }
}

/** The one of the client. */
const DEFAULT_ENDPOINT = 'http://127.0.0.1:3300'

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** What is saved of an earlier import. */
interface Earlier extends Pick<Place, 'line'> {
  accepted: number
  target?: Target
}

/**
 * Makes sure that an import which is continued sends the rest where the lines before it are.
 *
 * @throws CommandError if these lines went to another collector or source, which would lack them.
 */
export function requireSameTarget(
  file: string,
  target: Target,
  before: Earlier,
  options: ImportOptions,
): void {
  if (options.continue || before.accepted === 0) return
  const { target: earlier } = before
  if (!earlier) {
    console.error(
      'The progress was saved by an earlier version, which did not save the collector and the write key. If they were others, give ' +
        '--restart to send the whole file.',
    )
    return
  }
  const lines = `${file} was imported up to line ${before.line.toLocaleString('en-US')}`
  const apart = `--restart to send it the whole file, or --progress OTHER to also keep this progress.`
  if (earlier.collector !== target.collector) {
    const message =
      `${lines} to ${earlier.collector}, but this command sends to ${target.collector}. ` +
      `If this is another collector, give ${apart} If the same collector has a new address, give --continue to send the rest there.`
    throw new CommandError(EXIT.usage, message)
  }
  if (earlier.keyHash !== target.keyHash) {
    const message =
      `${lines} with another write key. ` +
      `If this is the key of another source, give ${apart} If the key of the same source was changed, give --continue to send the rest ` +
      'with the new key.'
    throw new CommandError(EXIT.usage, message)
  }
}
