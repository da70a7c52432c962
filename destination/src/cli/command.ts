import { type Command, InvalidArgumentError } from 'commander'

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

/** Ends a command with an exit code. With an empty message nothing is printed, because the command has printed it all. */
export class CommandError extends Error {
  override readonly name = 'CommandError'

  constructor(
    readonly exitCode: number,
    message: string,
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

/** Whether output to a stream is coloured. Source: no-color.org. */
export function isColoured(stream: NodeJS.WriteStream): boolean {
  return stream.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
}
