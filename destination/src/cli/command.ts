import { styleText } from 'node:util'
import { type Command, InvalidArgumentError } from 'commander'
import { GARBLED, isGarbled } from '../settings/environment.js'

/** Adds a command to the program. Each file of a command exports one, or a function that makes one. */
export type AddCommand = (program: Command) => void

/** The exit codes of the process. */
export const EXIT = {
  /** The command has done its work. */
  ok: 0,
  /** The command failed. */
  failed: 1,
  /** The command line or the settings are wrong. The command did nothing. */
  usage: 2,
  /** There was no answer. The same command may work later. */
  unreachable: 3,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** The codes of errors that have no other one. */
const CODES: Readonly<Record<ExitCode, string>> = {
  [EXIT.ok]: 'ok',
  [EXIT.failed]: 'failed',
  [EXIT.usage]: 'usage',
  [EXIT.unreachable]: 'no_answer',
}

/** Ends a command with an exit code. With an empty message nothing is printed, because the command has printed it all. */
export class CommandError extends Error {
  override readonly name = 'CommandError'

  /** @param code - Says to scripts what happened. */
  constructor(
    readonly exitCode: ExitCode,
    message: string,
    readonly code: string = CODES[exitCode],
  ) {
    super(message)
  }
}

/** Makes a parser for an option that is a whole number. Both bounds are allowed. */
export function wholeNumber(min: number, max: number) {
  return (text: string): number => {
    const number = /^\d+$/.test(text) ? Number(text) : NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`)
  }
}

/**
 * Makes a parser for an option that may be given several times. All others are given once.
 *
 * @param add - Adds a value to those before it: commander calls this once per value.
 */
export function severalTimes<Before, Values>(add: (text: string, before: Before) => Values) {
  REPEATED.add(add)
  return add
}

const REPEATED = new WeakSet<object>()

/**
 * Lets a command refuse an option that is given twice, and an option or an argument that is empty. By itself, commander
 * ignores all but the last value. What is empty would mean the same as what is not given, such as the key of another source,
 * and comes from a variable of the shell that is not set.
 */
export function refuseUnclear(program: Command): void {
  program.hook('preAction', (_program, command) => {
    for (const [at, argument] of command.registeredArguments.entries()) {
      if (command.args[at] !== '') continue
      command.error(`error: argument '${argument.name()}' is empty. Give it a value.`)
    }
  })
  watchOptions(program)
}

function watchOptions(command: Command): void {
  for (const option of command.options) {
    if (!option.required) continue
    const isOnce = !option.parseArg || !REPEATED.has(option.parseArg)
    let isGiven = false
    command.on(`option:${option.name()}`, (value: string) => {
      const fix = option.mandatory ? 'Give it a value.' : 'Give it a value, or leave it out.'
      if (value === '') command.error(`error: option '${option.flags}' is empty. ${fix}`)
      if (isGiven && isOnce) {
        command.error(`error: option '${option.flags}' is given twice. Give it once.`)
      }
      isGiven = true
    })
  }
  for (const each of command.commands) watchOptions(each)
}

/**
 * A variable of the environment, for a command that takes something else if it is not set.
 *
 * @throws CommandError if it is set and empty, because something else would then be a surprise, or if it is not UTF-8.
 */
export function fromEnvironment(name: string): string | undefined {
  const value = process.env[name]
  if (value === '')
    throw new CommandError(EXIT.usage, `${name} is empty. Give it a value, or unset it.`)
  if (value !== undefined && isGarbled(value))
    throw new CommandError(EXIT.usage, `${name} ${GARBLED}`)
  return value
}

/** Colours a text. The caller has asked {@link isColoured}, so Node need not decide it again by the standard output. */
export function paint(style: Parameters<typeof styleText>[0], text: string): string {
  return styleText(style, text, { validateStream: false })
}

/** Whether output to a stream is coloured. Source: no-color.org. */
export function isColoured(stream: NodeJS.WriteStream): boolean {
  return stream.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
}
