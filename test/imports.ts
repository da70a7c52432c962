import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import ts from 'typescript'

/** One import, re-export or dynamic import. */
export interface Import {
  /** As it is written. */
  readonly from: string
  /** The module of ours that it names, without its extension; not there for packages. */
  readonly module?: string
  /** Nothing of it is left at run time. */
  readonly isType: boolean
  /** It is `import('…')`, which loads the module when it is called. */
  readonly isLazy: boolean
}

/** One source file. */
export interface Module {
  readonly imports: readonly Import[]
  readonly isOnlyReExports: boolean
}

/** Reads what the sources in a folder import, by their paths in it, without extensions. */
export function readModules(src: string): Map<string, Module> {
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.replaceAll('\\', '/'))
    .sort()
  return new Map(files.map((file) => [file.slice(0, -'.ts'.length), readModule(src, file)]))
}

function readModule(src: string, file: string): Module {
  const text = readFileSync(join(src, file), 'utf8')
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
  const imports: Import[] = dynamicImports(source).map((from) =>
    toImport(file, from, { isType: false, isLazy: true }),
  )
  let isOnlyReExports = true
  for (const statement of source.statements) {
    if (!ts.isExportDeclaration(statement) || !statement.moduleSpecifier) isOnlyReExports = false
    if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) continue
    const { moduleSpecifier } = statement
    if (!moduleSpecifier || !ts.isStringLiteral(moduleSpecifier)) continue
    imports.push(
      toImport(file, moduleSpecifier.text, { isType: isTypeOnly(statement), isLazy: false }),
    )
  }
  return { imports, isOnlyReExports }
}

function toImport(file: string, from: string, kind: Pick<Import, 'isType' | 'isLazy'>): Import {
  const module = normalize(join(dirname(file), from)).replace(/\.js$/, '')
  return from.startsWith('.') ? { from, ...kind, module } : { from, ...kind }
}

/** The names in `import('…')`. */
function dynamicImports(node: ts.Node): string[] {
  const found: string[] = []
  ts.forEachChild(node, (child) => {
    found.push(...dynamicImports(child))
  })
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.ImportKeyword)
    return found
  const [from] = node.arguments
  return from && ts.isStringLiteral(from) ? [...found, from.text] : found
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

/** The modules of ours that one imports. */
export function own(
  modules: ReadonlyMap<string, Module>,
  name: string,
): (Import & { module: string })[] {
  const imports = modules.get(name)?.imports ?? []
  return imports.flatMap((one) =>
    one.module === undefined ? [] : [{ ...one, module: one.module }],
  )
}

/** The packages and the modules of Node that are loaded together with a module. Types and `import('…')` are not. */
export function packagesOf(modules: ReadonlyMap<string, Module>, name: string): Set<string> {
  const loaded = new Set([name])
  const packages = new Set<string>()
  for (const each of loaded) {
    const imports = modules.get(each)?.imports ?? []
    for (const { from, module } of imports.filter(({ isType, isLazy }) => !isType && !isLazy)) {
      if (module === undefined) packages.add(from)
      else loaded.add(module)
    }
  }
  return packages
}

/** Imports that lead to no file: `from → to`. */
export function deadEnds(modules: ReadonlyMap<string, Module>): string[] {
  return [...modules.keys()].flatMap((name) =>
    own(modules, name)
      .filter(({ module }) => !modules.has(module))
      .map(({ module }) => `${name} → ${module}`),
  )
}

/** Imports that lead back to where they started, types counted: `a → b → a`. */
export function cycles(modules: ReadonlyMap<string, Module>): string[] {
  const done = new Set<string>()
  const found: string[] = []
  const visit = (name: string, above: string[]) => {
    if (above.includes(name)) found.push([...above.slice(above.indexOf(name)), name].join(' → '))
    if (done.has(name) || above.includes(name)) return
    for (const { module } of own(modules, name)) visit(module, [...above, name])
    done.add(name)
  }
  for (const name of modules.keys()) visit(name, [])
  return found
}
