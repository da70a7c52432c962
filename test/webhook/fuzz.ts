// Runs the properties of the signature for a bounded time: npm run fuzz -- [seconds] [seed]
import fc from 'fast-check'
import { properties } from './properties.js'

const [seconds = 20, seed = Date.now() % 0x7fffffff] = process.argv.slice(2).map(Number)
const claims = Object.entries(properties)
const limitMs = (seconds * 1000) / claims.length

for (const [claim, property] of claims) {
  const run = await fc.check(property as fc.IAsyncProperty<unknown>, {
    seed,
    numRuns: Infinity,
    interruptAfterTimeLimit: limitMs,
    markInterruptAsFailure: false,
  })
  console.log(
    `${run.failed ? 'FAILED' : 'holds'} after ${run.numRuns} runs, seed ${seed}: ${claim}`,
  )
  if (run.failed) {
    console.log(fc.defaultReportMessage(run))
    process.exitCode = 1
  }
}
