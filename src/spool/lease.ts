import { log } from '../log.js'
import { getBuiltin } from '../runtime.js'
import { fs, PRIVATE_FILE, PRIVATE_FOLDER } from './node.js'

/** How often the holder of a folder says that it lives. */
export const BEAT_MS = 5_000

/** How long a holder may rely on its last beat: well below what others wait before they take over. */
const FRESH_MS = 2 * BEAT_MS

/** A holder of whom nothing else is known is dead after so long without a beat. */
const TAKEOVER_MS = 6 * BEAT_MS

/** The owner file of a folder that is anybody's. Shorter than any other: its size tells the holder. */
const FREE = 'free'

/** Which process holds a folder. */
export interface Owner {
  /** Where the pid has its meaning: one boot of one kernel, one namespace. Empty if unknown. */
  readonly machine: string
  readonly pid: number
  /** When the process started, in the kernel's own terms: a pid is used again. Empty if unknown. */
  readonly start: string
}

/**
 * Whether a folder's owner still lives. Where pids mean something else, in another container or on another
 * host, nothing can be known but its beat.
 *
 * @param startOf - when the process with a pid started; undefined if there is none
 */
export function judgeOwner(
  text: string,
  machine: string,
  startOf: (pid: number) => string | undefined,
): 'dead' | 'alive' | 'unknown' {
  if (text === FREE) return 'dead'
  const owner = parseOwner(text)
  if (!owner || owner.machine === '' || owner.machine !== machine) return 'unknown'
  const start = startOf(owner.pid)
  if (start === undefined) return 'dead'
  if (start === '' || owner.start === '') return 'unknown'
  return start === owner.start ? 'alive' : 'dead'
}

function parseOwner(text: string): Owner | undefined {
  try {
    const { machine, pid, start } = JSON.parse(text) as Owner
    if (typeof machine === 'string' && Number.isInteger(pid) && pid > 0) {
      return { machine, pid, start }
    }
  } catch {
    // Not yet written, or damaged.
  }
  return undefined
}

/**
 * Holds a folder of its own among those of other processes, and takes over those of dead ones.
 *
 * Node has no lock that the kernel drops with the process. So each client writes only in a folder of its
 * own, which says whose it is, and to take over is to move a whole folder into one's own: a rename, of which
 * exactly one can succeed. That leaves the question who is dead:
 *
 * - On the same kernel and in the same pid namespace the kernel knows. A pid that was used again has another
 *   start time; a zombie is dead.
 * - Elsewhere (a container that was started again, a shared volume, a reboot) a holder is dead when its beat,
 *   the time of its owner file, has stood still for 30 s on the watcher's own clock: no two clocks are compared,
 *   so none has to be right.
 *
 * A holder that was stopped for that long may be taken for dead. The owner file is therefore changed before the
 * folder is moved, and a holder whose beat is not fresh looks there before it writes or sends anything.
 */
export class Lease {
  readonly folder: string
  readonly #home: string
  readonly #fd: number
  readonly #size: number
  readonly #self = self()
  readonly #watched = new Map<string, { beatMs: number; sinceMs: number }>()
  #renewedMs = performance.now()
  #renewedAtMs = Date.now()

  /** @param home - the folder that holds one for each client; it is made if need be */
  constructor(home: string) {
    makeFolder(home)
    this.#home = fs.realpathSync(home)
    // By name, the oldest comes first.
    this.folder = `${this.#home}/${Date.now().toString(36)}-${crypto.randomUUID()}`
    fs.mkdirSync(this.folder, PRIVATE_FOLDER)
    const text = JSON.stringify(this.#self)
    this.#size = text.length
    try {
      fs.writeFileSync(ownerFile(this.folder), text, { flag: 'wx', mode: PRIVATE_FILE })
      this.#fd = fs.openSync(ownerFile(this.folder), 'r+')
    } catch (error) {
      removeFolder(this.folder) // it is tried again, perhaps for hours: on a full disk, say
      throw error
    }
  }

  /** Whether the last beat is so recent that nobody can have taken over. */
  get isFresh(): boolean {
    // One clock may be set, the other stands still while the machine sleeps: either one is enough to look.
    const wallMs = Date.now() - this.#renewedAtMs
    return performance.now() - this.#renewedMs < FRESH_MS && wallMs >= 0 && wallMs < FRESH_MS
  }

  /** Beats, if the folder is still there and still ours. If not, there is nothing more to hold. */
  renew(): 'held' | 'taken' | 'gone' {
    const isTaken = fs.fstatSync(this.#fd).size !== this.#size
    if (isTaken || !fs.existsSync(ownerFile(this.folder))) {
      fs.closeSync(this.#fd)
      return isTaken ? 'taken' : 'gone'
    }
    const now = new Date()
    fs.futimesSync(this.#fd, now, now)
    this.#renewedMs = performance.now()
    this.#renewedAtMs = now.getTime()
    return 'held'
  }

  /** Takes over the folders of the dead: they are inside of this one's then. */
  claim(): string[] {
    const claimed: string[] = []
    const entries = fs.readdirSync(this.#home, { withFileTypes: true })
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
    for (const name of names.sort()) {
      const folder = `${this.#home}/${name}`
      if (folder === this.folder) continue
      try {
        if (!this.#isAbandoned(folder)) continue
        fs.writeFileSync(ownerFile(folder), FREE, { mode: PRIVATE_FILE })
        const own = `${this.folder}/${name}`
        fs.renameSync(folder, own)
        claimed.push(own)
      } catch (error) {
        log('spool: %s was not taken over: %s', name, error) // another process was faster, mostly
      }
    }
    return claimed
  }

  /** Leaves what is in the folder to anybody. */
  free(): void {
    fs.ftruncateSync(this.#fd)
    fs.writeSync(this.#fd, FREE, 0)
    fs.closeSync(this.#fd)
  }

  /** Ends with nothing left. */
  end(): void {
    fs.closeSync(this.#fd)
    removeFolder(this.folder)
  }

  #isAbandoned(folder: string): boolean {
    const { text, beatMs } = readOwner(folder)
    const verdict = judgeOwner(text, this.#self.machine, startOf)
    if (verdict !== 'unknown') return verdict === 'dead'
    const seen = this.#watched.get(folder)
    if (seen?.beatMs === beatMs) return performance.now() - seen.sinceMs >= TAKEOVER_MS
    this.#watched.set(folder, { beatMs, sinceMs: performance.now() })
    return false
  }
}

/** Asks for one level first: with more, Node says ENOENT of a disk that is read-only. */
function makeFolder(path: string): void {
  try {
    fs.mkdirSync(path, PRIVATE_FOLDER)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') fs.mkdirSync(path, { recursive: true, mode: PRIVATE_FOLDER })
    else if (code !== 'EEXIST') throw error
  }
}

/** Removes a client's folder, unless something is in it that is not ours to remove. */
export function removeFolder(folder: string): void {
  fs.rmSync(ownerFile(folder), { force: true })
  try {
    fs.rmdirSync(folder)
  } catch (error) {
    log('spool: %s stays: %s', folder, error)
  }
}

const ownerFile = (folder: string) => `${folder}/owner`

/** Through an open file: network file systems look at the server's then, not at what they remember. */
function readOwner(folder: string): { text: string; beatMs: number } {
  let fd: number
  try {
    fd = fs.openSync(ownerFile(folder), 'r')
  } catch {
    return { text: '', beatMs: 0 } // being made, or lost
  }
  try {
    return { beatMs: fs.fstatSync(fd).mtimeMs, text: fs.readFileSync(fd, 'utf8') }
  } finally {
    fs.closeSync(fd)
  }
}

function self(): Owner {
  return { machine: machine(), pid: process.pid, start: startOf(process.pid) ?? '' }
}

function machine(): string {
  if (process.platform !== 'linux') return getBuiltin?.('node:os').hostname() ?? ''
  try {
    const boot = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${fs.readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return ''
  }
}

function startOf(pid: number): string | undefined {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined
  }
  try {
    // After the name, which may hold anything: the state, and 19 fields on, the start. Source: proc(5).
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return /[ZX]/.test(fields[0] ?? '') ? undefined : (fields[19] ?? '')
  } catch {
    return ''
  }
}
