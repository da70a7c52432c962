// docs/openapi.yaml agrees with the types of the answers.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { PATH } from './document.js'

describe('the types', () => {
  const ROOT = join(dirname(PATH), '..')

  /** Where the types of the answers are. Their schemas have the same names. */
  const FILES: Record<string, string[]> = {
    'model/answers': exportsOf('model/answers', [
      'NO_MESSAGES', // a value
      'ReplayRequest', // what the page sends; the document says all that a client may send
    ]),
    'model/delivery': ['DeadGroup', 'State', 'Summary'],
    'model/call': ['CallType', 'EventType'],
    'model/health': ['Health'],
    'model/history': ['HistorySpan'],
    'model/outcome': ['OutcomeCode'],
    'http/refusal': ['RefusalCode', 'RejectionCode', 'Rejected', 'SettingProblem'],
    'observe/readiness': ['NotReady'],
    'collect/warnings': ['Warning'],
  }

  test('of the answers are those of the document, and a renamed field would be found', async () => {
    const generated = astToString(await openapiTS(pathToFileURL(PATH)))
    const names = Object.values(FILES).flat()
    expect(names.length).toBeGreaterThan(35)
    const renamed = generated.replace('failuresInARow:', 'failuresInRow:')
    const optional = generated.replace('headers?: string', 'header?: string')
    const found = differing([
      { generated, names },
      { generated: renamed, names: ['EndpointTotals', 'EndpointStatus', 'Failure'] },
      { generated: optional, names: ['ShownAttempt'] },
    ])
    expect(found).toEqual([[], ['EndpointTotals', 'EndpointStatus'], ['ShownAttempt']])
  })

  /** For each of several versions of the generated types: the types whose schema says something else. */
  function differing(versions: { generated: string; names: readonly string[] }[]): string[][] {
    const imports = Object.entries(FILES).map(
      ([file, own]) => `import type { ${own.join(', ')} } from '../../src/${file}.js'`,
    )
    const heads = versions.map(({ generated }) =>
      [generated, EQUAL, ...imports].join('\n').split('\n'),
    )
    const sources = versions.map(({ names }, version) => {
      const lines = names.map(
        (name) =>
          `export const is${name}: Equal<Plain<${name}>, Plain<components['schemas']['${name}']>> = true`,
      )
      return [...(heads[version] ?? []), ...lines].join('\n')
    })
    return typeErrors(sources).map((errors, version) => {
      const before = heads[version]?.length ?? 0
      const { names = [] } = versions[version] ?? {}
      return errors.map((line) => names[line - before] ?? `line ${line} of the generated types`)
    })
  }

  /** Types are equal after everything is written out: an intersection, an extension and a literal are the same. */
  const EQUAL = `
    type Plain<T> = T extends readonly (infer E)[]
      ? number extends T['length'] ? Plain<E>[] : { -readonly [K in keyof T]: Plain<T[K]> }
      : T extends object ? { -readonly [K in keyof T]: Plain<T[K]> } : T
    type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false`

  const OPTIONS: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2023,
    // Without those of browsers, which take a second to read.
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.NodeNext,
    types: ['node'],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  }

  /** The lines with type errors of each source, from 0. One program checks all of them, because it reads the libraries once. */
  function typeErrors(sources: string[]): number[][] {
    const files = sources.map((_, version) => join(import.meta.dirname, `generated-${version}.ts`))
    const host = ts.createCompilerHost(OPTIONS)
    const getSourceFile = host.getSourceFile.bind(host)
    host.getSourceFile = (path, ...rest) => {
      const source = sources[files.indexOf(path)]
      return source === undefined
        ? getSourceFile(path, ...rest)
        : ts.createSourceFile(path, source, rest[0])
    }
    const program = ts.createProgram(files, OPTIONS, host)
    return files.map((path) => {
      const file = program.getSourceFile(path)
      const errors = [
        ...program.getSyntacticDiagnostics(file),
        ...program.getSemanticDiagnostics(file),
      ]
      return errors.map(
        ({ start = 0 }) => (file?.text ?? '').slice(0, start).split('\n').length - 1,
      )
    })
  }

  /** What a source exports, apart from some names. A new type of an answer has to be in the document as well. */
  function exportsOf(file: string, but: readonly string[]): string[] {
    const text = readFileSync(join(ROOT, `destination/src/${file}.ts`), 'utf8')
    const names = text.matchAll(/^export (?:interface|type|const) (?:\{ )?(\w+)/gm)
    return Array.from(names, ([, name = '']) => name).filter((name) => !but.includes(name))
  }
})
