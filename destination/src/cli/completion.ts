import { Argument, type Command } from 'commander'
import type { AddCommand } from './command.js'
import { SHELLS, type Shell } from './completion/shells.js'

const EXAMPLES = `
Examples:
  $ hookline-destination completion bash > ~/.local/share/bash-completion/completions/hookline-destination
  $ hookline-destination completion zsh > "\${fpath[1]}/_hookline-destination"
  $ hookline-destination completion fish > ~/.config/fish/completions/hookline-destination.fish`

export const addCompletion: AddCommand = (program) => {
  program
    .command('completion')
    .description('print a script that completes commands and flags in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', EXAMPLES)
    .action(async (shell: Shell, _options: object, { parent }: Command) => {
      const { scriptOf } = await import('./completion/script.js')
      process.stdout.write(scriptOf(shell, parent ?? program))
    })
}
