import type { Command } from 'commander'
import type { Shell } from './shells.js'
import { groupsOf, isFirst, wordsOf, type CommandWords, type Flag, type Value } from './words.js'

/** The script that completes the commands and flags of a program in a shell. */
export function scriptOf(shell: Shell, program: Command): string {
  const words = wordsOf(program)
  const name = program.name()
  const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript }
  return scripts[shell](name, words)
}

function bashScript(name: string, commands: readonly CommandWords[]): string {
  const complete = `_${name.replaceAll('-', '_')}`
  const suggest = (words: readonly string[]) =>
    `COMPREPLY=($(compgen -W '${words.join(' ')}' -- "$current"))`
  const suggestValue = (value: Value) =>
    value.kind === 'words'
      ? suggest(value.words)
      : value.kind === 'file'
        ? 'COMPREPLY=($(compgen -f -- "$current"))'
        : ':'
  const flagCases = ({ name, flags }: CommandWords) =>
    flags
      .filter(({ value }) => value.kind !== 'none')
      .map(({ names, value }) => {
        const patterns = names.map((flag) => `'${name} ${flag}'`).join('|')
        return `    ${patterns}) ${suggestValue(value)}; return ;;`
      })
  const commandCase = ({ name, flags, argument }: CommandWords) => {
    const names = flags.flatMap((flag) => flag.names)
    return `    '${name} '-*) ${suggest(names)} ;;\n    '${name} '*) ${suggestValue(argument)} ;;`
  }
  return `# Completion of ${name} for bash.
${complete}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    ${suggest(commands.filter(isFirst).map(({ name }) => name))}
    return
  fi
  case "$command" in
    ${groupsOf(commands).join('|')}) if [ "$COMP_CWORD" -gt 2 ]; then command="$command \${COMP_WORDS[2]}"; fi ;;
  esac
  case "$command $previous" in
${commands.flatMap(flagCases).join('\n')}
  esac
  case "$command $current" in
${commands.map(commandCase).join('\n')}
  esac
}
complete -o filenames -F ${complete} ${name}
`
}

function zshScript(name: string, commands: readonly CommandWords[]): string {
  const complete = `_${name.replaceAll('-', '_')}`
  const escaped = (text: string) => text.replace(/[\\[\]:]/g, '\\$&').replaceAll("'", "'\\''")
  const action = (value: Value) =>
    value.kind === 'words' ? `(${value.words.join(' ')})` : value.kind === 'file' ? '_files' : ' '
  const spec = ({ names, description, value }: Flag) => {
    const takes = value.kind === 'none' ? '' : `:value:${action(value)}`
    return names.map((flag) => `      '${flag}[${escaped(description)}]${takes}'`)
  }
  const commandCase = ({ name, flags, argument }: CommandWords) => {
    const specs = flags.flatMap(spec)
    const last = argument.kind === 'none' ? [] : [`      '1:value:${action(argument)}'`]
    return `    '${name}') _arguments -s \\\n${[...specs, ...last].join(' \\\n')} ;;`
  }
  const described = commands
    .filter(isFirst)
    .map((command) => `      '${command.name}:${escaped(command.description)}'`)
  return `#compdef ${name}
# Completion of ${name} for zsh.
${complete}() {
  if (( CURRENT == 2 )); then
    local -a commands=(
${described.join('\n')}
    )
    _describe command commands
    return
  fi
  local command=\${words[2]}
  shift words
  (( CURRENT-- ))
  case $command in
    ${groupsOf(commands).join('|')}) if (( CURRENT > 2 )); then command="$command \${words[2]}"; shift words; (( CURRENT-- )); fi ;;
  esac
  case $command in
${commands.map(commandCase).join('\n')}
  esac
}
if [ "$funcstack[1]" = "${complete}" ]; then ${complete} "$@"; else compdef ${complete} ${name}; fi
`
}

function fishScript(name: string, commands: readonly CommandWords[]): string {
  const quoted = (text: string) => `'${text.replace(/[\\']/g, '\\$&')}'`
  // The commands of groups have names that other commands have too, so the words before the cursor are compared as a whole.
  const inside = `__${name.replaceAll('-', '_')}_in`
  const line = (...parts: string[]) => `complete -c ${name} ${parts.filter(Boolean).join(' ')}`
  const value = (given: Value) =>
    given.kind === 'words'
      ? `-xa ${quoted(given.words.join(' '))}`
      : given.kind === 'file'
        ? '-rF'
        : given.kind === 'text'
          ? '-x'
          : ''
  const flag = (command: string, { names, description, value: given }: Flag) => {
    const flags = names.map((each) =>
      each.startsWith('--') ? `-l ${each.slice(2)}` : `-s ${each.slice(1)}`,
    )
    const isUsed = quoted(`${inside} ${command}`)
    return line('-n', isUsed, ...flags, value(given), '-d', quoted(description))
  }
  const argument = ({ name: command, argument: given }: CommandWords) => {
    const isNext = groupsOf(commands).includes(command)
      ? 'test (count (commandline -opc)) -eq 2; and '
      : ''
    const isUsed = quoted(`${isNext}${inside} ${command}`)
    if (given.kind === 'words') return [line('-n', isUsed, '-a', quoted(given.words.join(' ')))]
    return given.kind === 'file' ? [line('-n', isUsed, '-F')] : []
  }
  const lines = commands.flatMap((command) => [
    ...(isFirst(command)
      ? [
          line(
            '-n',
            quoted(`test (count (commandline -opc)) -eq 1`),
            '-a',
            command.name,
            '-d',
            quoted(command.description),
          ),
        ]
      : []),
    ...command.flags.map((each) => flag(command.name, each)),
    ...argument(command),
  ])
  const begins = `function ${inside}
  set -l typed (commandline -opc)
  set -l last (math 1 + (count $argv))
  test "$typed[2..$last]" = "$argv"
end`
  return [`# Completion of ${name} for fish.`, begins, line('-f'), ...lines, ''].join('\n')
}
