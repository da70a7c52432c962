// Proof 5: one client, one endpoint, and chance. A seed decides what happens; a model knows what may come of it.
import { planOf, THEMES } from '../random/plan.js'
import { play } from '../random/play.js'
import { breachesIn } from '../random/promises.js'
import { storyOf } from '../random/story.js'
import { viewsOf } from '../random/view.js'

/** Rounds wait most of their time: two cores bear several at once. */
const AT_ONCE = 8
const QUICK_MS = 55_000
const FULL_MS = 180_000
/** Rounds that begin in the last seconds would be cut short. */
const LAST_START_MS = 8_000
/** Seeds of a run that is not told where to begin. */
const SEEDS = 1_000_000
/** The round of a seed, judged. */
async function judged(seed, given) {
  const plan = planOf(seed)
  const record = await play(plan, given)
  if (record.isCut) return { isCut: true }
  const views = viewsOf(record)
  const breaches = breachesIn(views)
  return {
    theme: plan.theme,
    breaches,
    story: storyOf(record, views, breaches),
    faults: breaches.map(({ promise, fault }) => `seed ${seed}: ${promise}: ${fault}`),
    messages: views[0].made,
    requests: record.endpoint.filter(({ kind }) => kind === 'request').length,
  }
}

/** Which seeds are played, and for how long: one, so many, those of a mutant, or new ones until the time is over. */
function scopeOf({ isQuick, seed, rounds, minutes, seeds }) {
  if (seeds) return { seeds, forMs: Infinity }
  if (seed !== undefined && minutes === undefined)
    return { seeds: upFrom(seed, rounds ?? 1), forMs: Infinity }
  // The quick run is a part of CI: the same seeds each time, so that only a change turns it red.
  const first = seed ?? (isQuick ? 0 : Math.floor(Math.random() * SEEDS))
  const forMs = minutes ? minutes * 60_000 : isQuick ? QUICK_MS : FULL_MS
  return { seeds: upFrom(first, rounds ?? Infinity), forMs: rounds ? Infinity : forMs }
}

function* upFrom(first, count) {
  for (let seed = first; seed < first + count; seed += 1) yield seed
}

/** Plays rounds side by side until there are no more seeds, the time is over, or `isEnough` says so. */
async function playAll({ seeds, forMs }, { env, isEnough, told }) {
  const queue = seeds[Symbol.iterator]()
  const stop = new AbortController()
  const stopAt = performance.now() + forMs
  const timer = Number.isFinite(forMs) ? setTimeout(() => stop.abort(), forMs) : undefined
  const rounds = []
  async function lane() {
    while (!stop.signal.aborted && performance.now() < stopAt - LAST_START_MS) {
      const { value: seed, done } = queue.next()
      if (done) return
      const { story, ...round } = await judged(seed, { env, signal: stop.signal })
      if (round.isCut) return
      rounds.push(round)
      told(rounds, story)
      if (isEnough(round)) stop.abort()
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  clearTimeout(timer)
  return rounds
}

const isBroken = ({ breaches }) => breaches.length > 0
const countsOf = (rounds, key) => rounds.reduce((total, one) => total + one[key], 0)

const rowsOf = (rounds) =>
  Object.keys(THEMES).map((theme) => {
    const own = rounds.filter((one) => one.theme === theme)
    const broken = own.filter(isBroken).length
    return [theme, own.length, countsOf(own, 'messages'), countsOf(own, 'requests'), broken]
  })

export default {
  number: 5,
  title: 'SDK alone, at random',
  what: 'A seed chooses the options of a client, its load, its calls of `flush` and `close` and how it ends, and what its endpoint does over time: latencies, statuses, resets, silence, hostile answers, outages, frozen processes, messages that always fail. A model of what is documented then judges the records of both sides: books, truth, order, repeats, pressure, progress and reports. Green: no promise is broken in any round. `--seed N` plays one round again and tells its story.',
  async run({ env, progress, says, ...given }) {
    const rounds = await playAll(scopeOf(given), {
      env,
      // One breach for the right reason is all that a mutant needs.
      isEnough: ({ faults }) => says !== undefined && faults.some((fault) => says.test(fault)),
      told: (all, story) => {
        progress('')
        // At once: a run may take hours, and keeps no stories.
        const isAsked = given.seed !== undefined && given.rounds === undefined
        if (says === undefined && (isAsked || isBroken(all.at(-1)))) console.log(story.join('\n'))
        progress(`${all.length} rounds, ${all.filter(isBroken).length} broken`)
      },
    })
    const broken = rounds.filter(isBroken)
    return {
      faults: broken.flatMap(({ faults }) => faults),
      summary: `${rounds.length} rounds, ${countsOf(rounds, 'messages')} messages in ${countsOf(rounds, 'requests')} requests: ${broken.length} rounds with a broken promise`,
      head: ['theme', 'rounds', 'messages', 'requests', 'broken'],
      rows: rounds.length > 1 ? rowsOf(rounds) : [],
    }
  },
}
