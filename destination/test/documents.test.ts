// The documents name exactly the commands, settings and metrics that exist.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type * as z from 'zod'
import { OUTCOME_CODES } from '../src/model/outcome.js'
import { settingsSchema } from '../src/settings/schema.js'
import { runInside } from './cli/inside.js'
import { run } from './cli/process.js'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const guides = readdirSync(join(ROOT, 'docs'))
  .filter((name) => name.endsWith('.md') && name !== 'commands.md')
  .map((name) => `docs/${name}`)
const documents = ['README.md', 'destination/README.md', ...guides].map((path) => ({
  path,
  text: read(path),
}))

describe('the command line', () => {
  const help = new Map<string, string>()

  beforeAll(async () => {
    for (const name of commandsIn(await helpOf())) {
      const text = await helpOf(name)
      help.set(name, text)
      for (const each of commandsIn(text)) help.set(`${name} ${each}`, await helpOf(name, each))
    }
  })

  function commandsIn(text: string): string[] {
    const [, list = ''] = /\nCommands:\n([^]*?)\n\n/.exec(text) ?? []
    const names = Array.from(list.matchAll(/^ {2}([a-z]+)/gm), ([, name = '']) => name)
    return names.filter((each) => each !== 'help')
  }

  const helpOf = async (...command: string[]): Promise<string> =>
    (await runInside([...command, '--help'])).stdout

  test('prints the same help as a process', async () => {
    for (const args of [['--help'], ['destinations', 'create', '--help']]) {
      expect(await run(args)).toEqual(await runInside(args))
    }
  })

  test('is in docs/commands.md, word for word', async () => {
    const sections = Array.from(
      help,
      ([name, text]) =>
        `${isFirst(name) ? '##' : '###'} ${name}\n\n\`\`\`text\n${text.trim()}\n\`\`\`\n`,
    )
    const text = [
      '# Commands of hookline-destination\n',
      'What `--help` prints. A test writes this file: `npx vitest run --project destination documents -u`.\n',
      'Exit codes of all commands: 0 done, 1 failed, 2 the command line or the settings are wrong, 3 no answer: the same',
      'command may work later. Where a code means more than that, the help of the command says so. With `--json`, an error is',
      '`{"error":{"code","message"}}` on the standard output. Output that cannot be written, such as on a full disk, is an error, too.\n',
      ...sections,
    ].join('\n')
    await expect(text).toMatchFileSnapshot(join(ROOT, 'docs/commands.md'))
  })

  test('has every command and flag that the documents name', () => {
    const uses = documents.flatMap(({ path, text }) =>
      usesOf(text).map((use) => ({ path, ...use })),
    )
    expect(uses.filter(({ flags }) => flags.length > 0).length).toBeGreaterThan(10)
    const unknown = uses.filter(({ command, flags }) => {
      const text = help.get(command)
      return text === undefined || flags.some((flag) => !isIn(text, flag))
    })
    expect(unknown).toEqual([])
  })

  /** Whether a command is in no group. */
  const isFirst = (name: string) => !name.includes(' ')

  /** The commands in code blocks and in code spans, with their flags: `npx hookline-destination serve --check`. */
  function usesOf(text: string): { command: string; flags: string[] }[] {
    const inBlocks = text.matchAll(/^(?:npx )?hookline-destination ([a-z]+)(.*)$/gm)
    const inProse = text.matchAll(/`(?:npx )?hookline-destination ([a-z]+)([^`]*)`/g)
    // The commands of a group come first, because the name of the group matches the start of theirs.
    const known = [...help.keys()].sort((a, b) => b.length - a.length).join('|')
    const short = text.matchAll(new RegExp(`\`(${known})( --[^\`]*)\``, 'g'))
    const rows = text.matchAll(new RegExp(`^\\| \`(${known})\` +\\|(.*)$`, 'gm'))
    return [...inBlocks, ...inProse, ...short, ...rows].map(([, word = '', rest = '']) => ({
      command: nameOf(word, rest),
      flags: Array.from(rest.replace(/ # .*/, '').matchAll(/--[a-z][a-z-]*/g), ([flag]) => flag),
    }))
  }

  /** The command of a group, or the only word of the name. */
  function nameOf(word: string, rest: string): string {
    const own = word + (/^ [a-z]+/.exec(rest)?.[0] ?? '')
    return help.has(own) ? own : word
  }

  const isIn = (text: string, flag: string) => new RegExp(`${flag}(?![\\w-])`).test(text)

  test('has no command that the table of the README leaves out', () => {
    const table = sectionOf('Commands')
    for (const name of [...help.keys()].filter(isFirst))
      expect(table, name).toMatch(new RegExp(`^\\| \`${name}\``, 'm'))
  })
})

function sectionOf(heading: string): string {
  const text = read('destination/README.md')
  return new RegExp(`\n## ${heading}\n([^]*?)\n## `).exec(text)?.[1] ?? ''
}

describe('the settings', () => {
  const there = pathsOf(settingsSchema('/', false), '')

  test('of the table are there', () => {
    const rows = Array.from(sectionOf('Settings').matchAll(/^\| (`[^|]+`) +\|/gm))
    const documented = rows.flatMap(([, cell = '']) => namesOf(cell))
    expect(documented.length).toBeGreaterThan(12)
    expect(there).toEqual(expect.arrayContaining(documented))
  })

  test('are all named in a document', () => {
    const text = documents.map((document) => document.text).join('\n')
    const isNamed = (path: string) =>
      new RegExp(`["\`.]${path.split('.').at(-1) ?? ''}["\`]`).test(text)
    expect(there.length).toBeGreaterThan(15)
    expect(there.filter((path) => !isNamed(path))).toEqual([])
  })

  /** The names in a cell of a table. A name that starts with a dot replaces the last part of the first name. */
  function namesOf(cell: string): string[] {
    const [first = '', ...more] = Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = '']) => name)
    return [first, ...more.map((name) => `${first.slice(0, first.lastIndexOf('.'))}${name}`)]
  }

  /** The paths of all settings that contain no other settings. A value that is parsed as a whole counts as one. */
  function pathsOf(schema: z.core.$ZodType, path: string): string[] {
    const { def } = schema._zod as unknown as { def: Def }
    switch (def.type) {
      case 'object':
        return Object.entries(def.shape).flatMap(([name, field]) =>
          pathsOf(field, path === '' ? name : `${path}.${name}`),
        )
      case 'array': {
        const inner = pathsOf(def.element, `${path}[]`)
        return inner.length === 1 ? [path] : inner
      }
      case 'optional':
      case 'default':
      case 'nullable':
        return pathsOf(def.innerType, path)
      case 'pipe': {
        // Such a value is parsed as a whole, for example a rate limit.
        return [path]
      }
      default:
        return [path]
    }
  }

  type Def =
    | { type: 'object'; shape: Record<string, z.core.$ZodType> }
    | { type: 'array'; element: z.core.$ZodType }
    | { type: 'optional' | 'default' | 'nullable'; innerType: z.core.$ZodType }
    | { type: 'pipe' }
    | { type: 'transform' }
})

test.each([
  ['RefusalCode', unionOf('RefusalCode', 'http/refusal.ts')],
  ['RejectionCode', unionOf('RejectionCode', 'http/refusal.ts')],
  ['OutcomeCode', OUTCOME_CODES],
  ['SettingsErrorCode', unionOf('SettingsErrorCode', 'settings/settings-error.ts')],
  ['StoreErrorCode', unionOf('StoreErrorCode', 'store/store-error.ts')],
])('every %s is in the README or the documents of the destination', (_type, codes) => {
  const text = documents.map((document) => document.text).join('\n')
  expect(codes.length).toBeGreaterThan(3)
  expect(codes.filter((code) => !text.includes(`\`${code}\``))).toEqual([])
})

/** The members of a type, by its source. */
function unionOf(type: string, file: string): string[] {
  const source = read(`destination/src/${file}`)
  const [, union = ''] = new RegExp(`export type ${type} =([^;]*?)\n\n`).exec(source) ?? []
  return Array.from(union.matchAll(/'(\w+)'/g), ([, code = '']) => code)
}

test('the metrics that the documents name are those that there are', () => {
  const names = (text: string) =>
    [...new Set(Array.from(text.matchAll(/\bhookline_[a-z_]+/g), ([name]) => name))].sort()
  const sources = ['metrics', 'series'].map((name) => read(`destination/src/observe/${name}.ts`))
  const there = names(sources.join('\n'))
  expect(there.length).toBeGreaterThan(10)
  expect(names(documents.map(({ text }) => text).join('\n'))).toEqual(there)
})

test('the sizes of docs/operating.md are those of the benchmark, within a fifth', () => {
  const page = read('docs/operating.md').replaceAll(/\s+/g, ' ')
  const rows = rowsOf(read('bench/results-destination.md'))
  const most = (column: string, variant?: string) => {
    const ours = rows.filter((row) => row['subject'] === 'hookline')
    const wanted = ours.filter((row) => variant === undefined || row['variant'] === variant)
    return Math.max(...wanted.map((row) => Number(row[column]?.replaceAll(',', '')) || 0))
  }
  const customers = '10,000 customers'
  const sizes: [RegExp, number][] = [
    [/About (\d+) MB at a low rate/, most('peak MB', 'empty store')],
    [/(\d+) MB with a million messages/, most('peak MB', 'a million due, endpoint down')],
    [/up to (\d+) MB at full speed/, most('peak MB')],
    [/start in about ([\d.]+) s/, most('start to first 200 ms', customers) / 1_000],
    [/and take (\d+) MB, or/, most('RSS MB', customers)],
    [/ MB, or (\d+) MB at full speed/, most('RSS MB after', customers)],
  ]
  for (const [pattern, measured] of sizes) {
    const told = Number(pattern.exec(page)?.[1])
    expect(Math.abs(told / measured - 1), String(pattern)).toBeLessThan(0.2)
  }
})

/** The rows of all tables of a document, with their cells by the heads of the columns. */
function rowsOf(text: string): Record<string, string | undefined>[] {
  const cells = (line = '') => line.split('|').map((cell) => cell.trim())
  return text.split('\n\n').flatMap((table) => {
    const [head, , ...lines] = table.trim().split('\n')
    const names = cells(head)
    const named = (line: string) => cells(line).map((cell, i) => [names[i] ?? '', cell] as const)
    return lines.map((line) => Object.fromEntries(named(line)) as Record<string, string>)
  })
}
