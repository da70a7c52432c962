// Runs a scenario round by round: every subject once, then every subject again. What disturbs the
// machine for a while then disturbs them alike, and ratios are taken within a round.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { median } from './measure.js'
import { LIMIT, OURS } from './subjects/index.js'

const path = (file) => fileURLToPath(new URL(file, import.meta.url))

/** A scenario caps each of its parts at 30 s; past all of them a child is stuck. */
const STUCK_MS = 180_000
const STDERR_KEPT = 2_000

const profiling = () => ['--cpu-prof', `--cpu-prof-dir=${path('build/profiles')}`]

function startCollector() {
  const collector = fork(path('collector.js'), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  let asked = 0
  const ask = (command, args = {}) =>
    new Promise((resolve, reject) => {
      asked += 1
      const id = asked
      const settle = (message) => {
        if (message.id !== id) return
        collector.off('message', settle)
        resolve(message.answer)
      }
      collector.on('message', settle)
      collector.once('exit', () => {
        reject(new Error('the collector ended'))
      })
      collector.send({ id, command, ...args })
    })
  return { ask, stop: () => collector.disconnect() }
}

/** @returns the measurement's flat record of numbers, or `{ error }` */
async function measureOnce(scenario, order, execArgv) {
  const collector = startCollector()
  const { endpoint } = await collector.ask('up')
  const child = fork(path('child.js'), [JSON.stringify({ ...order, endpoint })], {
    execArgv,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr = (stderr + chunk).slice(-STDERR_KEPT)
  })
  let result
  child.on('message', async ({ id, command, result: received, ...args }) => {
    if (received) result = received
    else child.send({ id, answer: await collector.ask(command, args) })
  })
  const stuck = setTimeout(() => child.kill('SIGKILL'), STUCK_MS)
  const [code, signal] = await once(child, 'exit')
  clearTimeout(stuck)
  collector.stop()
  if (result) return result
  const [lastWords = ''] = /^\w*Error.*$/m.exec(stderr) ?? []
  return { error: `ended with ${signal ?? code} ${lastWords}`.trim() }
}

/** Whether a subject has enough runs. After a run that failed or used up its time, another would end alike. */
const isEnough = ({ peerRuns = Infinity }, subject, records) =>
  records.some(({ isCapped, error }) => isCapped || error) ||
  (subject !== OURS && records.length >= peerRuns)

const ratiosTo = (base, scenario, own) =>
  Object.fromEntries(
    (scenario.ratios ?? []).map((key) => {
      const inRounds = own.flatMap((record, round) => {
        const by = base[round]?.[key]
        return by > 0 && Number.isFinite(record[key]) ? [record[key] / by] : []
      })
      return [key, inRounds.length > 0 ? median(inRounds) : undefined]
    }),
  )

const mediansOf = (records) => {
  const keys = new Set(records.flatMap(Object.keys))
  return Object.fromEntries(
    [...keys].flatMap((key) => {
      const values = records.map((record) => record[key]).filter(Number.isFinite)
      return values.length > 0 ? [[key, median(values)]] : []
    }),
  )
}

/** One row of the table: medians over the rounds, of figures and of ratios to `base`. */
export const toRow = (scenario, variant, subject, records, base) => {
  const measured = records.filter(({ error }) => !error)
  const faults = records.flatMap(({ error, faults = [] }) => (error ? [error] : faults))
  return {
    ...mediansOf(measured),
    variant: variant.name,
    subject,
    runs: records.length,
    isCapped: measured.some(({ isCapped }) => isCapped),
    faults: [...new Set(faults)],
    ratios: ratiosTo(base, scenario, records),
    records,
  }
}

/**
 * @param scenario a module of scenarios/
 * @param {{ subjects: string[], runs: number, isQuick: boolean,
 *   isProfiled: boolean, progress: (text: string) => void }} options
 * @returns a row for each variant and subject, with medians over the rounds
 */
export async function runRounds(scenario, { subjects, runs, isQuick, isProfiled, progress }) {
  const execArgv = [...(scenario.execArgv ?? []), ...(isProfiled ? profiling() : [])]
  const size = isQuick ? scenario.quickSize : scenario.size
  const rows = []
  for (const variant of scenario.variants ?? [{ name: '' }]) {
    const records = new Map(subjects.map((subject) => [subject, []]))
    for (let round = 0; round < runs; round += 1) {
      for (const subject of subjects) {
        const own = records.get(subject)
        if (isEnough(scenario, subject, own)) continue
        progress(`${scenario.name} ${variant.name} ${subject} ${round + 1}/${runs}`)
        const order = { scenario: scenario.name, subject, variant, size }
        const measured = await measureOnce(scenario, order, execArgv)
        own.push(measured)
      }
      scenario.derive?.(records, round)
    }
    const limit = records.get(LIMIT) ?? []
    for (const subject of subjects)
      rows.push(toRow(scenario, variant, subject, records.get(subject), limit))
  }
  return rows
}
