import { drainAtExit, noDrainAtExit } from '../exit.js'
import type { Log } from '../log.js'
import { crypto, encoder, getBuiltin, nowMs } from '../runtime.js'
import { fs, hasCode, isDenied, PRIVATE_FILE, PRIVATE_FOLDER, statOf } from './node.js'
import { FREE, isKnownDead, readBeat, self, startOf, type Beat } from './owner.js'

/** How often a holder beats, and how often it looks at the others. */
export const BEAT_MS = 5_000

/** How long a holder may rely on its last beat: well below the time after which others take over. */
const FRESH_MS = 2 * BEAT_MS

/**
 * A holder is dead after so many looks in a row without a new beat. Looks are counted, not time: when a thread
 * or a machine stood still, all its clients wake up together, and each of them can beat before the next look.
 */
const TAKEOVER_LOOKS = 6

/** Enough for a folder and its owner file, in blocks of a file system. */
const FOLDER_BYTES = 8_192

const RESERVE_BYTES = 4 * FOLDER_BYTES

/** As POSIX has it. */
const READ_AND_WRITE = 6

/** The ending of a folder that no client holds, and that has files that the spool did not make. */
export const FOREIGN = '.foreign'

/** A reserve, and how many bytes it is to have. */
interface Smaller {
  readonly path: string
  readonly bytes: number
}

/** The beat of a folder, and how long it was watched without another one, in looks. */
interface Watched {
  readonly beatMs: number
  readonly looks: number
  /** When the last of these looks was, on the clock of `nowMs()`. */
  readonly seenMs: number
}

/** A folder whose holder is dead. */
interface Dead {
  readonly name: string
  readonly folder: string
  readonly owner: Beat | undefined
  /** Whether that is certain. */
  readonly isDead: boolean
}

/** A folder that was taken over, and is inside the new holder's folder now. */
export interface Claim {
  readonly folder: string
  /** Its former holder cannot write to it any more. If false, that holder may only have stood still. */
  readonly isDead: boolean
}

/**
 * Holds a folder of its own, and takes over the folders of dead holders.
 *
 * Node has no lock that the kernel releases when a process dies. So each client writes only in its own folder,
 * and a takeover moves the whole folder into the new holder's folder: of several renames, exactly one succeeds.
 *
 * A holder is dead if the kernel says so, see {@link isKnownDead}. It is also taken for dead if its beat, the
 * modification time of its owner file, has not changed for 30 s. That covers a thread that was terminated, another
 * container, another host and a reboot. The watcher only compares beats with each other, so no clock has to be
 * right. Other users have no right to the owner file, so each beat sets the time of the folder, too.
 *
 * Many processes live shorter than that. So each one writes beside a beat for how long it was watched, and the next one begins there. It
 * adds only what it has watched itself, so the sum is never more than the time for which the beat stood still, also if several watch.
 * A holder that lives removes what others wrote: if its clock is set back, a beat may come again.
 *
 * A holder that merely stood still for 30 s must not go on as if nothing had happened. It relies on its last beat
 * for 10 s, and then has to {@link Lease.renew | renew} before it writes or sends anything. A watcher may take the
 * folder at the very moment in which the holder wakes up. Each side therefore acts first and looks second: the
 * holder beats and then looks for its owner file, the watcher renames the owner file and then looks for a new
 * beat. At least one of them sees the other and gives up.
 *
 * A takeover leaves a trace. An owner file that was removed, emptied or replaced without one is written again: the folder, and what
 * is in it, stays with its holder.
 */
export class Lease {
  readonly folder: string
  readonly #home: string
  readonly #log: Log
  readonly #owner: Uint8Array
  #fd: number
  readonly #self = self()
  #watched = new Map<string, Watched>()
  #renewedMs = nowMs()
  #renewedAtMs = Date.now()

  /** @param home - the folder that holds one folder for each client; it is made if need be */
  constructor(home: string, log: Log) {
    this.#log = log
    makeFolder(home)
    this.#home = fs.realpathSync(home)
    // The name starts with the time, so that the oldest folder sorts first.
    this.folder = `${this.#home}/${Date.now().toString(36)}-${crypto.randomUUID()}`
    // In bytes: a host name may be in any script. Not read from the file, which may be taken before it is open.
    this.#owner = encoder.encode(JSON.stringify(this.#self))
    this.#fd = this.#createInAnyRoom()
    drainAtExit(this.#noteWatched)
  }

  #createInAnyRoom(): number {
    let reserves: Smaller[] | undefined
    for (;;) {
      try {
        return this.#create()
      } catch (error) {
        if (!isDiskFull(error)) throw error
        reserves ??= this.#findReserves()
        const next = reserves.shift()
        if (!next) throw error
        this.#shrink(next)
      }
    }
  }

  #create(): number {
    fs.mkdirSync(this.folder, PRIVATE_FOLDER)
    try {
      fs.writeFileSync(ownerFile(this.folder), this.#owner, { flag: 'wx', mode: PRIVATE_FILE })
      return fs.openSync(ownerFile(this.folder), 'r+')
    } catch (error) {
      removeFolder(this.folder, this.#log) // a full disk is tried again every few seconds, perhaps for hours
      throw error
    }
  }

  /**
   * Keeps some room for the folders of the next processes: on a full disk, they could send nothing of what is on it.
   *
   * @throws if the disk has no room for one. Then it must not take messages either: they would use up what is left for a folder.
   */
  keepReserve(): void {
    const path = reserveFile(this.folder)
    try {
      const missing = RESERVE_BYTES - sizeOf(path)
      // Random, because some file systems give no room to what they can compress.
      const bytes = crypto.getRandomValues(new Uint8Array(Math.max(0, missing)))
      if (missing > 0) fs.appendFileSync(path, bytes, { mode: PRIVATE_FILE })
    } catch (error) {
      if (isDiskFull(error) && sizeOf(path) < FOLDER_BYTES) {
        tryToRemove(path)
        throw error
      }
      this.#log('spool: no full reserve: %s', error)
    }
  }

  /**
   * How the reserves can become smaller, step by step, those of dead holders first. One that may live keeps room for one more
   * folder: if all are killed, the next process needs it.
   */
  #findReserves(): Smaller[] {
    const dead: Smaller[] = []
    const others: Smaller[] = []
    for (const name of this.#folders()) {
      const folder = `${this.#home}/${name}`
      const path = reserveFile(folder)
      try {
        const isDead = this.#isProbablyDead(readBeat(ownerFile(folder)))
        const least = isDead ? 0 : FOLDER_BYTES
        for (let bytes = sizeOf(path); bytes > least;) {
          bytes = Math.max(least, bytes - FOLDER_BYTES)
          ;(isDead ? dead : others).push({ path, bytes })
        }
      } catch (error) {
        this.#log('spool: %s was not read: %s', folder, error) // it may be another user's
      }
    }
    return [...dead, ...others]
  }

  #shrink({ path, bytes }: Smaller): void {
    try {
      if (bytes > 0) fs.truncateSync(path, bytes)
      else fs.rmSync(path) // a file system may have no room for one more file
    } catch (error) {
      this.#log('spool: %s was not used: %s', path, error)
    }
  }

  /** After a reboot, or in a new container, nobody knows. If it lives after all, it makes a new reserve at its next beat. */
  #isProbablyDead(owner: Beat | undefined): boolean {
    return (
      this.#isKnownDead(owner) || Date.now() - (owner?.beatMs ?? 0) > 2 * TAKEOVER_LOOKS * BEAT_MS
    )
  }

  #isKnownDead(owner: Beat | undefined): boolean {
    return isKnownDead(owner?.text ?? '', this.#self.machine, startOf)
  }

  /** The names of the folders of all clients. */
  #folders(): string[] {
    const entries = fs.readdirSync(this.#home, { withFileTypes: true })
    const folders = entries.filter((entry) => entry.isDirectory() && !entry.name.endsWith(FOREIGN))
    return folders.map(({ name }) => name)
  }

  /** Whether the last beat is so recent that nobody can have taken over. */
  get isFresh(): boolean {
    // The wall clock may be set, and the other one stops while the machine sleeps. Either one may raise the alarm.
    const wallMs = Date.now() - this.#renewedAtMs
    return nowMs() - this.#renewedMs < FRESH_MS && wallMs >= 0 && wallMs < FRESH_MS
  }

  /**
   * Beats, if this process still holds the folder. After any other answer the lease is over.
   *
   * @throws if the disk does not tell
   */
  renew(): 'held' | 'taken' | 'gone' {
    let state = this.#look()
    if (state === 'held') {
      const beatMs = nowMs()
      const beatAt = new Date()
      try {
        fs.futimesSync(this.#fd, beatAt, beatAt)
      } catch (error) {
        // Node's permission model allows this by the path alone. If a watcher has just moved the file, it is no beat.
        if (!hasCode(error, 'ERR_ACCESS_DENIED')) throw error
        fs.utimesSync(ownerFile(this.folder), beatAt, beatAt)
      }
      try {
        fs.utimesSync(this.folder, beatAt, beatAt)
      } catch {
        // The folder was taken over in this very moment, or belongs to another user now.
      }
      tryToRemove(watchedFile(this.folder))
      state = this.#look()
      // The time from before the beat: the process may have been stopped since.
      this.#renewedMs = beatMs
      this.#renewedAtMs = beatAt.getTime()
    }
    if (state !== 'held') {
      fs.closeSync(this.#fd)
      noDrainAtExit(this.#noteWatched)
    }
    return state
  }

  #look(): 'held' | 'taken' | 'gone' {
    const there = statOf(ownerFile(this.folder))
    // Read last: a watcher changes the owner file's size before it moves the folder.
    const { ino, size } = fs.fstatSync(this.#fd)
    if (there?.ino === ino && size === this.#owner.length) return 'held'
    const isRestored = !this.#isTaken() && this.#restore()
    if (this.#isTaken()) return 'taken'
    return isRestored ? 'held' : 'gone'
  }

  /** Whether a watcher has left its trace, or the one that is at work now. */
  #isTaken(): boolean {
    return (
      statOf(takenFile(this.folder)) !== undefined || fs.fstatSync(this.#fd).size === FREE.length
    )
  }

  /** Writes the owner file that is in the folder now, which makes it a beat, or a new one. False if the folder is gone. */
  #restore(): boolean {
    const { O_RDWR, O_CREAT } = fs.constants
    let fd: number
    try {
      fd = fs.openSync(ownerFile(this.folder), O_RDWR | O_CREAT, PRIVATE_FILE)
    } catch (error) {
      if (statOf(this.folder)?.isDirectory() === true) throw error
      return false
    }
    fs.closeSync(this.#fd)
    this.#fd = fd
    if (fs.fstatSync(fd).size === FREE.length) return false // a watcher that found none was faster
    fs.writeSync(fd, this.#owner, 0, this.#owner.length, 0)
    fs.ftruncateSync(fd, this.#owner.length)
    this.#log('spool: wrote %s again', ownerFile(this.folder))
    return true
  }

  /**
   * Finds the folders of dead holders, the oldest first, and takes each one over when it is asked for. Call it once for each beat: it counts.
   *
   * @param onDenied - told of a dead holder's folder that stays in its place, since this user may not write something in it
   */
  claim(
    onDenied?: (folder: string, error: unknown) => void,
  ): Generator<Claim, undefined, undefined> {
    return this.#takeEach(this.#findDead(), onDenied)
  }

  #findDead(): Dead[] {
    const before = this.#watched
    this.#watched = new Map()
    return this.#folders()
      .sort()
      .flatMap((name) => {
        const folder = `${this.#home}/${name}`
        if (folder === this.folder) return []
        try {
          const owner = readBeat(ownerFile(folder))
          const isDead = this.#isKnownDead(owner)
          const isTaken = isDead || this.#isOverdue(folder, owner?.beatMs ?? 0, before.get(folder))
          return isTaken ? [{ name, folder, owner, isDead }] : []
        } catch (error) {
          this.#log('spool: %s was not read: %s', name, error)
          return []
        }
      })
  }

  /** Whether a folder has had this beat for long enough. */
  #isOverdue(folder: string, beatMs: number, seen: Watched | undefined): boolean {
    const looks = seen?.beatMs === beatMs ? seen.looks + 1 : watchedBefore(folder, beatMs)
    this.#watched.set(folder, { beatMs, looks, seenMs: nowMs() })
    if (seen?.beatMs === beatMs) noteWatched(folder, beatMs, looks)
    return looks >= TAKEOVER_LOOKS
  }

  /** Writes down what was watched since the last look, for the next process. */
  readonly #noteWatched = (): void => {
    for (const [folder, { beatMs, looks, seenMs }] of this.#watched) {
      // Not more than a look: this process may have stood still.
      const part = Math.min(1, (nowMs() - seenMs) / BEAT_MS)
      try {
        const isStill = (readBeat(ownerFile(folder))?.beatMs ?? 0) === beatMs
        if (part > 0 && isStill) noteWatched(folder, beatMs, looks + part)
      } catch {
        // The disk does not tell.
      }
    }
  };

  *#takeEach(
    dead: readonly Dead[],
    onDenied?: (folder: string, error: unknown) => void,
  ): Generator<Claim, undefined, undefined> {
    for (const one of dead) {
      let claim: Claim | undefined
      try {
        claim = this.#take(one)
      } catch (error) {
        this.#log('spool: %s was not taken over: %s', one.name, error) // usually another process was faster
        if (isDenied(error)) onDenied?.(one.folder, error)
      }
      if (claim) yield claim
    }
    return undefined
  }

  #take({ name, folder, owner, isDead }: Dead): Claim | undefined {
    checkRights(folder)
    if (owner) fs.accessSync(ownerFile(folder), READ_AND_WRITE)
    if (!markTaken(folder, owner)) return undefined
    const own = `${this.folder}/${name}`
    fs.renameSync(folder, own)
    return { folder: own, isDead }
  }

  /** Leaves the folder, with what is in it, to anybody. */
  free(): void {
    this.#watchNoMore()
    try {
      fs.ftruncateSync(this.#fd)
      fs.writeSync(this.#fd, FREE, 0)
    } finally {
      fs.closeSync(this.#fd)
    }
  }

  /** Ends the lease of a folder in which nothing is left. */
  end(): void {
    this.#watchNoMore()
    fs.closeSync(this.#fd)
    removeFolder(this.folder, this.#log)
  }

  #watchNoMore(): void {
    this.#noteWatched()
    noDrainAtExit(this.#noteWatched)
  }
}

/** For how long earlier processes have watched this beat of a folder, in looks. */
function watchedBefore(folder: string, beatMs: number): number {
  try {
    const [ofBeatMs, looks = 0] = JSON.parse(
      fs.readFileSync(watchedFile(folder), 'utf8'),
    ) as number[]
    return ofBeatMs === beatMs ? looks : 0
  } catch {
    return 0 // Nobody has, or it was not written as a whole.
  }
}

function noteWatched(folder: string, beatMs: number, looks: number): void {
  // Made anew: the file may be another user's, or a link to one that must not change.
  tryToRemove(watchedFile(folder))
  try {
    const text = JSON.stringify([beatMs, looks])
    fs.writeFileSync(watchedFile(folder), text, { mode: PRIVATE_FILE, flag: 'wx' })
  } catch {
    // Then the next process begins at 0: the folder may be another user's, or the disk full.
  }
}

/** Takes the owner file from a holder. Gives false if the holder has beaten since that file was read. */
function markTaken(folder: string, owner: Beat | undefined): boolean {
  const taken = takenFile(folder)
  if (!owner) {
    // Another watcher may have died right after it had renamed the owner file. If the file was removed, this is the only trace.
    fs.writeFileSync(taken, FREE, { mode: PRIVATE_FILE })
    // Fails if the folder's holder writes its own file after all.
    fs.writeFileSync(ownerFile(folder), FREE, { flag: 'wx', mode: PRIVATE_FILE })
    return true
  }
  fs.renameSync(ownerFile(folder), taken)
  if (readBeat(taken)?.beatMs !== owner.beatMs) {
    fs.renameSync(taken, ownerFile(folder))
    return false
  }
  fs.writeFileSync(taken, FREE) // the holder has this file open, and sees its size change
  return true
}

/**
 * Checks that messages can be taken over. A folder that was moved without the right to all of its messages would be moved a level
 * deeper by each process.
 */
function checkRights(folder: string): void {
  fs.accessSync(folder, READ_AND_WRITE)
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory()) checkRights(path)
    else if (entry.isFile() && entry.name.endsWith('.log')) fs.accessSync(path, READ_AND_WRITE)
  }
}

/**
 * Makes a folder and those above it, one by one. Asked for all of them at once, Node tries for ever where a folder that
 * exists takes none (`/proc`), and reports ENOENT for a read-only disk.
 */
function makeFolder(path: string): void {
  const parent = getBuiltin?.('node:path').dirname(path) ?? path
  if (fs.existsSync(path) || parent === path) return
  makeFolder(parent)
  try {
    fs.mkdirSync(path, PRIVATE_FOLDER)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error // another process was faster
  }
}

/** Whether a folder holds files that the spool did not make, and no messages. */
export function isForeign(folder: string): boolean {
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true })
  // A network file system keeps a file that is open under such a name.
  const isLeft = entries.some(({ name }) => !name.startsWith('.nfs'))
  return isLeft && !entries.some((entry) => entry.isFile() && entry.name.endsWith('.log'))
}

/** Removes a client's folder. Gives false if it stays, usually because it holds a file that the spool did not make. */
export function removeFolder(folder: string, log: Log): boolean {
  fs.rmSync(ownerFile(folder), { force: true })
  fs.rmSync(takenFile(folder), { force: true })
  tryToRemove(reserveFile(folder))
  tryToRemove(watchedFile(folder))
  try {
    fs.rmdirSync(folder)
    return true
  } catch (error) {
    log('spool: %s stays: %s', folder, error)
    return false
  }
}

const isDiskFull = (error: unknown) => hasCode(error, 'ENOSPC', 'EDQUOT')

function tryToRemove(path: string): void {
  try {
    fs.rmSync(path)
  } catch {
    // There is none.
  }
}

/** Size of a file; 0 if there is none. */
function sizeOf(path: string): number {
  const stat = fs.statSync(path, { throwIfNoEntry: false })
  return stat?.isFile() ? stat.size : 0
}

const reserveFile = (folder: string) => `${folder}/reserve`
const ownerFile = (folder: string) => `${folder}/owner`
const watchedFile = (folder: string) => `${folder}/watched`
const takenFile = (folder: string) => `${folder}/taken`
