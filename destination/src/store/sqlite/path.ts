import { resolve } from 'node:path'
import { schemeOnly, withoutPassword } from '../../model/shown-url.js'
import { StoreError } from '../store-error.js'

/**
 * The path of the file that the URL of a store names.
 *
 * @throws StoreError `unsupported` if the URL names none.
 */
export function sqlitePath(url: string): string {
  const path = /^sqlite:(.+)$/s.exec(url)?.[1]
  if (path === ':memory:') {
    throw new StoreError(
      'unsupported',
      'store: sqlite::memory: would lose all accepted calls when the process stops. Name a file, ' +
        'such as sqlite:./data/hookline.db.',
    )
  }
  // In any other URL, `name` in sqlite://name is a host, so it is refused. sqlite:///path is an absolute path.
  if (!path || /^\/\/(?!\/)/.test(path)) {
    throw new StoreError(
      'unsupported',
      `store: expected sqlite: and a path, such as sqlite:./data/hookline.db, got ${shown(url)}.`,
    )
  }
  return resolve(path)
}

/** A wrong path is shown as it is. Any other text may have a password. */
function shown(url: string): string {
  return url.startsWith('sqlite:') ? JSON.stringify(withoutPassword(url)) : schemeOnly(url)
}
