// Proof 1: a client and its endpoint, through every fault. Every event is accounted for.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { eventsIn } from '../../bench/decode.js'
import { SCRIPTS } from '../faults.js'
import { atEnd } from '../cleanup.js'
import { inParallel } from '../parallel.js'
import { startSink } from '../sink.js'

const RATE = 200
/** The fault begins and ends at these parts of the time in which events are made. */
const FROM = 0.25
const TO = 0.6
/** The client's defaults let a request take 10 s, a back-off grow and close() wait 30 s. */
const CAP_MS = 40_000
/** Node, the client and its queue of so few messages need far less. */
const MAX_PEAK_MB = 160
const STDERR_KEPT = 2_000
const OURS = 'hookline'
const PEERS = ['segment', 'rudderstack', 'posthog']

const idsIn = (body) => eventsIn(body).map(({ seq }) => String(seq))

async function run(script, subject, { seconds, env }) {
  const count = RATE * seconds
  let isFaulty = script.always ?? false
  const actOf = typeof script.action === 'function' ? script.action : () => script.action ?? 'ok'
  const meet = (request) => {
    if (request.socket.isDead) return 'silence'
    return isFaulty ? actOf(request) : 'ok'
  }
  const sink = await startSink({ idsIn, meet })
  const endpoint = `http://${script.host ?? '127.0.0.1'}:${sink.port}`
  const order = { subject, endpoint, options: script.options, count, rate: RATE, capMs: CAP_MS }
  const child = fork(
    fileURLToPath(new URL('../producer.js', import.meta.url)),
    [JSON.stringify(order)],
    {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    },
  )
  const exited = once(child, 'exit')
  // On a busy machine, what the process has said last comes after its exit.
  const heard = once(child, 'disconnect')
  void exited.then(atEnd(() => child.kill('SIGKILL')))
  let stderr = ''
  child.stderr.on('data', (chunk) => (stderr = (stderr + chunk).slice(-STDERR_KEPT)))
  let result = { made: count, reported: 0, peakMb: 0, hasCrashed: true }
  child.on('message', (message) => {
    if (typeof message === 'object') result = message
  })
  const around = { sink, child, tell: (order) => child.connected && child.send(order) }
  await Promise.race([once(child, 'message'), exited])
  await sleep(1_000 * seconds * FROM)
  if (!script.always) isFaulty = true
  await script.begin?.(around)
  await sleep(1_000 * seconds * (TO - FROM))
  if (!script.always) isFaulty = false
  await script.end?.(around)
  const stuck = setTimeout(() => {
    result.isStuck = true
    child.kill('SIGKILL')
  }, CAP_MS + 15_000)
  const [code, signal] = await exited
  clearTimeout(stuck)
  await heard
  await sink.shut()
  const [lastWords = stderr.slice(0, 200)] = /^\w*Error.*$/m.exec(stderr) ?? []
  const end = result.isStuck ? `${signal}, since it was stuck` : (signal ?? code)
  return { ...result, end, lastWords, subject, script, ...account(sink, script, result) }
}

function account(sink, { refused = () => false }, { made }) {
  let lost = 0
  for (let seq = 0; seq < made; seq += 1) {
    if (!sink.arrivals.has(String(seq)) && !refused(String(seq))) lost += 1
  }
  return { missing: made - sink.arrivals.size, lost, duplicated: sink.duplicated() }
}

/** The faults of a run of hookline. */
function faultsOf({
  script,
  made,
  missing,
  lost,
  reported,
  duplicated,
  peakMb,
  hasCrashed,
  end,
  lastWords,
}) {
  return [
    hasCrashed && `the process ended with ${end}: ${lastWords}`,
    lost > 0 && `${lost} of ${made} lost`,
    missing !== reported && `${missing} missing, ${reported} reported`,
    duplicated > 0 && !script.mayRepeat && !script.mayWait && `${duplicated} duplicated`,
    peakMb > MAX_PEAK_MB && `${Math.round(peakMb)} MB`,
  ].filter(Boolean)
}

const cellOf = ({ made, missing, reported, duplicated, hasCrashed, isStuck }) =>
  [
    hasCrashed ? `${isStuck ? 'stuck' : 'process ended'}: ` : '',
    `${missing}${missing > 0 && missing === reported ? ' (all reported)' : ''}`,
    ` + ${duplicated}`,
    missing > 0 || duplicated > 0 ? ` of ${made}` : '',
  ].join('')

export default {
  number: 1,
  title: 'SDK alone, through faults',
  what: `Each script makes 200 events/s with one client at its defaults, breaks what is between it and its endpoint for a third of that time, closes the client, and reconciles every event with what arrived. A cell is *missing + duplicated*; a peer is not measured if the machine was too busy for it even without a fault. Green: hookline misses nothing but what no endpoint takes (a 302, the poison messages themselves), reports exactly that, repeats only what an endpoint stored without saying so, and stays under ${MAX_PEAK_MB} MB.`,
  async run({ isQuick, env, scripts = SCRIPTS, progress }) {
    const subjects = isQuick ? [OURS] : [OURS, ...PEERS]
    const seconds = isQuick ? 3 : 10
    const jobs = scripts.flatMap((script) => subjects.map((subject) => [script, subject]))
    const runs = await inParallel(jobs, isQuick ? 8 : 5, async ([script, subject]) => {
      const done = await run(script, subject, { seconds, env })
      progress(`${subject}: ${script.name}: ${cellOf(done)}`)
      return done
    })
    const ours = runs.filter(({ subject }) => subject === OURS)
    const runOf = (script, subject) =>
      runs.find((one) => one.script === script && one.subject === subject)
    // If a peer fails even without a fault, its results with a fault show nothing.
    const isMeasured = (subject) => {
      const control = runOf(scripts[0], subject)
      return subject === OURS || (control.missing === 0 && control.duplicated === 0)
    }
    const sum = (key) => ours.reduce((total, one) => total + one[key], 0)
    return {
      faults: ours.flatMap((one) => faultsOf(one).map((fault) => `${one.script.name}: ${fault}`)),
      summary: `${scripts.length} scripts, ${sum('made')} events: ${sum('lost')} lost, ${sum('reported')} refused and reported, ${sum('duplicated')} duplicated, at most ${Math.round(Math.max(...ours.map(({ peakMb }) => peakMb)))} MB`,
      head: ['script', ...subjects],
      rows: scripts.map((script) => [
        script.name,
        ...subjects.map((subject) =>
          isMeasured(subject) || script === scripts[0]
            ? cellOf(runOf(script, subject))
            : 'not measured',
        ),
      ]),
    }
  },
}
