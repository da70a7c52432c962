// Proof 5: one client, one endpoint, and chance. A seed decides what happens; a model knows what may come of it.
import { clock } from '../random/clock.js'
import { planOf, THEMES } from '../random/plan.js'
import { play } from '../random/play.js'
import { breachesIn } from '../random/promises.js'
import { storyOf } from '../random/story.js'
import { viewsOf } from '../random/view.js'

/** Rounds wait most of their time: two cores bear several at once. */
const AT_ONCE = 8
const QUICK_MS = 55_000
const FULL_MS = 180_000
/** A story for each of so many broken rounds: more are rarely read. */
const MOST_STORIES = 5

/** The round of a seed, judged. */
async function judged(seed, given) {
  const plan = planOf(seed)
  if (plan.client.spool === undefined) throw new Error(`The plan of seed ${seed} is not complete.`)
  const record = await play(plan, given)
  if (record.isCut) return { seed, isCut: true, breaches: [] }
  const views = viewsOf(record)
  const breaches = breachesIn(views)
  return {
    seed,
    theme: plan.theme,
    breaches,
    story: () => storyOf(record, views, breaches),
    messages: views[0].made,
    requests: record.endpoint.filter(({ kind }) => kind === 'request').length,
  }
}

/** Seeds one after the other, until there are no more of them or no more time. */
function* seedsFrom(first, rounds, until) {
  for (let seed = first; seed < first + rounds && clock() < until; seed += 1) yield seed
}

const countsOf = (rounds, key) => rounds.reduce((total, one) => total + one[key], 0)

function rowsOf(rounds) {
  return Object.keys(THEMES).map((theme) => {
    const own = rounds.filter((one) => one.theme === theme)
    const broken = own.filter(({ breaches }) => breaches.length > 0)
    const { length } = own
    return [theme, length, countsOf(own, 'messages'), countsOf(own, 'requests'), broken.length]
  })
}

export default {
  number: 5,
  title: 'SDK alone, at random',
  what: 'A seed chooses the options of a client, its load, its calls of `flush` and `close` and how it ends, and what its endpoint does over time: latencies, statuses, resets, silence, hostile answers, outages, frozen processes, messages that always fail. A model of what is documented then judges the records of both sides: books, truth, order, repeats, pressure, progress and reports. Green: no promise is broken in any round. `--seed N` plays one round again and tells its story.',
  async run({ isQuick, env, progress, seed, rounds, minutes, seeds: given }) {
    const budgetMs = minutes ? minutes * 60_000 : isQuick ? QUICK_MS : FULL_MS
    const start = clock()
    const isOne = seed !== undefined && rounds === undefined && minutes === undefined
    // The quick run is a part of CI: the same seeds each time, so that a change is what turns it red.
    const first = seed ?? (isQuick ? 0 : Math.floor(Math.random() * 1e6))
    const most = rounds ?? (isOne ? 1 : Infinity)
    const isBounded = !isOne && rounds === undefined && !given
    const until = isBounded ? start + budgetMs : Infinity
    const queue = given ? given[Symbol.iterator]() : seedsFrom(first, most, until - 8_000)
    const done = []
    const faults = []
    const worker = async () => {
      for (const next of queue) {
        const one = await judged(next, { env, deadline: until })
        done.push(one)
        progress(
          `${done.length} rounds, ${done.filter(({ breaches }) => breaches.length > 0).length} broken`,
        )
        if (one.breaches.length > 0 && faults.length < MOST_STORIES)
          faults.push(one.story().join('\n   '))
        else
          for (const { promise, fault } of one.breaches)
            faults.push(`seed ${one.seed}: ${promise}: ${fault}`)
        if (isOne && one.breaches.length === 0) console.log(one.story().join('\n'))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
    const judgedRounds = done.filter(({ isCut }) => !isCut)
    const broken = judgedRounds.filter(({ breaches }) => breaches.length > 0)
    return {
      faults,
      summary: `${judgedRounds.length} rounds from seed ${given?.[0] ?? first}, ${countsOf(judgedRounds, 'messages')} messages in ${countsOf(judgedRounds, 'requests')} requests: ${broken.length} rounds with a broken promise`,
      head: ['theme', 'rounds', 'messages', 'requests', 'broken'],
      rows: isOne ? [] : rowsOf(judgedRounds),
    }
  },
}
