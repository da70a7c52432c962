// Proof 2: processes with a spool are killed at any instant. Every message whose call has returned arrives.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inParallel } from '../parallel.js'
import { startSink } from '../sink.js'
import { distOf, drain, missing, startWriter } from '../writers.js'

const WRITE_KEY = 'wk_proof'
const DRAIN_MS = 30_000
const MAX_CALLS = 600
/** How the endpoint meets a writer, by turns: what is on the way when it dies may have arrived or not. */
const MOODS = ['ok', { status: 503 }, 'silence', 'ok', 'stored, reset', 'reset in', 'ok']

const idsIn = (body) => JSON.parse(body).batch.map(({ messageId }) => messageId)
const random = (below) => Math.floor(Math.random() * below)

/** One directory, on which processes die one after the other, or `atOnce` side by side. */
async function lane(sink, { dist, number, kills, atOnce, progress }) {
  const directory = await mkdtemp(join(tmpdir(), 'hookline-proof-spool-'))
  const endpoint = `${sink.url}/${number}`
  const writers = []
  try {
    while (writers.length < kills) {
      sink.moods.set(`/${number}`, MOODS[random(MOODS.length)])
      const own = Array.from({ length: atOnce }, (_, i) => {
        const name = `${number}-${writers.length + i}`
        return startWriter({ dist, name, directory, endpoint, writeKey: WRITE_KEY })
      })
      writers.push(...own)
      await Promise.all(own.map((writer) => writer.kill(1 + random(MAX_CALLS))))
      progress(`directory ${number}: ${writers.length} of ${kills} killed`)
    }
    sink.moods.set(`/${number}`, 'ok')
    await drain({ dist, directory, endpoint, writeKey: WRITE_KEY, timeout: DRAIN_MS })
    return { writers, isInOrder: atOnce > 1 || isInOrder(sink, writers) }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Each writer's messages first arrived in the order of its calls; the map of arrivals has them in that order. */
function isInOrder(sink, writers) {
  const last = new Map(writers.map(({ name }) => [name, -1]))
  for (const id of sink.arrivals.keys()) {
    const [name, call] = id.split('.')
    if (!last.has(name)) continue
    if (Number(call) !== last.get(name) + 1) return false
    last.set(name, Number(call))
  }
  return true
}

/**
 * A client has one request under way at a time. One that was answered, and followed by another on its connection,
 * was done with before its process died: its messages must not come again.
 */
function needless(sink) {
  const lastOn = new Map()
  for (const arrivals of sink.arrivals.values()) {
    for (const { socket, request } of arrivals)
      lastOn.set(socket, Math.max(request, lastOn.get(socket) ?? 0))
  }
  let count = 0
  for (const arrivals of sink.arrivals.values()) {
    if (arrivals.slice(0, -1).some(({ socket, request }) => request < lastOn.get(socket)))
      count += 1
  }
  return count
}

export default {
  number: 2,
  title: 'SDK with a spool, killed',
  what: 'Processes record as fast as they can and are killed with SIGKILL after a random number of calls, alone on a directory and two at a time, while the endpoint answers, fails, is silent or resets. A last process delivers what is left. Green: every call that had returned arrives, in order, and nothing arrives again that an endpoint had accepted before the last request of a process.',
  async run({ isQuick, env, progress }) {
    const kills = isQuick ? 8 : 50
    const dist = distOf(env)
    const moods = new Map()
    const meet = ({ path }) => moods.get(path) ?? 'ok'
    const sink = Object.assign(await startSink({ idsIn, meet }), { moods })
    const lanes = await inParallel([1, 1, 2, 2], 4, (atOnce) => {
      const number = ++sink.lanes || (sink.lanes = 1)
      return lane(sink, { dist, number, kills, atOnce, progress })
    })
    await sink.shut()
    const writers = lanes.flatMap((one) => one.writers)
    const lost = missing(writers, (id) => sink.arrivals.has(id))
    const returned = writers.reduce((sum, one) => sum + one.returned, 0)
    const again = needless(sink)
    return {
      faults: [
        lost.length > 0 && `${lost.length} of ${returned} calls lost, the first ${lost[0]}`,
        again > 0 && `${again} messages came again, though done with`,
        lanes.some((one) => !one.isInOrder) && 'not in order',
      ].filter(Boolean),
      summary: `${writers.length} kills, ${returned} calls that had returned: ${lost.length} lost, ${sink.duplicated()} duplicated that were on the way, ${again} others`,
      head: ['directory', 'processes at once', 'kills', 'calls returned', 'lost', 'in order'],
      rows: lanes.map(({ writers, isInOrder }, i) => [
        i + 1,
        i < 2 ? 1 : 2,
        writers.length,
        writers.reduce((sum, one) => sum + one.returned, 0),
        missing(writers, (id) => sink.arrivals.has(id)).length,
        i < 2 ? (isInOrder ? 'yes' : 'no') : 'each its own',
      ]),
    }
  },
}
