import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import type { TestProject } from 'vitest/node'
import tsconfig from '../../tsconfig.json' with { type: 'json' }

declare module 'vitest' {
  interface ProvidedContext {
    /** The folder of the compiled sources. Its `main.js` is the command line as it is published. */
    compiledDir: string
  }
}

const ROOT = join(import.meta.dirname, '../..')
const CACHE = join(ROOT, 'node_modules/.cache')

/**
 * Compiles the sources once for all test files. Processes that run JavaScript start in a fraction of the time that
 * TypeScript takes. Imports of packages resolve as they do from the sources, except `hookline`, which is compiled too.
 */
export default function compileSources(project: TestProject): () => void {
  mkdirSync(CACHE, { recursive: true })
  const dir = mkdtempSync(join(CACHE, 'destination-'))
  const compileAll = () => {
    compile(join(ROOT, 'destination/src'), dir, { type: 'module' })
    compile(join(ROOT, 'src'), join(dir, 'node_modules/hookline'), {
      type: 'module',
      exports: sdkExports(),
    })
  }
  compileAll()
  project.provide('compiledDir', dir)
  project.onTestsRerun(compileAll)
  return () => {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** The entries of the SDK, as `exports` of a package.json: `{ './koa': './webhook/adapters/koa.js' }`. */
function sdkExports(): Record<string, string> {
  const entries = Object.entries(tsconfig.compilerOptions.paths)
  return Object.fromEntries(
    entries.map(([specifier, [source = '']]) => [
      specifier.replace('hookline', '.'),
      source.replace('./src/', './').replace(/\.ts$/, '.js'),
    ]),
  )
}

function compile(from: string, to: string, manifest: object): void {
  for (const file of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue
    const { outputText } = ts.transpileModule(readFileSync(join(from, file), 'utf8'), {
      compilerOptions: {
        target: ts.ScriptTarget.ES2023,
        module: ts.ModuleKind.ESNext,
        verbatimModuleSyntax: true,
      },
    })
    const out = join(to, file.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(out), { recursive: true })
    writeFileSync(out, outputText)
  }
  writeFileSync(join(to, 'package.json'), JSON.stringify(manifest))
}
