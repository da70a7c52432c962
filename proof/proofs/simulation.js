// Proof 6: the deliver stage of the destination on a virtual clock. A seed decides what happens; a judge knows what may.
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))
const bundle = join(root, 'proof/build/simulation.mjs')

const QUICK_MS = 55_000
const FULL_MS = 180_000
/** Seeds of a run that is not told where to begin. */
const SEEDS = 100_000_000
/** The search for a mutant ends at the first round that sees it. */
const SEEDS_A_MUTANT = 200

/** The simulation is written in TypeScript, as the tests are, which run it too. */
async function load() {
  await build({
    entryPoints: [join(root, 'destination/test/simulation/round.ts')],
    ...{ outfile: bundle, bundle: true, platform: 'node', format: 'esm', logLevel: 'error' },
  })
  return import(pathToFileURL(bundle).href)
}

function* upFrom(first, count = Infinity) {
  for (let seed = first; seed < first + count; seed += 1) yield seed
}

/** Which seeds are played until when: some of a theme, one, so many, or as many as the time allows. */
function* seedsFor({ isQuick, seed, rounds, minutes, theme, seedsOf }) {
  const until = (ms) => {
    const end = performance.now() + ms
    return () => performance.now() < end
  }
  const within = function* (first, isInTime) {
    for (const one of upFrom(first)) {
      if (!isInTime()) return
      yield one
    }
  }
  const any = () => Math.floor(Math.random() * SEEDS)
  if (theme) yield* seedsOf(theme, SEEDS_A_MUTANT)
  else if (seed !== undefined && minutes === undefined) yield* upFrom(seed, rounds ?? 1)
  else if (rounds !== undefined) yield* upFrom(seed ?? any(), rounds)
  else if (minutes !== undefined) yield* within(seed ?? any(), until(minutes * 60_000))
  // The quick run is a part of CI: the same seeds each time, so that only a change turns it red. New ones are played at
  // night, by .github/workflows/nightly.yml.
  else if (isQuick) yield* within(0, until(QUICK_MS))
  else yield* within(any(), until(FULL_MS))
}

/** Plays rounds in one thread for each core, until there are no more seeds or `isEnough` says so. */
async function playAll(seeds, { destination, isEnough, told }) {
  const rounds = []
  let isOver = false
  async function lane() {
    const thread = new Worker(new URL('../simulation/thread.js', import.meta.url), {
      workerData: { bundle, destination },
    })
    try {
      for (const seed of seeds) {
        if (isOver) break
        thread.postMessage(seed)
        const [round] = await once(thread, 'message').catch((error) => [crashed(seed, error)])
        rounds.push(round)
        told(rounds)
        if (isEnough(round)) isOver = true
        if (round.isCrash) break
      }
    } finally {
      await thread.terminate()
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, lane))
  return rounds
}

function crashed(seed, error) {
  const faults = [`seed ${seed}: crash: ${error.stack ?? error}`]
  const none = { messages: 0, requests: 0, repeats: 0, simulatedMs: 0 }
  return { seed, theme: '', faults, story: faults, isCrash: true, ...none }
}

const isBroken = ({ faults }) => faults.length > 0
const sumOf = (rounds, key) => rounds.reduce((total, one) => total + one[key], 0)
const minutesOf = (rounds) => Math.round(sumOf(rounds, 'simulatedMs') / 60_000)

const rowsOf = (rounds, themes) =>
  themes.map((theme) => {
    const own = rounds.filter((one) => one.theme === theme)
    const sums = ['messages', 'requests', 'repeats'].map((key) => sumOf(own, key))
    return [theme, own.length, minutesOf(own), ...sums, own.filter(isBroken).length]
  })

export default {
  number: 6,
  title: 'The destination on a virtual clock',
  what: 'The dispatcher, the queues, the breakers, the settler and the shared breakers of the destination run on a virtual clock, with a store in memory that keeps the contract of the real stores, or on the engine of the SQLite store. A seed decides what happens: endpoints that differ, fail, throttle, refuse, reset, hang and change their secret; messages that fail for ever; bursts and bulk work; reloads; users that are deleted; workers that are killed, closed, suspended or join; a store that is full, away or does not answer; a clock that jumps. A judge sees every call of the store and every request. Green: each accepted message is stored once and is delivered, dead or waiting; none is dead before its window and its three attempts, but those that every endpoint refused; none is sent after its window; no lease is lost by a worker that lives; no attempt that is fenced off counts; no endpoint is above its limits; one that is down gets probes only; what is switched off gets nothing; no request of a deleted user begins, or none 3 s later where a worker was not told; what is due does not wait while an endpoint gets less than a tenth of what it could take (for more than 15 s where nothing failed for 10 minutes, 100 s after an outage, 60 s where it answers 429, and 900 s, for messages that were not tried, among others that fail for ever); bulk work delays no other; and in the end nothing waits. `--seed N` plays one round again. Not simulated: HTTP, TLS and DNS, PostgreSQL, the disk and audiences. A process on SQLite that is killed saves the time of its clock, as one that is closed does.',
  async run({ env, progress, says, ...given }) {
    const { seedsOf, THEMES } = await load()
    const destination = env?.HOOKLINE_DESTINATION ?? join(root, 'destination')
    const startedAt = performance.now()
    const rounds = await playAll(seedsFor({ ...given, seedsOf }), {
      destination,
      // One breach for the right reason is all that a mutant needs.
      isEnough: ({ faults }) => says !== undefined && faults.some((fault) => says.test(fault)),
      told: (all) => {
        const last = all.at(-1)
        const isAsked = given.seed !== undefined && given.rounds === undefined
        if (says === undefined && (isAsked || isBroken(last))) {
          progress('')
          console.log(last.story.join('\n'))
        }
        progress(`${all.length} rounds, ${all.filter(isBroken).length} broken`)
      },
    })
    const seconds = (performance.now() - startedAt) / 1_000
    const minutes = minutesOf(rounds)
    const broken = rounds.filter(isBroken)
    return {
      faults: broken.flatMap(({ faults }) => faults),
      summary: `${rounds.length} rounds, ${minutes} simulated minutes, ${Math.round(minutes / seconds)} in a second; ${sumOf(rounds, 'messages')} messages in ${sumOf(rounds, 'requests')} requests: ${broken.length} rounds with a broken promise`,
      head: [
        'theme',
        'rounds',
        'minutes',
        'messages',
        'requests',
        'sent again after a 200',
        'broken',
      ],
      rows: rounds.length > 1 ? rowsOf(rounds, Object.keys(THEMES)) : [],
    }
  },
}
