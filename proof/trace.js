// What strace saw a process do to its files and connections, in order: `strace -f -yy -xx`.

/** The calls that are needed, and no others: each one stops the process. */
export const TRACED = 'pwrite64,write,writev,sendmsg,fsync,fdatasync,ftruncate'

const HEX = /\\x([0-9a-f]{2})/g
const bytesOf = (text) => Buffer.from(text.replaceAll('\\x', ''), 'hex')
const textOf = (name) =>
  name.replace(HEX, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)))

const CALL = /^(\d+) +(\w+)\((\d+)<(.*?)>(?=[,)\s])(.*)$/
const RESUMED = /^(\d+) +<\.\.\. (\w+) resumed>.*= (-?\d+)/
const OK = [...'HTTP/1.1 200'].map((letter) => `\\x${letter.charCodeAt(0).toString(16)}`).join('')

/**
 * The steps of a trace: a write to a file when it has returned, a sync when it begins and when it has returned, an
 * answer 200 when it begins to be written.
 */
export function* stepsIn(text) {
  const open = new Map()
  for (const line of text.split('\n')) {
    const resumed = RESUMED.exec(line)
    if (resumed) {
      const step = open.get(resumed[1])
      open.delete(resumed[1])
      if (step && Number(resumed[3]) >= 0) yield { ...step, isDone: true }
      continue
    }
    const [, thread, call, , name, rest] = CALL.exec(line) ?? []
    if (!call) continue
    const path = textOf(name)
    if (path.startsWith('TCP')) {
      if (rest.includes(OK)) yield { kind: 'answer', port: Number(/->[^:]*:(\d+)/.exec(path)?.[1]) }
      continue
    }
    const step = stepOf(call, path, rest)
    if (!step) continue
    if (step.kind === 'sync') yield { ...step, isDone: false, thread }
    if (line.endsWith('<unfinished ...>')) open.set(thread, { ...step, thread })
    else if (!/= -1 /.test(line)) yield { ...step, isDone: true, thread }
  }
}

function stepOf(call, path, rest) {
  if (call === 'fsync' || call === 'fdatasync') return { kind: 'sync', path }
  if (call === 'ftruncate') return { kind: 'cut', path, to: Number(/, (\d+)/.exec(rest)?.[1]) }
  if (call !== 'pwrite64') return undefined
  const [, bytes, offset] = /"([^"]*)", \d+, (\d+)/.exec(rest) ?? []
  return bytes === undefined
    ? undefined
    : { kind: 'write', path, bytes: bytesOf(bytes), at: Number(offset) }
}

/** A model of a disk that loses all data that was not synced when the power is cut. */
export class Disk {
  /** The data that is synced. */
  #durable = new Map()
  /** The data that is written but not synced. */
  #unsynced = new Map()
  #syncing = new Map()

  constructor(files) {
    for (const [path, bytes] of files) this.#durable.set(path, bytes)
  }

  /** @param {(bytes: Buffer) => void} onDurable bytes that are on the disk for good now */
  apply(step, onDurable) {
    const { kind, path, isDone, thread } = step
    const own = this.#unsynced.get(path) ?? []
    if (kind !== 'sync') {
      this.#unsynced.set(path, [...own, step])
    } else if (!isDone) {
      this.#syncing.set(`${thread} ${path}`, own.length)
    } else {
      const count = this.#syncing.get(`${thread} ${path}`) ?? own.length
      const synced = own.slice(0, count)
      this.#unsynced.set(path, own.slice(count))
      // Another thread that syncs the same file counts from here.
      for (const [key, others] of this.#syncing) {
        if (key.endsWith(` ${path}`)) this.#syncing.set(key, Math.max(0, others - synced.length))
      }
      for (const one of synced) {
        this.#write(one)
        if (one.bytes) onDurable(one.bytes)
      }
    }
  }

  #write({ path, kind, bytes, at, to }) {
    let file = this.#durable.get(path) ?? Buffer.alloc(0)
    const end = kind === 'cut' ? to : Math.max(file.length, at + bytes.length)
    if (end !== file.length)
      file = Buffer.concat([file, Buffer.alloc(Math.max(0, end - file.length))]).subarray(0, end)
    if (bytes) bytes.copy(file, at)
    this.#durable.set(path, file)
  }

  /** The files that are left after a power cut at this moment. */
  image() {
    return new Map([...this.#durable].map(([path, bytes]) => [path, Buffer.from(bytes)]))
  }
}
