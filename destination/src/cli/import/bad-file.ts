import { createHash } from 'node:crypto'
import { fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import type { RefusedLine } from './ledger.js'

/** The file of `--bad`: it gets one line of JSON for each refused line, in the order of the imported file. */
export class BadFile {
  readonly #descriptor: number
  /** A pipe or a terminal has no positions, and nothing in it can be replaced. */
  readonly #isFile: boolean
  #bytes = 0
  #hash = createHash('sha256')
  #waiting: RefusedLine[] = []
  /** Whether the lines of an earlier import are still in the file. */
  readonly isContinued: boolean

  /**
   * Opens the file, and removes what is in it.
   *
   * @param mark - The {@link BadFile.mark} of an earlier import. If the file starts with these lines, they stay. What
   * comes after them is removed, because the import reads those lines again.
   * @throws Error if the file can't be written.
   */
  constructor(path: string, mark: string | undefined) {
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
    this.#descriptor = openSync(path, isFile ? 'r+' : 'w')
    this.#isFile = fstatSync(this.#descriptor).isFile()
    this.isContinued = mark !== undefined && this.#isFile && this.#startsWith(mark)
    if (this.#isFile) ftruncateSync(this.#descriptor, this.#bytes)
  }

  /** Names what is in the file by its size and its hash: `4096:…`. */
  get mark(): string {
    return `${this.#bytes}:${this.#hash.copy().digest('hex')}`
  }

  /** Adds lines, which {@link BadFile.write} writes. */
  add(lines: readonly RefusedLine[]): void {
    for (const line of lines) this.#waiting.push(line)
  }

  /**
   * Writes the lines that were added. Lines that could not be written are written by the next call of this.
   *
   * @throws Error if the file can't be written, such as on a full disk.
   */
  write(): void {
    if (this.#waiting.length === 0) return
    const text = this.#waiting.map((line) => `${JSON.stringify(line)}\n`).join('')
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length;) {
      const position = this.#isFile ? this.#bytes + at : null
      at += writeSync(this.#descriptor, bytes, at, bytes.length - at, position)
    }
    this.#bytes += bytes.length
    this.#hash.update(bytes)
    this.#waiting = []
  }

  #startsWith(mark: string): boolean {
    const bytes = Number.parseInt(mark, 10)
    if (!(fstatSync(this.#descriptor).size >= bytes)) return false
    const start = Buffer.alloc(bytes)
    readSync(this.#descriptor, start, 0, bytes, 0)
    const hash = createHash('sha256').update(start)
    if (`${bytes}:${hash.copy().digest('hex')}` !== mark) return false
    this.#bytes = bytes
    this.#hash = hash
    return true
  }
}
