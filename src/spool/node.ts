import { fs as maybeFs, zlib } from '../runtime.js'

// The option `spool` throws where the runtime lacks one of these, so no code of this folder runs without them.
export const fs = maybeFs as NonNullable<typeof maybeFs>
export const crc32 = zlib?.crc32 as NonNullable<typeof zlib>['crc32']

/** Messages are personal data, so other users of the machine can't read the files. */
export const PRIVATE_FILE = 0o600
export const PRIVATE_FOLDER = 0o700

/**
 * What is at a path; undefined if there is nothing, also because a folder of the path is a file now.
 *
 * @throws if the disk does not tell: a disk that fails must not be mistaken for a file that was removed
 */
export function statOf(path: string): import('node:fs').Stats | undefined {
  try {
    return fs.statSync(path, { throwIfNoEntry: false })
  } catch (error) {
    if (hasCode(error, 'ENOTDIR')) return undefined
    throw error
  }
}

export const folderOf = (path: string) => path.slice(0, path.lastIndexOf('/'))

export const hasCode = (error: unknown, ...codes: string[]) =>
  codes.includes((error as NodeJS.ErrnoException).code ?? '')

/** Whether this user lacks a right. Somebody can give it: nothing is damaged. */
export const isDenied = (error: unknown) => hasCode(error, 'EACCES', 'EPERM')

/** Whether this process has too many files open. */
export const isShortage = (error: unknown) => hasCode(error, 'EMFILE', 'ENFILE')

/** Whether the disk, or a right, is at fault, and not the bytes. ENOENT and ENOTDIR mean that there is no file. */
export const isOfDisk = (error: unknown) =>
  /^E(?!RR_|NOENT$|NOTDIR$)/.test(String((error as NodeJS.ErrnoException).code))
