// Proof 7: the load of the simulation against real processes, files, sockets and a real PostgreSQL.
import { spawnSync } from 'node:child_process'
import { inParallel } from '../parallel.js'
import { play } from '../soak/play.js'
import { planOf, seedsOf, THEMES } from '../soak/plan.js'

/** With SLOW=1, rounds of a minute or two are played for an hour, unless `--minutes` says otherwise. */
const isSlow = Boolean(process.env.SLOW)
const SLOW_MINUTES = 60
const SEEDS = 100_000_000
const AT_ONCE = 2
/** Of a run that must be short: one round of each of the first themes. */
const SHORT_SEEDS = [0, 1, 2, 3]
const ROUNDS_A_MUTANT = 12

function* seedsFor({ isShort, seed, rounds, minutes, theme }) {
  if (theme) return yield* seedsOf(theme, ROUNDS_A_MUTANT)
  if (seed !== undefined || rounds !== undefined) {
    const first = seed ?? Math.floor(Math.random() * SEEDS)
    for (let n = 0; n < (rounds ?? 1); n += 1) yield first + n
    return
  }
  if (isShort && minutes === undefined) return yield* SHORT_SEEDS
  const end = performance.now() + (minutes ?? SLOW_MINUTES) * 60_000
  for (let next = Math.floor(Math.random() * SEEDS); performance.now() < end; next += 1) yield next
}

export default {
  number: 7,
  title: 'The destination under load, with everything at once',
  what: 'Real processes of the destination, with a SQLite file or on a real PostgreSQL with two or three workers, take calls from clients that send each call again until it is answered 200, and deliver them over real sockets to endpoints in a thread of the proof. A seed makes the plan of a round: endpoints that differ, fail, throttle, refuse, hang, reset, break off, close their port and change their secret; messages that fail until the end of the round; bursts and bulk work; audiences, deletions and replays; `kill -9`, SIGTERM and SIGSTOP; settings that are reloaded with SIGHUP, or are wrong: headers, limits, secrets, and destinations that are switched off, removed and renamed; a server of PostgreSQL that crashes; and a disk whose every `fdatasync` takes up to 300 ms longer. Then everything is healthy again. Green: each call that was answered 200 is stored and arrives where its settings sent it, and nowhere else; each signature is of a secret of its time; an endpoint is above its limits at no time, and one that is switched off gets nothing 1.5 s after all processes have logged the reload; nothing is sent again that was answered 200, but what was under way when a process or the server died or stood still; a destination that has a healthy endpoint with room gets each call in 15 s; only messages that every endpoint refused are dead; nothing waits in the end; the metrics, the status and the traces agree with what the endpoints recorded; each process confirms each reload, ends only when it is told to, and takes less than 400 MB. The time that processes waited for a CPU is not counted. `--seed N` plays the plan of a round again; the times of real processes differ, so it may not break the same promise again. Not covered: the 4 hours, jumps of the clock, TLS and DNS, and a slow disk below PostgreSQL.',
  async run({ isQuick, env, progress, says, ...given }) {
    const isShort = isQuick || !isSlow
    const hasStrace = spawnSync('strace', ['-V']).status === 0
    const rounds = []
    const seeds = seedsFor({ ...given, isShort })
    let isOver = false
    async function lane() {
      for (const seed of seeds) {
        if (isOver) return
        const plan = planOf(seed, { isShort })
        const round = await play(plan, { env, hasStrace })
        rounds.push({ seed, theme: plan.theme, ...round })
        if (says !== undefined && round.faults.some((fault) => says.test(fault))) isOver = true
        if (says === undefined && (round.faults.length > 0 || given.seed !== undefined)) {
          progress('')
          console.log(`seed ${seed}: ${plan.theme}\n${round.story.join('\n')}`)
        }
        progress(`${rounds.length} rounds, ${rounds.filter(isBroken).length} broken`)
      }
    }
    await inParallel([lane, lane], AT_ONCE, (one) => one())
    return resultOf(rounds, { isShort, hasStrace })
  },
}

const isBroken = ({ faults }) => faults.length > 0
const sumOf = (rounds, key) => rounds.reduce((sum, one) => sum + one[key], 0)

function resultOf(rounds, { isShort, hasStrace }) {
  const command = (seed) => `${isShort ? '' : 'SLOW=1 '}npm run proof -- --only 7 --seed ${seed}`
  const sum = (key) => sumOf(rounds, key)
  return {
    faults: rounds.flatMap(({ seed, faults }) =>
      faults.map((fault) => `seed ${seed}: ${fault} (${command(seed)})`),
    ),
    summary: `${rounds.length} rounds, ${sum('messages')} calls in ${sum('requests')} requests; ${sum('kills')} kills, ${sum('suspends')} suspensions, ${sum('restarts')} stops, ${sum('reloads')} reloads; ${sum('repeats')} requests sent again after a 200, ${sum('late')} of them answered too late${hasStrace ? '' : ' (strace is not installed: the slow disk is left out)'}; at most ${Math.round(Math.max(...rounds.map(({ peakMb }) => peakMb)))} MB: ${rounds.filter(isBroken).length} rounds with a broken promise`,
    head: [
      'theme',
      'rounds',
      'calls',
      'requests',
      'kills',
      'reloads',
      'sent again after a 200',
      'broken',
    ],
    rows: Object.keys(THEMES).flatMap((theme) => {
      const own = rounds.filter((one) => one.theme === theme)
      const sums = ['messages', 'requests', 'kills', 'reloads', 'repeats'].map((key) =>
        sumOf(own, key),
      )
      return own.length > 0 ? [[theme, own.length, ...sums, own.filter(isBroken).length]] : []
    }),
  }
}
