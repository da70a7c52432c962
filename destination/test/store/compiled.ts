import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { afterAll } from 'vitest'
import type { openStore } from '../../src/store/open.js'

const SOURCES = join(import.meta.dirname, '../../src')
const CACHE = join(import.meta.dirname, '../../../node_modules/.cache')

/** The folder of the compiled store. Threads and processes that run JavaScript start in a moment. */
export const compiledDir = compile()

/** {@link openStore} as it is published, and all that it starts. */
export const open = (
  (await import(join(compiledDir, 'store/open.js'))) as { openStore: typeof openStore }
).openStore

function compile(): string {
  mkdirSync(CACHE, { recursive: true })
  const dir = mkdtempSync(join(CACHE, 'store-'))
  afterAll(() => {
    rmSync(dir, { recursive: true, force: true })
  })
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}')
  for (const name of readdirSync(join(SOURCES, 'store'), { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    const file = join('store', name)
    const { outputText } = ts.transpileModule(readFileSync(join(SOURCES, file), 'utf8'), {
      compilerOptions: {
        target: ts.ScriptTarget.ES2023,
        module: ts.ModuleKind.ESNext,
        verbatimModuleSyntax: true,
      },
    })
    const out = join(dir, file.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(out), { recursive: true })
    writeFileSync(out, outputText)
  }
  return dir
}
