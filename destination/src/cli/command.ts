import { type Command, InvalidArgumentError } from 'commander'

/** Adds a command to the program: what each file of a command exports, or makes. */
export type AddCommand = (program: Command) => void

/** What the process says by its exit code. */
export const EXIT = {
  /** It is done. */
  ok: 0,
  /** It failed. */
  failed: 1,
  /** The command line or the settings are wrong: nothing was begun. */
  usage: 2,
  /** There was no answer: the same again, later, may work. */
  unreachable: 3,
} as const

/** Ends a command with an exit code. An empty message prints nothing: the command has said it all. */
export class CommandError extends Error {
  override readonly name = 'CommandError'

  constructor(
    readonly exitCode: number,
    message: string,
  ) {
    super(message)
  }
}

/** Reads an option that is a whole number within bounds. */
export function wholeNumber(min: number, max: number) {
  return (text: string): number => {
    const number = /^\d+$/.test(text) ? Number(text) : NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`)
  }
}

/** Whether to colour what is printed to a stream. Source: no-color.org. */
export function isColoured(stream: NodeJS.WriteStream): boolean {
  return stream.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
}
