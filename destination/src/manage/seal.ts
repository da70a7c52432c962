import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import type { RecordKey } from '../store/store.js'

/** AES-256-GCM with the nonce of 96 bits that NIST SP 800-38D recommends. Its random value is new for each record. */
const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12

/** In bytes. A shorter tag would be easier to forge. */
const TAG_BYTES = 16

/** The form of a sealed text, so that a later version can change it: version, id of the key, nonce, data with the tag. */
const FORM = /^1\.([0-9a-f]{8})\.([\w-]+)\.([\w-]+)$/

/** Encrypts the settings that are kept in the store. */
export interface Sealer {
  /** Encrypts a text with the first key. Only a record of the same kind and name can be opened with the result. */
  seal(key: RecordKey, text: string): string
  /** @throws Error if no key fits, or if the text was changed or belongs to another record. The message says what to do. */
  open(key: RecordKey, sealed: string): string
  /** The id of the first key. */
  readonly keyId: string
  /** Whether one of the keys has this id. */
  has(keyId: string): boolean
}

/** @param keys - At least one key of 32 bytes in base64. The first one encrypts, and all of them decrypt. */
export function createSealer(keys: readonly string[]): Sealer {
  const known = new Map(keys.map((key) => [idOf(key), Buffer.from(key, 'base64')]))
  const [first] = known
  if (!first) throw new TypeError('expected at least one key')
  const [currentId, currentKey] = first
  return {
    seal: (key, text) => {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, currentKey, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(boundTo(key))
      const data = Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()])
      return `1.${currentId}.${nonce.toString('base64url')}.${data.toString('base64url')}`
    },
    open: (key, sealed) => {
      const [, id = '', nonce = '', data = ''] = FORM.exec(sealed) ?? []
      const secret = known.get(id)
      if (!secret)
        throw new Error(
          `no key in "settingsKey" decrypts it. Add the key that it was encrypted with.`,
        )
      const bytes = Buffer.from(data, 'base64url')
      const end = bytes.length - TAG_BYTES
      try {
        const decipher = createDecipheriv(CIPHER, secret, Buffer.from(nonce, 'base64url'), {
          authTagLength: TAG_BYTES,
        })
        decipher.setAAD(boundTo(key))
        decipher.setAuthTag(bytes.subarray(end))
        return Buffer.concat([decipher.update(bytes.subarray(0, end)), decipher.final()]).toString()
      } catch (cause) {
        throw new Error(
          'it was changed in the store, or belongs to another record. Create it again.',
          {
            cause,
          },
        )
      }
    },
    keyId: currentId,
    has: (keyId) => known.has(keyId),
  }
}

/** The id of the key that a text was sealed with. */
export function keyIdOf(sealed: string): string {
  return FORM.exec(sealed)?.[1] ?? ''
}

/** Tells the keys apart. It reveals nothing about a random key. */
function idOf(key: string): string {
  return createHash('sha256').update(`hookline settings key ${key}`).digest('hex').slice(0, 8)
}

/** Names have no NUL, so that two different records never have the same bytes. */
function boundTo({ kind, name }: RecordKey): Buffer {
  return Buffer.from(`${kind}\0${name}`)
}
