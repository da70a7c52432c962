import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'

const SRC = fileURLToPath(new URL('../src', import.meta.url))

/** The way of a call. A stage imports from those after it, and from leaves. */
const STAGES =
  'analytics options validate encode spool/spooled-queue spool/spool spool/lease spool/segment spool/record queue batch send attempt retry settle'.split(
    ' ',
  )

/** What any stage may import. */
const LEAVES =
  'types errors hookline-error entry limits log runtime describe exit rejections version spool/node'.split(
    ' ',
  )

interface Import {
  readonly from: string
  readonly isType: boolean
  readonly isReExport: boolean
}

function importsOf(file: string): { imports: Import[]; isOnlyReExports: boolean } {
  const text = readFileSync(join(SRC, file), 'utf8')
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
  const imports: Import[] = []
  let isOnlyReExports = true
  for (const statement of source.statements) {
    const isReExport = ts.isExportDeclaration(statement) && !!statement.moduleSpecifier
    if (!isReExport) isOnlyReExports = false
    if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) continue
    const { moduleSpecifier } = statement
    if (!moduleSpecifier || !ts.isStringLiteral(moduleSpecifier)) continue
    imports.push({ from: moduleSpecifier.text, isType: isTypeOnly(statement), isReExport })
  }
  return { imports, isOnlyReExports }
}

/** `import type …`, `export type …`, or one whose every name is `type`. */
function isTypeOnly(statement: ts.ImportDeclaration | ts.ExportDeclaration): boolean {
  if (ts.isExportDeclaration(statement)) return statement.isTypeOnly
  const clause = statement.importClause
  if (!clause) return false
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true
  const { name, namedBindings } = clause
  if (name || !namedBindings || !ts.isNamedImports(namedBindings)) return false
  return namedBindings.elements.every(({ isTypeOnly }) => isTypeOnly)
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.replaceAll('\\', '/'))
  .sort()
const modules = new Map(files.map((file) => [file.slice(0, -'.ts'.length), importsOf(file)]))

/** The modules of ours that one imports. */
function own(name: string): (Import & { module: string })[] {
  return (modules.get(name)?.imports ?? [])
    .filter(({ from }) => from.startsWith('.'))
    .map((imported) => ({
      ...imported,
      module: normalize(join(dirname(name), imported.from)).replace(/\.js$/, ''),
    }))
}

test('every stage and leaf is there, so that these tests see what they should', () => {
  expect([...modules.keys()]).toEqual(expect.arrayContaining([...STAGES, ...LEAVES, 'index']))
  expect(own('analytics').length).toBeGreaterThan(10)
})

describe('imports', () => {
  test.each(STAGES)('of %s come from stages after it and from leaves', (stage) => {
    const after = STAGES.slice(STAGES.indexOf(stage) + 1)
    const wrong = own(stage).filter(({ module, isType }) => {
      if (after.includes(module) || LEAVES.includes(module)) return false
      // What the options are, their types, is known to all; what checks them is not.
      return !(module === 'options' && isType)
    })
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test.each(LEAVES)('of the leaf %s come from leaves', (leaf) => {
    const wrong = own(leaf).filter(({ module }) => !LEAVES.includes(module))
    expect(wrong.map(({ module }) => module)).toEqual([])
  })

  test('all lead to a file', () => {
    const missing = [...modules.keys()].flatMap((name) =>
      own(name)
        .filter(({ module }) => !modules.has(module))
        .map(({ module }) => `${name} → ${module}`),
    )
    expect(missing).toEqual([])
  })

  test('make no cycle, types counted', () => {
    const done = new Set<string>()
    const cycles: string[] = []
    const visit = (name: string, above: string[]) => {
      if (above.includes(name)) cycles.push([...above.slice(above.indexOf(name)), name].join(' → '))
      if (done.has(name) || above.includes(name)) return
      for (const { module } of own(name)) visit(module, [...above, name])
      done.add(name)
    }
    for (const name of modules.keys()) visit(name, [])
    expect(cycles).toEqual([])
  })

  test('of packages are the three dependencies; what Node offers is asked for at run time', () => {
    const core = [...STAGES, ...LEAVES]
    const packages = core.flatMap((name) =>
      (modules.get(name)?.imports ?? [])
        .filter(({ from }) => !from.startsWith('.'))
        .map(({ from }) => from),
    )
    expect([...new Set(packages)].sort()).toEqual(['cross-fetch', 'debug', 'uuid'])
  })
})

test('index.ts only re-exports', () => {
  expect(modules.get('index')?.isOnlyReExports).toBe(true)
})
