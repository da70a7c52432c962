import { randomBytes } from 'node:crypto'
import type { Fields } from '../model/fields.js'
import { HIDDEN } from '../model/hidden.js'
import type { Kind } from '../model/setting.js'

/** A field with one secret, or two during a rotation. */
export type SecretField = 'writeKey' | 'sharedSecret' | 'webhookSecret'

/** The fields of each kind with secrets. */
export const SECRET_FIELDS: Readonly<Record<Kind, readonly SecretField[]>> = {
  source: ['writeKey'],
  destination: ['sharedSecret', 'webhookSecret'],
  tenant: [],
}

/** Those that a new source or destination gets if none is given. */
export const GENERATED: readonly SecretField[] = ['writeKey', 'sharedSecret']

/** Settings, and the secrets in them that nobody else knows yet. */
export interface Completed {
  raw: Fields
  generated: Partial<Record<SecretField, string>>
}

/** Creates a secret. */
export function generate(field: SecretField): string {
  if (field === 'writeKey') return randomBytes(24).toString('base64url')
  const base64 = randomBytes(32).toString('base64')
  return field === 'webhookSecret'
    ? `whsec_${base64}`
    : Buffer.from(base64, 'base64').toString('hex')
}

/** The secrets in a field: none, one, or two during a rotation. */
export function secretsIn(raw: Fields, field: SecretField): string[] {
  const value = raw[field]
  if (value === undefined) return []
  return Array.isArray(value) ? (value as string[]) : [value as string]
}

/**
 * Completes settings that were given as a whole. Secrets that are not given stay as they are, because nobody can read and
 * give them again. Those of something new are generated. `null` stands for no secret, and `•••` for one that is kept, or
 * generated if there is none.
 */
export function withSecrets(kind: Kind, given: Fields, before: Fields | undefined): Completed {
  const raw = new Map(Object.entries(given))
  const generated: Completed['generated'] = {}
  for (const field of SECRET_FIELDS[kind]) {
    const value = raw.get(field)
    const isKept = !raw.has(field) || value === HIDDEN
    if (value === null) raw.delete(field)
    else if (isKept && before?.[field] !== undefined) raw.set(field, before[field])
    else if (value === HIDDEN || (isKept && !before && GENERATED.includes(field))) {
      generated[field] = generate(field)
      raw.set(field, generated[field])
    }
  }
  return { raw: Object.fromEntries(raw), generated }
}
