import { fs as maybeFs, zlib } from '../runtime.js'

// The options refuse a spool where the runtime lacks one of these, so nothing here runs without them.
export const fs = maybeFs as NonNullable<typeof maybeFs>
export const crc32 = zlib?.crc32 as NonNullable<typeof zlib>['crc32']

/** Messages say who did what: nobody else on the machine needs to read them. */
export const PRIVATE_FILE = 0o600
export const PRIVATE_FOLDER = 0o700
