import { hash, randomBytes } from 'node:crypto'
import type { Source } from '../settings/settings.js'

/** Tells whose a write key is: the source's name, or `undefined` if it is nobody's. */
export type Credentials = (writeKey: string) => string | undefined

/**
 * Write keys, looked up by their hash, so that the time of a look-up tells nothing of a key: who guesses can't
 * choose the hash that is compared, for the salt is this process's own.
 */
export function credentialsOf(sources: readonly Source[]): Credentials {
  const salt = randomBytes(32).toString('hex')
  const digest = (writeKey: string) => hash('sha256', salt + writeKey)
  const names = new Map(sources.map(({ name, writeKey }) => [digest(writeKey), name]))
  return (writeKey) => names.get(digest(writeKey))
}

/**
 * The write key in an `Authorization` header: the user of Basic (RFC 7617), whose colon some clients leave out.
 *
 * @returns `undefined` if there is no Basic in it: the key is in the body then.
 */
export function basicUser(authorization: string | undefined): string | undefined {
  const encoded = authorization === undefined ? null : /^Basic +(\S*)/i.exec(authorization)
  if (!encoded) return undefined
  const decoded = Buffer.from(encoded[1] ?? '', 'base64').toString()
  const colon = decoded.indexOf(':')
  return colon < 0 ? decoded : decoded.slice(0, colon)
}
