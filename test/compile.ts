import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { buildSync } from 'esbuild'
import type { TestProject } from 'vitest/node'
import tsconfig from '../tsconfig.json' with { type: 'json' }

declare module 'vitest' {
  interface ProvidedContext {
    /**
     * The folder of the compiled sources of hookline-destination: its `main.js` is the command line as it is published.
     * In it, `hookline` has those of the SDK and `examples` its examples. A script that runs here can import `hookline`:
     * it gets the SDK that is tested.
     */
    compiledDir: string
  }
}

const ROOT = join(import.meta.dirname, '..')
const CACHE = join(ROOT, 'node_modules/.cache')

/**
 * Compiles the sources once for all test files. Processes and threads that run JavaScript start in a fraction of the
 * time that TypeScript takes. Imports of other packages resolve as they do from the sources.
 */
export default function compileSources(project: TestProject): (() => void) | undefined {
  const given = process.env['HOOKLINE_COMPILED']
  const dir = given ?? makeDir()
  process.env['HOOKLINE_COMPILED'] = dir
  project.provide('compiledDir', dir)
  if (given !== undefined) return undefined
  compileAll(dir)
  project.onTestsRerun(() => {
    compileAll(dir)
  })
  return () => {
    rmSync(dir, { recursive: true, force: true })
  }
}

function makeDir(): string {
  mkdirSync(CACHE, { recursive: true })
  return mkdtempSync(join(CACHE, 'compiled-'))
}

function compileAll(dir: string): void {
  compile(join(ROOT, 'destination/src'), dir)
  compile(join(ROOT, 'examples'), join(dir, 'examples'))
  writeManifest(dir, { type: 'module' })
  const sdk = join(dir, 'hookline')
  compile(join(ROOT, 'src'), sdk)
  writeManifest(sdk, { type: 'module', exports: sdkExports() })
  const link = join(dir, 'node_modules/hookline')
  mkdirSync(dirname(link), { recursive: true })
  rmSync(link, { force: true })
  symlinkSync(process.env['HOOKLINE_PACKAGE'] ?? sdk, link)
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

function writeManifest(dir: string, manifest: object): void {
  writeFileSync(join(dir, 'package.json'), JSON.stringify(manifest))
}

function compile(from: string, to: string): void {
  const files = readdirSync(from, { recursive: true, encoding: 'utf8' })
  buildSync({
    entryPoints: files.filter((file) => /\.[mc]?ts$/.test(file)).map((file) => join(from, file)),
    outbase: from,
    outdir: to,
    target: 'es2023',
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, experimentalDecorators: true } },
  })
}
