import { hash, randomBytes } from 'node:crypto'
import { eachInSlices } from '../model/slices.js'
import type { Source } from '../settings/settings.js'

/** Finds the name of the source that has a write key; `undefined` if no source has it. */
export type Credentials = (writeKey: string) => string | undefined

/**
 * Looks up write keys by their salted hash, so that the time of a look-up reveals nothing about a key. The salt is
 * random for each process, so that an attacker cannot choose the hash that is compared.
 */
export async function credentialsOf(sources: readonly Source[]): Promise<Credentials> {
  const salt = randomBytes(32).toString('hex')
  const digest = (writeKey: string) => hash('sha256', salt + writeKey)
  const names = new Map<string, string>()
  await eachInSlices(sources, ({ name, writeKey }) => names.set(digest(writeKey), name))
  return (writeKey) => names.get(digest(writeKey))
}

/**
 * Reads the write key from an `Authorization` header. The key is the user name of Basic authentication (RFC 7617). Some
 * clients leave out the colon after it.
 *
 * @returns `undefined` if the header is not Basic. The key is then expected in the body.
 */
export function basicUser(authorization: string | undefined): string | undefined {
  const encoded = authorization === undefined ? null : /^Basic +(\S*)/i.exec(authorization)
  if (!encoded) return undefined
  const decoded = Buffer.from(encoded[1] ?? '', 'base64').toString()
  const colon = decoded.indexOf(':')
  return colon < 0 ? decoded : decoded.slice(0, colon)
}
