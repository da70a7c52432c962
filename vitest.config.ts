import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    // The examples import the package by its name; the tests run its sources.
    alias: [
      { find: /^hookline$/, replacement: `${import.meta.dirname}/src/index.ts` },
      { find: /^hookline\/(.*)$/, replacement: `${import.meta.dirname}/src/$1.ts` },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    typecheck: { enabled: true, include: ['test/**/*.test-d.ts'] },
    testTimeout: 20_000,
    // Scripts that end run side by side: most of them wait for the grace that an outage gets at exit.
    maxConcurrency: 16,
  },
})
