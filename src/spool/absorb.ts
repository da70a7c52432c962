import type { Log } from '../log.js'
import { FOREIGN, isForeign, removeFolder, type Claim } from './lease.js'
import { fs, isOfDisk, isShortage } from './node.js'

/**
 * Takes all files out of a folder that was taken over, the oldest first, and removes it.
 *
 * @param take - moves a file
 * @throws what the disk said last of the files that it does not give, after it has moved all others
 */
export function absorb(
  { folder, isDead }: Claim,
  take: (path: string, isDead: boolean) => void,
  home: string,
  log: Log,
): void {
  const entries = fs.readdirSync(folder, { withFileTypes: true })
  // Not a link: what it leads to is not the spool's to write.
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.log'))
  const names = files.map(({ name }) => name)
  let failure: Error | undefined
  for (const name of names.sort()) {
    try {
      take(`${folder}/${name}`, isDead)
    } catch (cause) {
      if (isShortage(cause) || !isOfDisk(cause)) throw cause
      failure = cause as Error
    }
  }
  // A process that died while it absorbed others left their folders. Their messages come after its own files.
  // Nobody knows whether their holders are dead, too.
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  for (const name of folders.sort()) {
    absorb({ folder: `${folder}/${name}`, isDead: false }, take, home, log)
  }
  if (failure) throw failure
  if (!removeFolder(folder, log)) setForeignAside(folder, home, log)
}

/** Moves a folder with foreign files out of the way. Else each takeover would move it a level deeper, until its path is too long. */
function setForeignAside(folder: string, home: string, log: Log): void {
  const kept = `${home}/${folder.slice(folder.lastIndexOf('/') + 1)}${FOREIGN}`
  try {
    if (isForeign(folder)) fs.renameSync(folder, kept)
  } catch (error) {
    log('spool: %s stays: %s', folder, error)
  }
}
