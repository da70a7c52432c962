import { fs, hasCode } from './node.js'

/** Windows only syncs what is open for writing. A folder can't be. */
const modeFor = (path: string) => (path.endsWith('.log') ? 'r+' : 'r')

/** Writes a file, or a folder's list of files, through to the disk. */
export function syncNow(path: string): void {
  const fd = fs.openSync(path, modeFor(path))
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** Writes a file, or a folder's list of files, through to the disk, unless it has been removed. */
export async function syncFile(path: string): Promise<void> {
  try {
    const file = await fs.promises.open(path, modeFor(path))
    await file.sync().finally(() => file.close())
  } catch (error) {
    // EPERM, EISDIR: Windows can't sync a folder.
    if (!hasCode(error, 'ENOENT', 'ENOTDIR', 'EPERM', 'EISDIR')) throw error
  }
}
