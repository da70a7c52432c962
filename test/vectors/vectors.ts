import { readFileSync } from 'node:fs'

interface Vector {
  name: string
  secret: string
  body?: string
  bodyHex?: string
}

interface Vectors {
  accepted: (Vector & { signature: string })[]
  refused: (Vector & { signature: unknown })[]
}

/** The vectors that every implementation of the signature shares. */
export const vectors = JSON.parse(
  readFileSync(new URL('signature.json', import.meta.url), 'utf8'),
) as Vectors

/** The bytes of a vector's body. */
export const bytesOf = ({ body, bodyHex }: Vector): Buffer =>
  body === undefined ? Buffer.from(bodyHex ?? '', 'hex') : Buffer.from(body)
