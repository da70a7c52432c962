import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    typecheck: { enabled: true, include: ['test/**/*.test-d.ts'] },
    testTimeout: 20_000,
    // Scripts that end run side by side: most of them wait for the grace that an outage gets at exit.
    maxConcurrency: 16,
  },
})
