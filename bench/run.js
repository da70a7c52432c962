// Measures hookline and its peers against a hand-written minimum: see README.md.
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { printResult, toResultsPage } from './report.js'
import { runRounds } from './rounds.js'
import { LIMIT, NOOP, OURS, SUBJECTS } from './subjects/index.js'
import { judge } from './targets.js'

/** Each part has a separate page of results. */
const PARTS = {
  sdk: ['hot', 'tight', 'e2e', 'steady', 'outage', 'spool', 'footprint', 'verify'],
  destination: ['path', 'accepts', 'backlog', 'isolation', 'flood', 'sweep', 'growth'],
  'destination-postgres': ['postgres'],
}
const pageOf = (part) => (part === 'sdk' ? 'results.md' : `results-${part}.md`)
const SCENARIOS = Object.values(PARTS).flat()

const USAGE =
  'Usage: node bench/run.js [--only NAMES] [--subjects NAMES] [--runs N] [--profile] [--quick] [--no-fail]. See bench/README.md.'

const flags = readFlags()

function readFlags() {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: 'string' },
        subjects: { type: 'string' },
        runs: { type: 'string' },
        profile: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        'no-fail': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (!values.help) return values
    console.log(USAGE)
    process.exit(0)
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`)
    process.exit(2)
  }
}

const listOf = (text) => text?.split(',').filter(Boolean)
const names = (listOf(flags.only) ?? SCENARIOS).flatMap((name) => PARTS[name] ?? name)
const chosen = listOf(flags.subjects) ?? (flags.quick ? [NOOP, LIMIT, OURS] : undefined)

// A misspelled name is an error, because a run that measures nothing would look like a success.
refuseUnknown('scenario', names, SCENARIOS)
refuseUnknown('subject', chosen ?? [], SUBJECTS)

function refuseUnknown(kind, given, known) {
  const unknown = given.filter((name) => !known.includes(name))
  if (unknown.length === 0) return
  console.error(`No ${kind} ${unknown.join(', ')}. There are ${known.join(', ')}.`)
  process.exit(2)
}

const runsAsked = flags.runs === undefined ? undefined : Number(flags.runs)
if (runsAsked !== undefined && !(Number.isInteger(runsAsked) && runsAsked > 0)) {
  console.error(`--runs takes a whole number from 1, not ${flags.runs}.`)
  process.exit(2)
}
/** The subjects of a scenario that were requested, and those that its ratios need. */
const subjectsOf = ({ subjects, requires = [] }) =>
  chosen
    ? [...new Set([...requires, ...chosen.filter((name) => isMeasuredIn(name, subjects))])]
    : subjects

const isMeasuredIn = (name, subjects) =>
  subjects.includes(name) || subjects.includes(name.replace(/-plain$/, ''))

const progress = (text) => {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`)
}

// Other load on the machine hardly affects CPU times and ratios.
// It does affect clock times (import, latency, blocked loop).
const [load] = loadavg()
if (load > 0.5)
  console.log(`Other processes are busy (load ${load.toFixed(1)}): times will be longer.`)

const results = []
for (const name of names) {
  const { default: scenario } = await import(`./scenarios/${name}.js`)
  const collect = scenario.collect ?? ((options) => runRounds(scenario, options))
  const subjects = subjectsOf(scenario)
  const rows = await collect({
    subjects,
    runs: runsAsked ?? (flags.quick ? 3 : scenario.runs),
    isQuick: flags.quick,
    isProfiled: flags.profile,
    progress,
  })
  const verdicts = subjects.includes(OURS) ? judge(scenario, rows) : []
  results.push({ scenario, rows, verdicts })
  progress('')
  console.log(printResult(results.at(-1)))
}

const here = new URL('./', import.meta.url)
mkdirSync(new URL('build/', here), { recursive: true })
writeFileSync(
  new URL('build/results.json', here),
  JSON.stringify(
    results.map(({ scenario, ...rest }) => ({ scenario: scenario.name, ...rest })),
    undefined,
    2,
  ),
)
// A run of only some scenarios, or a quick run, does not replace the page of results.
const isQuickLook = flags.subjects || flags.runs || flags.quick || flags.profile
for (const [part, scenarios] of Object.entries(PARTS)) {
  if (isQuickLook || !scenarios.every((name) => names.includes(name))) continue
  const machine = `Node ${process.versions.node}, ${availableParallelism()} cores (${cpus()[0].model}), load ${load.toFixed(1)} before`
  const date = new Date().toISOString().slice(0, 10)
  const own = results.filter(({ scenario }) => scenarios.includes(scenario.name))
  writeFileSync(new URL(pageOf(part), here), toResultsPage(own, { machine, date }))
}

const missed = results.flatMap(({ verdicts }) => verdicts).filter(({ isMet }) => !isMet)
if (missed.length > 0) {
  console.log(`\n${missed.length} targets missed:`)
  for (const { what, variant } of missed)
    console.log(`  ${[what, variant].filter(Boolean).join(', ')}`)
  if (!flags['no-fail']) process.exitCode = 1
}
