import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runInside } from './inside.js'
import { emptyFolder } from './process.js'

const isInstalled = (shell: string) => spawnSync(shell, ['--version']).status === 0

async function scriptOf(shell: string): Promise<string> {
  const { code, stdout } = await runInside(['completion', shell])
  expect(code).toBe(0)
  return stdout
}

/** What is suggested for the last of the words. */
type Suggest = (...words: string[]) => string[]

async function bash(): Promise<Suggest> {
  const script = await scriptOf('bash')
  const ask = 'COMP_WORDS=(hookline-destination "$@"); COMP_CWORD=$#; _hookline_destination'
  return (...words) =>
    linesOf('bash', [
      '-c',
      `${script}\n${ask}; printf '%s\\n' "\${COMPREPLY[@]}"`,
      'bash',
      ...words,
    ])
}

async function fish(): Promise<Suggest> {
  const file = join(emptyFolder(), 'completion.fish')
  writeFileSync(file, await scriptOf('fish'))
  return (...words) =>
    linesOf('fish', [
      '--no-config',
      '-c',
      `source ${file}; complete -C "hookline-destination ${words.join(' ')}"`,
    ]).map((line) => line.split('\t')[0] ?? '')
}

function linesOf(command: string, args: string[]): string[] {
  return execFileSync(command, args, { encoding: 'utf8' }).split('\n').filter(Boolean)
}

describe.each([
  ['bash', bash],
  ['fish', fish],
])('in %s', (shell, load) => {
  test.runIf(isInstalled(shell))(
    'commands, flags and their values are completed',
    { tags: 'long' },
    async () => {
      const suggest = await load()
      expect(suggest('se').sort()).toEqual(['send', 'serve', 'settings'])
      expect(suggest('serve', '--ro')).toEqual(['--role'])
      expect(suggest('serve', '--role', '')).toEqual(['all', 'collector', 'worker'])
      expect(suggest('serve', '--log-level', 'w')).toEqual(['warn'])
      expect(suggest('send', 'tr')).toEqual(['track'])
      expect(suggest('send', 'track', '--wa')).toEqual(['--wait'])
      expect(suggest('list', '--state', 'd').sort()).toEqual(['dead', 'done'])
      expect(suggest('test', 'crm', '--type', 'tr')).toEqual(['track'])
      expect(suggest('listen', '--he')).toEqual(['--help'])
      expect(suggest('trace', 'm')).toEqual([])
      expect(suggest('sources', 'r').sort()).toEqual(['revoke', 'rotate'])
      expect(suggest('sources', 'list', '--sea')).toEqual(['--search'])
      expect(suggest('sources', 'list', '--sta')).toEqual([])
      expect(suggest('destinations', 'delete', 'crm', '--waiting', '').sort()).toEqual([
        'discard',
        'keep',
      ])
    },
  )
})

test('in zsh, every command and flag has its description', async () => {
  const script = await scriptOf('zsh')
  expect(script).toMatch(/^#compdef hookline-destination\n/)
  expect(script).toContain("'serve:collect calls and forward them'")
  expect(script).toMatch(/'--role\[what this process does; .*\]:value:\(all collector worker\)'/)
  expect(script).toMatch(/'--config\[settings file .*\]:value:_files'/)
  expect(script).toContain("'sources create') _arguments")
  if (isInstalled('zsh')) execFileSync('zsh', ['-f', '-n', '-c', script])
})
