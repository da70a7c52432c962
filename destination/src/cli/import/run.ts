import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { RejectedError, type Analytics, type AnalyticsOptions } from 'hookline'
import { printable } from '../../observe/printable.js'
import { findCollector } from '../collector.js'
import { makeCall, openClient } from '../collector-client.js'
import { CommandError, EXIT } from '../command.js'
import { formatSeconds, showProgress } from '../progress.js'
import { Import, isPage } from './import.js'
import { meaningOf, type ImportOptions } from './options.js'
import { exitCodeOf, toJson, toLines, type Outcome } from './outcome.js'
import { nameOf, openBadFile, readEarlier, Saved } from './saved.js'
import { openSource, requireFile } from './source.js'
import { requireSameTarget, targetOf, type Target } from './target.js'

/**
 * Imports a file, and prints the outcome.
 *
 * @throws CommandError if the file or the collector can't be used, if lines were refused or calls were lost, or if a
 * signal stopped the import.
 */
export async function run(file: string, options: ImportOptions): Promise<void> {
  requireFile(file)
  const before = readEarlier(file, options)
  const name = nameOf(file, options, before)
  const source = openSource(file, options, before)
  const { analytics, target } = await openCollector(options)
  if (before && target) requireSameTarget(file, target, before, options)
  const badFile = openBadFile(file, options, before)
  if (before) {
    const line = before.line.toLocaleString('en-US')
    console.error(`Continuing after line ${line}, where an earlier import stopped.`)
  }
  const rest = options.bad ? `See ${options.bad}.` : 'Give --bad FILE to write them all to a file.'
  const printBad = printFirst(`More lines were refused. ${rest}`)
  const printChanged = printFirst('More numbers are forwarded with other values.')
  for (const { line, problem } of before?.refused ?? []) printBad(line, problem)
  const stopped = new AbortController()
  const work = new Import({
    rows: source.rows,
    from: source.from,
    make: ({ type, message }, callback) => {
      makeCall(analytics, type, message, callback)
    },
    pendingBytes: () => analytics.stats().pendingBytes,
    type: options.type,
    name,
    rate: options.rate,
    bad: printBad,
    changed: (line, { path, message }) => {
      printChanged(line, `${path}: ${message}`)
    },
    signal: stopped.signal,
  })
  const stop = () => {
    process.off('SIGINT', stop).off('SIGTERM', stop) // the next one ends the process
    printAbove('Stopping within 5 s. The next signal ends the import at once.')
    stopped.abort()
    source.end()
    work.stop()
  }
  process.on('SIGINT', stop).on('SIGTERM', stop)

  const saved = new Saved({ file, options, name, target, before, badFile, header: source.header })
  const saving = setInterval(() => {
    saved.save(work)
  }, SAVE_MS)
  const startedAt = performance.now()
  const hideProgress = showProgress(options.dryRun ? 'checking' : 'importing', () => ({
    share: source.size === undefined ? undefined : share(work.place.offset, source.size),
    done: work.accepted,
    note: noteOf(work, startedAt),
  }))
  const ended = await work.run().then(
    () => undefined,
    // After a signal the lines end with an error, because the file is closed.
    (error: unknown) => (stopped.signal.aborted ? undefined : error),
  )
  await closeInTime(analytics, stopped.signal, (ended ?? work.fatal) !== undefined)
  clearInterval(saving)
  hideProgress()
  saved.finish(work)
  const failure = ended ?? work.fatal
  if (failure instanceof CommandError) throw failure
  if (failure) throw explain(file, failure)
  const { accepted, bad, lost, undated, changed, place } = work
  const lines = { fromLine: source.from.line + 1, toLine: place.line }
  const ms = Math.round(performance.now() - startedAt)
  const counts = { accepted, bad, badBefore: before?.bad ?? 0, undated, changedNumbers: changed }
  const isStopped = work.isUnfinished
  const dryRun = options.dryRun ?? false
  const isOther = before?.meaning !== undefined && before.meaning !== meaningOf(options)
  const meaningBefore = isOther ? before.meaning : undefined
  const outcome = { file, dryRun, isStopped, ...counts, meaningBefore, lost, ...lines, ms }
  end(outcome, options, saved)
}

/** Prints the outcome, and ends the command with its exit code. */
function end(outcome: Outcome, { json }: ImportOptions, { problem }: Saved): void {
  console.log(json ? JSON.stringify(toJson(outcome)) : toLines(outcome).join('\n'))
  const exitCode = exitCodeOf(outcome)
  if (exitCode !== EXIT.ok) throw new CommandError(exitCode, '')
  if (problem !== undefined) throw new CommandError(EXIT.failed, '')
}

/**
 * Waits until every call has its outcome. After a signal, which may come while this waits, or after an error, it waits
 * no longer than {@link STOP_MS}.
 */
async function closeInTime(
  analytics: Analytics,
  signal: AbortSignal,
  hasFailed: boolean,
): Promise<void> {
  if (!hasFailed && !signal.aborted) {
    await Promise.race([analytics.flush(), once(signal, 'abort')])
  }
  await analytics.close({ timeout: STOP_MS })
}

/** How often the progress is saved, in ms. */
const SAVE_MS = 1_000

/** How long calls that are under way may take to end after a signal to stop, in ms. The process ends within 5 s. */
const STOP_MS = 4_500

/** Opens the client. A dry run has no target. */
async function openCollector(
  options: ImportOptions,
): Promise<{ analytics: Analytics; target?: Target }> {
  const settings: AnalyticsOptions = {
    flushAt: 250,
    flushAfter: 1_000,
    // Each line reports its own outcome. Without this hook, the client would also print warnings.
    onFailed: () => undefined,
  }
  if (!options.dryRun) {
    const found = await findCollector(options)
    const { key, endpoint } = found
    // So that the messages that arrive meanwhile need not wait for the import.
    const headers = { 'X-Lane': 'bulk' }
    const analytics = openClient(key, { ...settings, endpoint, headers })
    return { analytics, target: targetOf(found) }
  }
  const answer = { status: 200, headers: { get: () => null }, text: () => Promise.resolve('{}') }
  const fetch = () => Promise.resolve(answer)
  return { analytics: openClient('dry-run', { ...settings, fetch }) }
}

/** The most refused lines that are printed, and the most changed numbers. */
const MAX_PRINTED = 20

/** Makes what prints the problems of lines, as long as they are few, and then that there are more. */
function printFirst(more: string) {
  let count = 0
  return (line: number, problem: string) => {
    count++
    if (count <= MAX_PRINTED) printAbove(`line ${line}: ${printable(problem)}`)
    else if (count === MAX_PRINTED + 1) printAbove(more)
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
  const silentMs = performance.now() - Math.max(work.endedAt, startedAt)
  return [
    work.bad > 0 ? `${work.bad.toLocaleString('en-US')} refused` : '',
    work.lost > 0 ? `${work.lost.toLocaleString('en-US')} not accepted` : '',
    work.isWaiting && silentMs > 5_000
      ? `nothing was accepted for ${formatSeconds(silentMs / 1_000)}, still trying`
      : '',
  ]
    .filter(Boolean)
    .join(', ')
}

function explain(file: string, error: unknown): CommandError {
  const { message } = error as Error
  const again = file === '-' ? 'import the whole input again' : 'run the same command to continue'
  return new CommandError(EXIT.failed, `The import stopped: ${message}\n${fixOf(error, again)}.`)
}

/** What to do about the error that stopped an import. */
function fixOf(error: unknown, again: string): string {
  if (error instanceof RejectedError && error.status < 400) {
    return `If that URL is the collector's, give it with --to, and --continue to send the rest there. Otherwise fix the redirect, then ${again}`
  }
  if (error instanceof RejectedError && isPage(error)) {
    return `A collector does not answer with a page of HTML: another server did. Check the URL of --to, then ${again}`
  }
  return `Fix this, then ${again}`
}
