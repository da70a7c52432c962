import { fs as maybeFs, zlib } from '../runtime.js'

// The option `spool` throws where the runtime lacks one of these, so no code of this folder runs without them.
export const fs = maybeFs as NonNullable<typeof maybeFs>
export const crc32 = zlib?.crc32 as NonNullable<typeof zlib>['crc32']

/** Messages are personal data, so other users of the machine can't read the files. */
export const PRIVATE_FILE = 0o600
export const PRIVATE_FOLDER = 0o700
