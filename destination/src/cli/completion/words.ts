import type { Argument, Command, Option } from 'commander'

/** What may follow a flag, or be an argument: nothing, one of these words, a file, or any text. */
export type Value = { kind: 'none' | 'file' | 'text' } | { kind: 'words'; words: readonly string[] }

/** A flag of a command. */
export interface Flag {
  /** As it is typed, such as `--config` and `-c`. */
  names: string[]
  description: string
  value: Value
}

/** A command and what can follow it. */
export interface CommandWords {
  name: string
  description: string
  flags: Flag[]
  argument: Value
}

/**
 * Reads the commands and flags from their definitions, so that the completion has all of them. The commands of a group come
 * before it, with its name in theirs: `sources list`.
 */
export function wordsOf(program: Command, group = ''): CommandWords[] {
  return program.commands.flatMap((command) => {
    const name = group + command.name()
    const own = command.commands.map((each) => each.name())
    return [
      ...wordsOf(command, `${name} `),
      {
        name,
        description: command.description(),
        flags: [...command.options.map(flagOf), HELP],
        argument: own.length > 0 ? valueOf(own, false) : argumentOf(command.registeredArguments[0]),
      },
    ]
  })
}

/** The names of the groups, which have commands of their own. */
export function groupsOf(commands: readonly CommandWords[]): string[] {
  return [...new Set(commands.flatMap(({ name }) => name.split(' ').slice(0, -1)))]
}

/** Whether a command is in no group. */
export const isFirst = ({ name }: CommandWords) => !name.includes(' ')

const HELP: Flag = {
  names: ['--help', '-h'],
  description: 'display help for command',
  value: { kind: 'none' },
}

function flagOf({ long, short, flags, description, argChoices, required }: Option): Flag {
  const names = [long, short].filter((name): name is string => typeof name === 'string')
  if (!required) return { names, description, value: { kind: 'none' } }
  return { names, description, value: valueOf(argChoices, flags.includes('<file>')) }
}

function argumentOf(argument: Argument | undefined): Value {
  if (!argument) return { kind: 'none' }
  return valueOf(argument.argChoices, argument.name() === 'file')
}

function valueOf(words: readonly string[] | undefined, isFile: boolean): Value {
  if (words) return { kind: 'words', words }
  return { kind: isFile ? 'file' : 'text' }
}
