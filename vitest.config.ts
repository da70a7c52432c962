import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

// Examples and the destination import the package by its name; the tests run its sources. Or, in `npm run matrix`,
// what is public is the built package that lies in this folder.
const { HOOKLINE_PACKAGE: built } = process.env
const entries = 'express|fastify|fetch|hono|index|koa|lambda|request-context|testing|webhook'
const alias = built
  ? [
      { find: /^hookline$/, replacement: `${built}/dist/index.js` },
      { find: /^hookline\/(.*)$/, replacement: `${built}/dist/$1.js` },
      {
        find: new RegExp(`^(?:\\.\\./)+src/(${entries})\\.js$`),
        replacement: `${built}/dist/$1.js`,
      },
    ]
  : [
      { find: /^hookline$/, replacement: `${import.meta.dirname}/src/index.ts` },
      { find: /^hookline\/(.*)$/, replacement: `${import.meta.dirname}/src/$1.ts` },
    ]

/** They need a Chromium: `npm run test:page`. */
const BROWSER_TESTS = 'test/page/page.test.ts'

const destination = {
  root: 'destination',
  include: ['test/**/*.test.ts'],
  globalSetup: [
    `${import.meta.dirname}/destination/test/compile.ts`,
    `${import.meta.dirname}/destination/scripts/build-page.js`,
  ],
  testTimeout: 30_000,
  hookTimeout: 30_000,
  // For what takes a moment, and longer beside other work.
  expect: { poll: { timeout: 20_000 } },
  // No file leaves anything to another, and each process of its own would load the same sources.
  isolate: false,
  // For the threads that the sources start.
  execArgv: ['--import', `${import.meta.dirname}/destination/test/typescript.js`],
}

export default defineConfig({
  test: {
    // Many files wait more than they work: two at a time on the smallest machine.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      {
        resolve: { alias },
        test: {
          name: 'hookline',
          include: ['test/**/*.test.ts'],
          typecheck: { enabled: !built, include: ['test/**/*.test-d.ts'] },
          testTimeout: built ? 120_000 : 20_000,
          // Scripts that end run side by side: most of them wait for the grace that an outage gets at exit.
          maxConcurrency: 16,
        },
      },
      {
        resolve: { alias },
        test: { ...destination, name: 'destination', exclude: [BROWSER_TESTS] },
      },
      {
        resolve: { alias },
        test: { ...destination, name: 'page', include: [BROWSER_TESTS] },
      },
    ],
  },
})
