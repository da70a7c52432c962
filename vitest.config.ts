import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/longest-first.js'
import tsconfig from './tsconfig.json' with { type: 'json' }

// The examples and the destination import the SDK by its name, and the tests run its sources. `npm run matrix` sets
// HOOKLINE_PACKAGE to the folder of the built package: then the tests run the built entries instead.
const { HOOKLINE_PACKAGE: built } = process.env
const entries = Object.entries(tsconfig.compilerOptions.paths)
const alias = entries.flatMap(([specifier, [source = '']]) => {
  const byName = new RegExp(`^${specifier}$`)
  if (!built) return [{ find: byName, replacement: join(import.meta.dirname, source) }]
  const [, name = 'index'] = specifier.split('/')
  const byPath = new RegExp(`^(?:\\.\\./)+${source.slice('./'.length, -'.ts'.length)}\\.js$`)
  return [byName, byPath].map((find) => ({ find, replacement: `${built}/dist/${name}.js` }))
})

/** Compiles the sources for the processes and threads that tests start. */
const COMPILE = join(import.meta.dirname, 'test/compile.ts')

const TEMPORARY = join(import.meta.dirname, 'test/temporary.ts')

/**
 * The threads that the destination's sources start run the same sources, compiled: they start in a fraction of
 * the time that TypeScript takes. They get none of the flags of the test process, with which each thread would load a
 * script of Vitest.
 */
const compiledThreads = {
  name: 'compiled-threads',
  transform: (code: string, id: string) => {
    const folder = join(import.meta.dirname, 'destination/src')
    if (!id.startsWith(folder) || !code.includes('new Worker(')) return undefined
    const compiled = join(
      process.env['HOOKLINE_COMPILED'] ?? '',
      relative(folder, dirname(id)),
      '/',
    )
    return code
      .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(compiled).href))
      .replaceAll('{ workerData }', '{ workerData, execArgv: [] }')
  },
}

/**
 * A run of all tests loads the destination's sources and the SDK's as they were compiled, with Node's own loader. Vite would
 * compile them again, and would load them anew in each process with calls that take longer. To watch, it must know them.
 */
const compiledSources = {
  name: 'compiled-sources',
  enforce: 'pre' as const,
  resolveId: (source: string, importer = '') => {
    const path = resolve(dirname(importer), source).replace(/\.js$/, '.ts')
    const place = COMPILED_TO.find(([from]) => path.startsWith(`${from}/`) && path.endsWith('.ts'))
    if (!place) return undefined
    const [from, to] = place
    const compiled = join(process.env['HOOKLINE_COMPILED'] ?? '', to, relative(from, path))
    return compiled.replace(/\.ts$/, '.js')
  },
}

/** Where sources are in the folder of the compiled ones. */
const COMPILED_TO = [
  [join(import.meta.dirname, 'destination/src'), '.'],
  [join(import.meta.dirname, 'src'), 'hookline'],
] as const

const isWatching = !process.argv.includes('run')

/** They need a Chromium: `npm run test:page`. */
const BROWSER_TESTS = 'test/page/{*page,portal}.test.ts'

/** Processes that are killed, disks that fill up, takeovers, several servers: `npm run test:faults`. */
const FAULT_TESTS = 'test/**/*.fault.test.ts'

/** The code of the documents and the examples, which is compiled and run in many languages: `npm run test:docs`. */
const DOCS_TESTS = 'test/**/*.docs.test.ts'

const hookline = {
  include: ['test/**/*.test.ts'],
  globalSetup: [TEMPORARY, COMPILE],
  setupFiles: ['test/setup.ts'],
  testTimeout: 120_000,
  hookTimeout: 60_000,
  // No file leaves anything to another, and each process of its own would load the same sources.
  isolate: false,
  // Scripts that end run side by side: most of them wait for the grace that an outage gets at exit.
  maxConcurrency: 16,
}

const destination = {
  root: 'destination',
  include: ['test/**/*.test.ts'],
  globalSetup: [TEMPORARY, COMPILE, `${import.meta.dirname}/destination/scripts/build-page.js`],
  testTimeout: 180_000,
  hookTimeout: 120_000,
  // For what takes a moment, and longer beside other work. What is longest is a lease of 30 s: a message waits for its end if the answer
  // to its claim was lost.
  expect: { poll: { timeout: 60_000 } },
  isolate: false,
  // The tests of a file that run side by side wait most of their time.
  maxConcurrency: 8,
}

export default defineConfig({
  test: {
    // Many files wait more than they work: four at a time on two cores.
    maxWorkers: Math.max(4, availableParallelism() - 1),
    sequence: { sequencer: LongestFirst },
    tags: [
      {
        name: 'long',
        description:
          'Works for a second or more, or waits for many. `npm test` leaves it out, `npm run test:long` runs it.',
      },
    ],
    projects: [
      {
        resolve: { alias },
        test: { ...hookline, name: 'hookline', exclude: [FAULT_TESTS, DOCS_TESTS] },
      },
      {
        resolve: { alias },
        test: { ...hookline, name: 'hookline-faults', include: [FAULT_TESTS] },
      },
      {
        resolve: { alias },
        test: { ...hookline, name: 'hookline-docs', include: [DOCS_TESTS] },
      },
      {
        plugins: [isWatching ? compiledThreads : compiledSources],
        resolve: { alias },
        test: {
          ...destination,
          name: 'destination',
          setupFiles: isWatching ? [] : ['test/reused-threads.ts'],
          exclude: [BROWSER_TESTS, FAULT_TESTS, DOCS_TESTS],
        },
      },
      {
        plugins: [compiledThreads],
        resolve: { alias },
        test: { ...destination, name: 'destination-faults', include: [FAULT_TESTS] },
      },
      {
        plugins: [compiledThreads],
        resolve: { alias },
        test: { ...destination, name: 'destination-docs', include: [DOCS_TESTS] },
      },
      {
        plugins: [compiledThreads],
        resolve: { alias },
        test: { ...destination, name: 'page', include: [BROWSER_TESTS] },
      },
    ],
  },
})
