import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { isatty } from 'node:tty'
import { promisify } from 'node:util'

const writeAside = promisify(write)

/** In bytes. Chunks beyond this are dropped, so that a reader that has stopped does not fill the memory. */
const MAX_LENGTH = 64 * 1024 * 1024

/** In ms. After this time, a reader that had no room is tried again. */
const RETRY_MS = 100

/** In ms. A write that takes longer after the last try hangs. */
const HANGS_MS = 50

/**
 * Writes chunks to a file, a pipe, a socket or a terminal, one after the other. What can't be written is kept, and tried
 * again with the next chunk. Neither a reader that has stopped nor a full disk holds up the process or its exit: the writers
 * of pino try for ever when the process exits.
 */
export class LogWriter {
  readonly #descriptor: number
  #chunks: Buffer[] = []
  /** Of the chunks and of the one that is under way, in bytes. */
  #length = 0
  #isAbandoned = false
  /** Writes all chunks, and says whether it could. */
  #writing: Promise<boolean> | undefined
  /** The write that a thread makes now. */
  #underWay: Promise<unknown> | undefined

  /** @param to - A file descriptor or the path of a file. */
  constructor(to: number | string) {
    this.#descriptor = typeof to === 'string' ? openSync(to, 'a') : (openAgain(to) ?? to)
  }

  write(text: string): void {
    this.#keep(text)
    void this.flush() // also if the text was dropped: there may be room for the others again
  }

  /** Waits until all is written, or can't be: then the result is `false`. A reader without room is waited for. */
  flush(): Promise<boolean> {
    if (this.#chunks.length > 0) this.#writing ??= this.#writeAll()
    return this.#writing ?? Promise.resolve(true)
  }

  /** Writes a last text, and what it can of the others. A write that is under way ends before the process does, and may come after these. */
  writeNow(text: string): void {
    this.#keep(text)
    try {
      for (let chunk; (chunk = this.#chunks.shift());) {
        const written = writeSync(this.#descriptor, chunk)
        this.#putBack(chunk, written)
      }
    } catch {
      // There is nobody left who could be told.
    }
  }

  /**
   * Gives up what is not written.
   *
   * @returns whether the process can exit. It can't while a thread hangs in a write, because `process.exit` waits for it.
   */
  async abandon(): Promise<boolean> {
    this.#isAbandoned = true
    this.#chunks = []
    const ended = this.#underWay?.then(
      () => true,
      () => true,
    )
    return Promise.race([ended ?? true, wait(HANGS_MS, false)])
  }

  async #writeAll(): Promise<boolean> {
    try {
      for (let chunk; (chunk = this.#chunks.shift());) {
        let written = 0
        try {
          const underWay = writeAside(this.#descriptor, chunk)
          this.#underWay = underWay
          written = (await underWay).bytesWritten
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return false
        } finally {
          this.#underWay = undefined
          this.#putBack(chunk, written)
        }
        if (written === 0) await wait(RETRY_MS, undefined, { ref: false })
      }
      return true
    } finally {
      this.#writing = undefined
    }
  }

  #keep(text: string): void {
    const chunk = Buffer.from(text)
    if (this.#isAbandoned || text === '' || this.#length + chunk.length > MAX_LENGTH) return
    this.#chunks.push(chunk)
    this.#length += chunk.length
  }

  /** Puts back what was not written of a chunk. */
  #putBack(chunk: Buffer, written: number): void {
    if (this.#isAbandoned) return
    this.#length -= written
    if (written < chunk.length) this.#chunks.unshift(chunk.subarray(written))
  }
}

/**
 * Opens a pipe or a terminal a second time, so that a write to a full one fails instead of blocking a thread. The flag is
 * only set here, because other processes may write to the same pipe. A socket can't be opened again, but Node sets the flag
 * for one that is the standard output.
 *
 * @returns `undefined` if it is something else, or if the system has no such path.
 */
function openAgain(descriptor: number): number | undefined {
  try {
    if (!fstatSync(descriptor).isFIFO() && !isatty(descriptor)) return undefined
    const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY
    return openSync(`/proc/self/fd/${descriptor}`, flags)
  } catch {
    return undefined
  }
}
