import { getBuiltin } from '../runtime.js'
import { folderOf, fs, hasCode, isDenied } from './node.js'

/** The owner file of a folder that anybody may take. It is shorter than any other owner file. */
export const FREE = 'free'

/** Which process holds a folder. */
export interface Owner {
  /** One boot of one kernel and one pid namespace: a pid means nothing elsewhere. Empty if unknown. */
  readonly machine: string
  readonly pid: number
  /** When the process started, in the kernel's own terms: pids are reused. Empty if unknown. */
  readonly start: string
}

/** What a folder's owner file says, and when it was last touched. */
export interface Beat {
  readonly text: string
  readonly beatMs: number
}

/**
 * Whether it is certain that a folder's owner is dead. The kernel knows, but only for processes of the same boot
 * and pid namespace, and not for threads.
 *
 * @param startOf - when the process with a pid started; undefined if there is none
 */
export function isKnownDead(
  text: string,
  machine: string,
  startOf: (pid: number) => string | undefined,
): boolean {
  if (text === FREE) return true
  try {
    const owner = JSON.parse(text) as Owner
    if (machine === '' || owner.machine !== machine || !(owner.pid > 0)) return false
    const start = startOf(owner.pid)
    if (start === undefined) return true
    return start !== '' && owner.start !== '' && start !== owner.start
  } catch {
    return false // The file is not written yet, or damaged.
  }
}

/** Reads an owner file; undefined if there is none, and only its time if this user may not. Opening it makes a network file system ask its server. */
export function readBeat(path: string): Beat | undefined {
  let fd: number
  try {
    fd = fs.openSync(path, 'r')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    if (isDenied(error)) return { beatMs: timeOf(path), text: '' }
    throw error
  }
  try {
    return { beatMs: fs.fstatSync(fd).mtimeMs, text: fs.readFileSync(fd, 'utf8') }
  } finally {
    fs.closeSync(fd)
  }
}

/** When an owner file was last touched, or else its folder. The folder's time is no beat for those who may make files in it: they change it. */
function timeOf(path: string): number {
  try {
    return fs.statSync(path).mtimeMs
  } catch {
    return fs.statSync(folderOf(path)).mtimeMs
  }
}

export function self(): Owner {
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

/** When a process started; empty if the system does not tell, undefined if it is dead or a zombie. */
export function startOf(pid: number): string | undefined {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return undefined
  }
  try {
    // The name may hold anything. After it come the state and, 19 fields later, the start. Source: proc(5).
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return /[ZX]/.test(fields[0] ?? '') ? undefined : (fields[19] ?? '')
  } catch {
    return ''
  }
}
