// Runs the proofs: `npm run proof`, see docs/proofs.md.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { format, resolveConfig } from 'prettier'
import { atEnd } from './cleanup.js'
import { SCRIPTS } from './faults.js'
import { checkMutants, makeMutant, MUTANTS, removeMutants } from './mutants.js'
import { toPage } from './page.js'
import chain from './proofs/chain.js'
import failover from './proofs/failover.js'
import faults from './proofs/faults.js'
import fsync from './proofs/fsync.js'
import random from './proofs/random.js'
import simulation from './proofs/simulation.js'
import soak from './proofs/soak.js'
import spool from './proofs/spool.js'

const PROOFS = [faults, spool, chain, fsync, random, simulation, soak, failover]
const page = fileURLToPath(new URL('../docs/proofs.md', import.meta.url))

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    'self-test': { type: 'boolean', default: false },
    // Of proofs 5 to 7: which round, how many of them, or for how long.
    seed: { type: 'string' },
    rounds: { type: 'string' },
    minutes: { type: 'string' },
  },
})
const numbers = flags.only?.split(',').map(Number) ?? PROOFS.map(({ number }) => number)
const unknown = numbers.filter((number) => !PROOFS.some((proof) => proof.number === number))
// A misspelled number is an error, because a run without a proof would look like a success.
if (unknown.length > 0)
  throw new Error(
    `There is no proof ${unknown.join(', ')}: --only takes some of ${PROOFS.map(({ number }) => number)}.`,
  )
if (flags.write && (flags.quick || flags.only))
  throw new Error('--write needs a full run, of all proofs.')
if (!existsSync(new URL('../destination/dist/main.js', import.meta.url)))
  throw new Error('Build first: npm run proof does.')
if (flags['self-test'] || flags.write) checkMutants()
const chosen = PROOFS.filter(({ number }) => numbers.includes(number))

const numberOf = (name) => {
  if (flags[name] === undefined) return undefined
  const number = Number(flags[name])
  if (!(number >= 0)) throw new Error(`--${name} takes a number, not “${flags[name]}”.`)
  return number
}
const chance = {
  seed: numberOf('seed'),
  rounds: numberOf('rounds'),
  minutes: numberOf('minutes'),
}

const progress = (text) => {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text.slice(0, 100)}`)
}
atEnd(removeMutants)
/** How long to wait for messages that are late after failed attempts. A message that arrives later counts as lost. */
const MUTANT_DRAIN_MS = 40_000

const startedAt = performance.now()
let isRed = false

/** A proof that does not finish counts as failed. */
async function tried(proof, options) {
  try {
    return await proof.run({ isQuick: flags.quick, progress, ...options })
  } catch (error) {
    const faults = [`it could not be run: ${error.stack}`]
    return { faults, wasRun: false, summary: '', head: [], rows: [] }
  }
}

const results = []
for (const proof of chosen) {
  const result = await tried(proof, chance)
  progress('')
  results.push({ proof, result })
  if (result.skipped) {
    console.log(`${proof.number}. ${proof.title}: left out: ${result.skipped}.`)
    continue
  }
  const isGreen = result.faults.length === 0
  if (!isGreen) isRed = true
  console.log(`${proof.number}. ${proof.title}: ${isGreen ? 'green' : 'RED'}. ${result.summary}`)
  for (const fault of result.faults) console.log(`   ${fault}`)
  if (!flags.quick && result.rows.length > 0) {
    const table = new Table({ head: result.head, style: { head: [], border: [] } })
    table.push(...result.rows)
    console.log(table.toString())
  }
}

const mutants = []
if (flags['self-test'] || flags.write) {
  for (const [number, mutant] of MUTANTS.entries()) {
    const proof = chosen.find((one) => one.number === mutant.proof)
    if (!proof || results.some((one) => one.proof === proof && one.result.skipped)) continue
    const env = makeMutant(mutant, number)
    const scripts = SCRIPTS.filter(({ name }) => mutant.scripts?.includes(name))
    progress(`mutant: ${mutant.name}`)
    const options = {
      isQuick: true,
      env,
      scripts,
      seeds: mutant.seeds,
      theme: mutant.theme,
      says: mutant.says,
      drainMs: MUTANT_DRAIN_MS,
      progress: () => undefined,
    }
    let result = await tried(proof, options)
    // That it could not be run says nothing of the mutant.
    if (result.wasRun === false) {
      console.log(`   ${result.faults[0]}`)
      result = await tried(proof, options)
    }
    progress('')
    const fault = result.faults.find((one) => mutant.says.test(one))
    const isCaught = fault !== undefined
    if (!isCaught) isRed = true
    mutants.push({ ...mutant, isCaught, fault })
    console.log(
      `   mutant, proof ${mutant.proof}: ${mutant.name}: ${isCaught ? `red, as it must be: ${fault}` : `NOT SEEN. ${result.faults[0] ?? 'No promise was broken.'}`}`,
    )
  }
}

const seconds = Math.round((performance.now() - startedAt) / 1_000)
console.log(`${isRed ? 'Red' : 'Green'}, in ${seconds} s.`)
if (flags.write && !isRed) {
  const style = { ...(await resolveConfig(page)), parser: 'markdown' }
  mkdirSync(dirname(page), { recursive: true })
  writeFileSync(page, await format(toPage({ results, mutants, seconds }), style))
  console.log('Written: docs/proofs.md')
}
process.exit(isRed ? 1 : 0)
