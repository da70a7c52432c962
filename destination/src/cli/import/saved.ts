import { fstatSync, statSync, type BigIntStats } from 'node:fs'
import { basename, resolve } from 'node:path'
import { CommandError, EXIT } from '../command.js'
import { BadFile } from './bad-file.js'
import type { Import } from './import.js'
import type { RefusedLine } from './ledger.js'
import { meaningOf, type ImportOptions } from './options.js'
import {
  checkProgress,
  headOf,
  MAX_REMEMBERED,
  readProgress,
  readSaved,
  writeProgress,
  type Progress,
} from './progress-file.js'
import type { Target } from './target.js'

/** The name of the progress file; `undefined` if there is none, as for the standard input. */
function progressPath(file: string, { progress, dryRun }: ImportOptions): string | undefined {
  return file === '-' || dryRun ? undefined : (progress ?? `${file}.progress`)
}

/**
 * Reads the progress of an earlier import, from which this one continues.
 *
 * @throws CommandError if the progress is of another file, or can't be saved later, as that of the standard input.
 */
export function readEarlier(file: string, options: ImportOptions): Progress | undefined {
  if (file === '-' && options.progress !== undefined) {
    const message =
      '--progress needs a file: the progress of the standard input is not saved. Name a file, or leave out --progress.'
    throw new CommandError(EXIT.usage, message)
  }
  const path = progressPath(file, options)
  if (path === undefined) return undefined
  if (isSameFile(path, file)) {
    const message = `--progress ${path} would replace the file to import. Name another file.`
    throw new CommandError(EXIT.usage, message)
  }
  let progress: Progress | undefined
  try {
    progress = options.restart ? undefined : readProgress(path, file)
  } catch (error) {
    throw new CommandError(EXIT.usage, (error as Error).message)
  }
  try {
    checkProgress(path)
  } catch (error) {
    throw new CommandError(EXIT.usage, cannotSave(path, error))
  }
  return progress
}

/**
 * The name of an import, from which the ids of its messages are derived. An import that is continued or started again
 * keeps its name, also the missing one of an earlier version, so that no call is forwarded twice.
 *
 * @throws CommandError if `--name` gives it another one.
 */
export function nameOf(
  file: string,
  options: ImportOptions,
  before: Progress | undefined,
): string | undefined {
  const earlier = before ?? (options.restart && restarted(file, options))
  const isSame = before !== undefined || (earlier && isFileOf(earlier, file))
  // It may be a corrected file or another one: whoever gives a name says that it is another import.
  if (!earlier || (!isSame && options.name !== undefined)) {
    return options.name ?? (file === '-' ? '' : basename(file))
  }
  if (!isSame && earlier.name !== undefined) {
    console.error(
      `${file} keeps the name ${JSON.stringify(earlier.name)} of the import before. If it is another file, stop, and give --name.`,
    )
  }
  if (options.name === undefined || options.name === earlier.name) return earlier.name
  const had =
    earlier.name === undefined
      ? 'was started by an earlier version, without a name'
      : `has the name ${JSON.stringify(earlier.name)}`
  throw new CommandError(
    EXIT.usage,
    `The import of ${file} ${had}, and keeps it, so that no call is forwarded twice. Leave out --name. ` +
      'To import the file a second time with ids of its own, also give --progress OTHER.',
  )
}

function isFileOf({ head }: Progress, file: string): boolean {
  return headOf(file, Number.parseInt(head, 10)) === head
}

/**
 * The progress that `--restart` ignores; `undefined` if there is none. Its name also counts if the file has changed, because a line
 * that was refused is corrected in the file.
 */
function restarted(file: string, options: ImportOptions): Progress | undefined {
  const path = progressPath(file, options)
  try {
    return path === undefined ? undefined : readSaved(path)
  } catch {
    return undefined
  }
}

/**
 * Opens the file of `--bad`. It keeps the lines that an earlier import refused, because the earlier import is continued.
 *
 * @throws CommandError if it can't be written, or if it is the file to import.
 */
export function openBadFile(
  file: string,
  options: ImportOptions,
  before: Progress | undefined,
): BadFile | undefined {
  const { bad: path } = options
  if (path === undefined) return undefined
  const others = [file, progressPath(file, options) ?? file]
  if (others.some((other) => isSameFile(path, other))) {
    const message = `--bad ${path} would replace a file of this import. Name another file.`
    throw new CommandError(EXIT.usage, message)
  }
  const badFile = badFileAt(path, before?.badFile)
  if (!before || badFile.isContinued) return badFile
  const { bad, refused = [] } = before
  badFile.add(refused)
  if (bad > refused.length) {
    console.error(
      `${path} gets the first ${refused.length} of the ${bad.toLocaleString('en-US')} lines that an earlier import refused. ` +
        'To have all of them, import the whole file with --restart.',
    )
  }
  return badFile
}

/** Whether two paths lead to the same file, also by links. `-` is the standard input. */
function isSameFile(one: string, other: string): boolean {
  if (resolve(one) === resolve(other)) return true
  const [first, second] = [one, other].map(statOf)
  if (!first?.isFile() || !second) return false
  return first.dev === second.dev && first.ino === second.ino
}

/** @returns `undefined` if there is no such file. */
function statOf(path: string): BigIntStats | undefined {
  const options = { bigint: true } as const // Windows has numbers of files that no number of JavaScript holds
  try {
    return path === '-' ? fstatSync(0, options) : statSync(path, options)
  } catch {
    return undefined // whoever opens it says why
  }
}

function badFileAt(path: string, mark: string | undefined): BadFile {
  try {
    return new BadFile(path, mark)
  } catch (error) {
    throw new CommandError(EXIT.usage, cannotWriteBad(path, error))
  }
}

/** What the next import needs: the refused lines in the file of `--bad`, and the progress. */
export class Saved {
  readonly #path: string | undefined
  readonly #refused: RefusedLine[]
  #bad: number
  /** Why the last attempt to save failed. The import continues without it. */
  problem: string | undefined

  constructor(
    readonly parts: {
      file: string
      options: ImportOptions
      name: string | undefined
      target: Target | undefined
      before: Progress | undefined
      badFile: BadFile | undefined
      header: () => readonly string[] | undefined
    },
  ) {
    const { file, options, before } = parts
    this.#path = progressPath(file, options)
    this.#refused = [...(before?.refused ?? [])]
    this.#bad = before?.bad ?? 0
  }

  /** Saves the progress. A problem is printed once. */
  save(work: Import): void {
    const refused = work.takeRefused()
    this.#bad += refused.length
    this.#refused.push(...refused.slice(0, MAX_REMEMBERED - this.#refused.length))
    this.parts.badFile?.add(refused)
    // The refused lines come first: after a crash, the next import must not continue behind a line that is not written.
    this.#report(this.#writeBad() ?? this.#writeProgress(work))
  }

  /** Saves the progress a last time. The file of `--bad` also gets the lines that the next import reads again. */
  finish(work: Import): void {
    this.save(work)
    this.parts.badFile?.add(work.takeRest())
    this.#report(this.#writeBad() ?? this.problem)
  }

  #report(problem: string | undefined): void {
    if (problem !== undefined && problem !== this.problem) console.error(problem)
    this.problem = problem
  }

  #writeBad(): string | undefined {
    try {
      this.parts.badFile?.write()
      return undefined
    } catch (error) {
      return cannotWriteBad(this.parts.options.bad, error)
    }
  }

  #writeProgress({ place, accepted }: Import): string | undefined {
    const { file, options, name, target, before, badFile, header } = this.parts
    const names = header()
    if (this.#path === undefined || place.offset === 0) return undefined
    try {
      writeProgress(this.#path, {
        head: headOf(file),
        name,
        ...place,
        ...(names && { header: names }),
        ...(target && { target }),
        accepted: (before?.accepted ?? 0) + accepted,
        bad: this.#bad,
        refused: this.#refused,
        meaning: (before?.bad ?? 0) > 0 ? before?.meaning : meaningOf(options),
        ...(badFile && { badFile: badFile.mark }),
      })
      return undefined
    } catch (error) {
      return cannotSave(this.#path, error)
    }
  }
}

function cannotSave(path: string, error: unknown): string {
  return `Cannot save the progress in ${path}: ${(error as Error).message}. Name another file with --progress.`
}

function cannotWriteBad(path = '', error: unknown): string {
  return `Cannot write ${path}: ${(error as Error).message}. Name another file with --bad.`
}
