import { resolve } from 'node:path'
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
      `store: expected sqlite: and a path, such as sqlite:./data/hookline.db, got ${withoutSecrets(url)}.`,
    )
  }
  return resolve(path)
}

/** The URL without user and password, for error messages. */
function withoutSecrets(url: string): string {
  return JSON.stringify(url.replace(/\/\/[^/]*@/, '//…@'))
}
