import { EXIT, type ExitCode } from '../command.js'
import { formatSeconds } from '../progress.js'

/** What an import did. */
export interface Outcome {
  file: string
  dryRun: boolean
  /** Whether lines or calls are left, because a signal stopped the import. */
  isStopped: boolean
  accepted: number
  /** The number of lines that were refused. */
  bad: number
  /** The number of lines that earlier imports of the file refused. */
  badBefore: number
  /** The options with which they were refused, if this import reads lines in another way. */
  meaningBefore?: string | undefined
  /** The number of calls that the client gave up. */
  lost: number
  undated: number
  changedNumbers: number
  fromLine: number
  toLine: number
  ms: number
}

/** Describes an outcome for scripts. */
export function toJson({ isStopped, ...outcome }: Outcome): object {
  const { file, dryRun, lost, ...rest } = outcome
  return { file, dryRun, complete: !isStopped && lost === 0, ...rest, lost }
}

/** Describes an outcome for people, in one or more lines. */
export function toLines(outcome: Outcome): string[] {
  const { file, bad, badBefore, meaningBefore, lost, undated, changedNumbers, toLine, isStopped } =
    outcome
  const lines = [headline(outcome)]
  if (bad > 0) lines.push(`${counted(bad, 'line was', 'lines were')} refused.`)
  if (badBefore > 0) {
    const earlier = `An earlier import of this file refused ${counted(badBefore, 'line')}.`
    lines.push(
      meaningBefore === undefined
        ? `${earlier} Correct ${badBefore === 1 ? 'it' : 'them'}, then import the whole file with --restart.`
        : `${earlier} It had ${meaningBefore || 'no --type, --map or --format'}. To read the lines as this command says, add --restart: ` +
            'calls that were accepted are forwarded once.',
    )
  }
  if (undated > 0) {
    const which = counted(
      undated,
      'call has no timestamp. It gets',
      'calls have no timestamp. They get',
    )
    lines.push(`${which} the current time.`)
  }
  if (changedNumbers > 0) {
    const which = counted(
      changedNumbers,
      'number is forwarded with another value',
      'numbers are forwarded with other values',
    )
    lines.push(`${which}.`)
  }
  if (lost > 0) {
    const which = counted(
      lost,
      'call was not accepted, because the collector failed for it',
      'calls were not accepted, because the collector failed for each of them',
    )
    const why = `${which} again and again.`
    lines.push(isStopped ? why : `${why} ${next(file, `send ${lost === 1 ? 'it' : 'them'} again`)}`)
  }
  if (isStopped) lines.push(`Stopped after line ${toLine}. ${next(file, 'continue')}`)
  return lines
}

/** The exit code. Lines that are left come first, because running the command again helps. */
export function exitCodeOf({ isStopped, lost, bad, badBefore }: Outcome): ExitCode {
  if (isStopped || lost > 0) return EXIT.unreachable
  return bad + badBefore > 0 ? EXIT.failed : EXIT.ok
}

function headline({ dryRun, accepted, fromLine, toLine, isStopped, lost, ms }: Outcome): string {
  if (dryRun) return `${counted(accepted, 'call is', 'calls are')} valid. Nothing was sent.`
  const isNothing = toLine < fromLine && !isStopped && lost === 0
  if (isNothing) return 'There are no new lines to import.'
  const rate = Math.round(accepted / Math.max(0.001, ms / 1_000))
  return `Imported ${counted(accepted, 'call')} (${formatSeconds(ms / 1_000)}, ${count(rate)}/s).`
}

/** What to do next. The progress of the standard input is not saved. */
function next(file: string, why: string): string {
  if (file !== '-') return `Run the same command to ${why}.`
  return 'Import the whole input again: calls that have arrived are forwarded once.'
}

function count(number: number): string {
  return number.toLocaleString('en-US')
}

function counted(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`
}
