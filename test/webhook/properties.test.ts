import fc from 'fast-check'
import { test } from 'vitest'
import { properties } from './properties.js'

// A short run of what `npm run fuzz` runs for longer.
test.each(Object.entries(properties))('%s', async (_claim, property) => {
  await fc.assert(property as fc.IAsyncProperty<unknown>, { numRuns: 300 })
})
