import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { buildSync } from 'esbuild'
import type { TestProject } from 'vitest/node'
import tsconfig from '../tsconfig.json' with { type: 'json' }

declare module 'vitest' {
  interface ProvidedContext {
    /**
     * The folder of the compiled sources of hookline-destination; `command-line/start.js` in it is the command line.
     * In it, `hookline` has those of the SDK and `examples` its examples. A script that runs here can import `hookline`:
     * it gets the SDK that is tested.
     */
    compiledDir: string
  }
}

const ROOT = join(import.meta.dirname, '..')
// Below the destination, whose packages may have other versions than those of the root.
const CACHE = join(ROOT, 'destination/node_modules/.cache')

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
    rmSync(dirname(dir), { recursive: true, force: true })
  }
}

/** The page is found as from the sources, in `../dist/page`. */
function makeDir(): string {
  mkdirSync(CACHE, { recursive: true })
  const parent = mkdtempSync(join(CACHE, 'compiled-'))
  symlinkSync(join(ROOT, 'destination/dist'), join(parent, 'dist'))
  return join(parent, 'src')
}

function compileAll(dir: string): void {
  compile(join(ROOT, 'destination/src'), dir)
  bundleCommandLine(join(dir, 'command-line'))
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

/**
 * Joins the files of the command line and of its packages. The tests start it hundreds of times, and it starts in two thirds of
 * the time: Node looks for each file and compiles each one separately. `npm run package` tests it as it is published.
 */
function bundleCommandLine(to: string): void {
  const from = join(ROOT, 'destination/src')
  const built = process.env['HOOKLINE_PACKAGE'] ? ['hookline', 'hookline/*'] : []
  buildSync({
    entryPoints: [
      'start',
      'store/sqlite/thread',
      'store/sqlite/checkpoint',
      'settings/read-thread',
    ].map((entry) => join(from, `${entry}.ts`)),
    // The threads are looked for beside the file that starts them.
    entryNames: '[name]',
    outdir: to,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'es2023',
    // Its paths lead to the sources of the SDK.
    tsconfig: join(ROOT, 'tsconfig.json'),
    // SQLite and YAML are loaded when they are needed: the first needs its own files, and the names of the second would be
    // lost, because it is CommonJS. The last one is not installed.
    external: [...built, '@photostructure/sqlite', 'yaml', 'pg-native'],
    // For the packages that are CommonJS.
    banner: {
      js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`,
    },
    logLevel: 'error',
  })
}

function compile(from: string, to: string): void {
  const files = readdirSync(from, { recursive: true, encoding: 'utf8' })
  buildSync({
    entryPoints: files.filter((file) => /\.[mc]?ts$/.test(file)).map((file) => join(from, file)),
    outbase: from,
    outdir: to,
    target: 'es2023',
    sourcemap: 'inline',
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, experimentalDecorators: true } },
  })
}
