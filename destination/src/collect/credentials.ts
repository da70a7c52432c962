import { hash, randomBytes } from 'node:crypto'
import { writeKeysOf } from '../model/secrets.js'
import { eachInSlices } from '../model/slices.js'
import type { Source } from '../settings/settings.js'

/** Finds the name of the source that has a write key; `undefined` if no source has it. */
export type Credentials = (writeKey: string) => string | undefined

/**
 * Makes {@link Credentials} for one version of the sources after the other. Write keys are looked up by their salted hash, so
 * that the time of a look-up reveals nothing about a key. The salt is random for each process, so that an attacker cannot
 * choose the hash that is compared.
 */
export function createCredentials(): (sources: readonly Source[]) => Promise<Credentials> {
  const salt = randomBytes(32).toString('hex')
  const digest = (writeKey: string) => hash('sha256', salt + writeKey)
  // Hashing the keys of thousands of sources again, because one of them has changed, would hold up other requests.
  const known = new WeakMap<Source, string[]>()
  const digestsOf = (source: Source): string[] => {
    const digests = known.get(source) ?? writeKeysOf(source).map(digest)
    known.set(source, digests)
    return digests
  }
  return async (sources) => {
    const names = new Map<string, string>()
    await eachInSlices(sources, (source) => {
      for (const one of digestsOf(source)) names.set(one, source.name)
    })
    return (writeKey) => names.get(digest(writeKey))
  }
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
