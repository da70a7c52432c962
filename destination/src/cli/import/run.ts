import { createReadStream, createWriteStream, statSync } from 'node:fs'
import { extname } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { AnalyticsOptions } from 'hookline'
import { findCollector } from '../collector.js'
import { makeCall, openClient } from '../collector-client.js'
import { CommandError, EXIT } from '../command.js'
import type { ChangedNumber } from '../../model/changed-numbers.js'
import { formatSeconds, showProgress } from '../progress.js'
import type { ColumnMap } from './columns.js'
import { readCsv } from './csv.js'
import { Import } from './import.js'
import { MAX_REMEMBERED } from './ledger.js'
import { readNdjson } from './ndjson.js'
import { FORMATS, type Format, type ImportOptions } from './options.js'
import {
  checkProgress,
  headOf,
  readProgress,
  writeProgress,
  type Progress,
} from './progress-file.js'

/**
 * Imports a file, and prints the outcome.
 *
 * @throws CommandError if the file or the collector can't be used, if lines were refused, or if a signal stopped the import.
 */
export async function run(file: string, options: ImportOptions): Promise<void> {
  const source = openSource(file, options)
  const { analytics } = await openCollector(options)
  const bad = badLines(options)
  for (const { line, problem } of source.refused) bad.add(line, problem)
  const stopped = new AbortController()
  const work = new Import({
    rows: source.rows,
    from: source.from,
    make: ({ type, message }, callback) => {
      makeCall(analytics, type, message, callback)
    },
    type: options.type,
    rate: options.rate,
    bad: bad.add,
    changed: printChanged(),
    signal: stopped.signal,
  })
  const stop = () => {
    process.off('SIGINT', stop).off('SIGTERM', stop) // the next one ends the process
    stopped.abort()
    work.stop()
  }
  process.on('SIGINT', stop).on('SIGTERM', stop)

  let unsaved: string | undefined
  const save = () => {
    const problem = source.save(work)
    if (problem !== undefined && problem !== unsaved) console.error(problem)
    unsaved = problem
  }
  const saving = setInterval(save, SAVE_MS)
  const startedAt = performance.now()
  const hideProgress = showProgress(options.dryRun ? 'checking' : 'importing', () => ({
    share: source.size === undefined ? undefined : share(work.place.offset, source.size),
    done: work.accepted,
    note: noteOf(work, startedAt),
  }))
  const ended = await work.run().then(
    () => undefined,
    (error: unknown) => error,
  )
  await analytics.close({ timeout: stopped.signal.aborted || ended ? STOP_MS : Infinity })
  clearInterval(saving)
  hideProgress()
  save()
  await bad.end()
  const failure = ended ?? work.fatal
  if (failure instanceof CommandError) throw failure
  if (failure) throw explain(failure)
  print(file, options, work, {
    before: source.from.line,
    badBefore: source.bad,
    ms: performance.now() - startedAt,
    isStopped: stopped.signal.aborted,
  })
  if (unsaved !== undefined) throw new CommandError(EXIT.failed, '')
}

/** How often the progress is saved, in ms. */
const SAVE_MS = 1_000

/** How long calls that are under way may take to end after a signal to stop, in ms. */
const STOP_MS = 5_000

/** In bytes. Larger than the default of 64 KB, so that reading takes fewer turns of the event loop. */
const CHUNK_BYTES = 256 * 1024

/** Opens the lines to import, and the file that saves the progress. */
function openSource(file: string, { format, map, progress, restart, dryRun }: ImportOptions) {
  const isStdin = file === '-'
  const kind = format ?? (isStdin ? 'ndjson' : formatOf(file))
  const path = isStdin ? undefined : (progress ?? `${file}.progress`)
  const size = isStdin ? undefined : sizeOf(file)
  const before = path && !restart && !dryRun ? earlier(path, file) : undefined
  if (path && !dryRun) requireWritable(path)
  const from = before ?? { line: 0, offset: 0 }
  const bytes = isStdin
    ? process.stdin
    : createReadStream(file, { start: from.offset, highWaterMark: CHUNK_BYTES })
  let header = before?.header
  const { bad: badBefore = 0, refused: earlierRefused = [] } = before ?? {}
  if (header) requireColumns(map, header)
  const rows =
    kind === 'csv'
      ? readCsv(bytes, from, map, header, (names) => {
          requireColumns(map, names)
          header = names
        })
      : readNdjson(bytes, from)
  /** @returns why the progress could not be saved, if it could not. The import continues without it. */
  const save = ({
    place,
    accepted,
    refusedBefore: { bad, refused },
  }: Import): string | undefined => {
    if (!path || dryRun || place.offset === 0) return undefined
    try {
      writeProgress(path, {
        head: headOf(file),
        ...place,
        ...(header && { header }),
        accepted: (before?.accepted ?? 0) + accepted,
        bad: badBefore + bad,
        refused: [...earlierRefused, ...refused].slice(0, MAX_REMEMBERED),
      })
      return undefined
    } catch (error) {
      return cannotSave(path, error)
    }
  }
  return { rows, from, size, save, bad: badBefore, refused: earlierRefused }
}

/** @throws CommandError if the file does not have a column of `--map`. Its name is probably misspelled. */
function requireColumns(map: ColumnMap, names: readonly string[]): void {
  const unknown = Object.keys(map).find((column) => !names.includes(column))
  if (unknown === undefined) return
  const columns = names.map((name) => JSON.stringify(name)).join(', ')
  const message = `The file has no column ${JSON.stringify(unknown)}, which --map names: expected one of ${columns}.`
  throw new CommandError(EXIT.usage, message)
}

function requireWritable(path: string): void {
  try {
    checkProgress(path)
  } catch (error) {
    throw new CommandError(EXIT.usage, cannotSave(path, error))
  }
}

function cannotSave(path: string, error: unknown): string {
  return `Cannot save the progress in ${path}: ${(error as Error).message}. Name another file with --progress.`
}

function formatOf(file: string): Format {
  const extension = extname(file).slice(1).toLowerCase()
  if (extension === 'csv') return 'csv'
  if (['ndjson', 'jsonl', 'json'].includes(extension)) return 'ndjson'
  throw new CommandError(
    EXIT.usage,
    `The format of ${file} is not clear from its name. Give --format ${FORMATS.join(' or ')}.`,
  )
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch (error) {
    throw new CommandError(EXIT.usage, `Cannot read ${file}: ${(error as Error).message}`)
  }
}

function earlier(path: string, file: string): Progress | undefined {
  let progress: Progress | undefined
  try {
    progress = readProgress(path, file)
  } catch (error) {
    throw new CommandError(EXIT.usage, (error as Error).message)
  }
  if (progress) {
    console.error(
      `Continuing after line ${progress.line.toLocaleString('en-US')}, where an earlier import stopped.`,
    )
  }
  return progress
}

async function openCollector(options: ImportOptions) {
  const settings: AnalyticsOptions = { flushAt: 250, flushAfter: 1_000 }
  if (!options.dryRun) {
    const { key, endpoint } = await findCollector(options)
    // So that the messages that arrive meanwhile need not wait for the import.
    const headers = { 'X-Lane': 'bulk' }
    return { analytics: openClient(key, { ...settings, endpoint, headers }) }
  }
  const answer = { status: 200, headers: { get: () => null }, text: () => Promise.resolve('{}') }
  return { analytics: openClient('dry-run', { ...settings, fetch: () => Promise.resolve(answer) }) }
}

/** The most refused lines that are printed, and the most changed numbers. */
const MAX_PRINTED = 20

function badLines({ bad: file }: ImportOptions) {
  const stream = file === undefined ? undefined : createWriteStream(file)
  stream?.on('error', (error) => {
    console.error(`Cannot write the file of --bad: ${error.message}`)
  })
  let count = 0
  return {
    add: (line: number, problem: string) => {
      stream?.write(`${JSON.stringify({ line, problem })}\n`)
      count++
      if (count <= MAX_PRINTED) printAbove(`line ${line}: ${problem}`)
      else if (count === MAX_PRINTED + 1) {
        const more = stream ? `See ${file}.` : 'Give --bad FILE to write them all to a file.'
        printAbove(`More lines were refused. ${more}`)
      }
    },
    end: () =>
      new Promise<void>((resolve) => {
        if (stream && !stream.errored) stream.end(resolve)
        else resolve()
      }),
  }
}

/** Prints the first numbers that are imported with another value. */
function printChanged() {
  let count = 0
  return (line: number, { path, message }: ChangedNumber) => {
    count++
    if (count <= MAX_PRINTED) printAbove(`line ${line}: ${path}: ${message}`)
    else if (count === MAX_PRINTED + 1) printAbove('More numbers are forwarded with other values.')
  }
}

/** Prints a line on the standard error, above the progress. */
function printAbove(text: string): void {
  console.error((process.stderr.isTTY ? '\r\u001B[K' : '') + text)
}

function share(offset: number, size: number): number {
  return size === 0 ? 1 : Math.min(1, offset / size)
}

/** The note after the numbers of the progress; empty if nothing is wrong. */
function noteOf(work: Import, startedAt: number): string {
  const silentMs = performance.now() - Math.max(work.answeredAt, startedAt)
  return [
    work.bad > 0 ? `${work.bad.toLocaleString('en-US')} refused` : '',
    work.isWaiting && silentMs > 5_000
      ? `no answer for ${formatSeconds(silentMs / 1_000)}, still trying`
      : '',
  ]
    .filter(Boolean)
    .join(', ')
}

function explain(error: unknown): CommandError {
  const { message } = error as Error
  const fix = 'Fix this, then run the same command to continue.'
  return new CommandError(EXIT.failed, `The import stopped: ${message}\n${fix}`)
}

function print(
  file: string,
  { dryRun, json }: ImportOptions,
  { accepted, bad, undated, changed, place }: Import,
  {
    before,
    badBefore,
    ms,
    isStopped,
  }: { before: number; badBefore: number; ms: number; isStopped: boolean },
): void {
  if (json) {
    const counts = { accepted, bad, badBefore, undated, changedNumbers: changed }
    const outcome = { file, dryRun: dryRun ?? false, complete: !isStopped, ...counts }
    console.log(
      JSON.stringify({ ...outcome, fromLine: before + 1, toLine: place.line, ms: Math.round(ms) }),
    )
  } else {
    const rate = Math.round(accepted / Math.max(0.001, ms / 1_000))
    const took = `${formatSeconds(ms / 1_000)}, ${rate.toLocaleString('en-US')}/s`
    const of = accepted.toLocaleString('en-US')
    if (dryRun) console.log(`${of} calls are valid. Nothing was sent.`)
    else if (place.line === before) console.log('There are no new lines to import.')
    else console.log(`Imported ${of} calls (${took}).`)
    if (bad > 0) console.log(`${bad.toLocaleString('en-US')} lines were refused.`)
    if (badBefore > 0) {
      const earlier = `An earlier import of this file refused ${badBefore.toLocaleString('en-US')} lines.`
      console.log(`${earlier} Correct them, then import the whole file with --restart.`)
    }
    if (undated > 0) {
      console.log(
        `${undated.toLocaleString('en-US')} calls have no timestamp. They get the current time.`,
      )
    }
    if (changed > 0) {
      console.log(`${changed.toLocaleString('en-US')} numbers are forwarded with other values.`)
    }
    if (isStopped) {
      console.log(`Stopped after line ${place.line}. Run the same command to continue.`)
    }
  }
  if (isStopped) throw new CommandError(EXIT.unreachable, '')
  if (bad + badBefore > 0) throw new CommandError(EXIT.failed, '')
}
