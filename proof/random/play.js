// Plays a round: an endpoint and a client, each a process of its own, and later perhaps the heir of a spool.
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { atEnd } from '../cleanup.js'
import { distOf } from '../writers.js'
import { clock } from './clock.js'
import { longestMs } from './model.js'

const scriptOf = (name) => fileURLToPath(new URL(name, import.meta.url))
const STDERR_KEPT = 20_000

async function linesOf(file) {
  const text = await readFile(file, 'utf8').catch(() => '')
  // A process that was killed may have written a part of its last line.
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  return whole.split('\n').flatMap((line) => (line ? [JSON.parse(line)] : []))
}

async function startEndpoint(plan, file) {
  const child = fork(scriptOf('endpoint.js'), [JSON.stringify({ ...plan, file })])
  const ended = once(child, 'exit')
  void ended.then(atEnd(() => child.kill('SIGKILL')))
  const [port] = await once(child, 'message')
  return { child, ended, url: `http://127.0.0.1:${port}` }
}

/** Stops processes for a while, as a paused machine does. */
async function freeze({ who, atMs, forMs }, processes, isOver) {
  await sleep(atMs)
  if (isOver()) return undefined
  const from = clock()
  processes[who].kill('SIGSTOP')
  await sleep(forMs)
  processes[who].kill('SIGCONT')
  return { who, from, until: clock() }
}

/** One life of a client; `mostMs` after its begin it is killed as one that hangs. */
async function live({ plan, order, endpoint, mostMs, file, isFirst, signal }) {
  const child = spawn(
    process.execPath,
    [scriptOf('child.js'), JSON.stringify({ ...order, file })],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const ended = once(child, 'close')
  void ended.then(atEnd(() => child.kill('SIGKILL')))
  let stderr = ''
  child.stderr.on('data', (chunk) => (stderr = (stderr + chunk).slice(0, STDERR_KEPT)))
  await Promise.race([once(child.stdout, 'data'), ended])
  const begun = clock()
  if (isFirst && endpoint.child.connected) endpoint.child.send('begin')
  let isOver = false
  const processes = { client: child, endpoint: endpoint.child }
  const freezes = Promise.all(plan.freezes.map((one) => freeze(one, processes, () => isOver)))
  let isOverdue = false
  const kill = () => {
    isOverdue = true
    child.kill('SIGKILL')
  }
  const overdue = setTimeout(kill, mostMs)
  signal.addEventListener('abort', kill)
  const [code, killedBy] = await ended
  isOver = true
  const exitedAt = clock()
  clearTimeout(overdue)
  signal.removeEventListener('abort', kill)
  return {
    begun,
    exitedAt,
    mostMs,
    code,
    killedBy,
    isOverdue,
    stderr,
    plan,
    freezes: (await freezes).filter(Boolean),
    lines: await linesOf(file),
  }
}

/** What the next process on the same directory is to do: deliver what is left. */
const heirOf = (plan) => ({
  ...plan,
  load: { turns: [] },
  calls: [],
  freezes: [],
  end: { how: 'close' },
})

/**
 * @param {AbortSignal} options.signal cuts the round short; what is left of it is not judged
 * @returns the plan, and what each process recorded
 */
export async function play(plan, { env, signal }) {
  const folder = await mkdtemp(join(tmpdir(), 'hookline-proof-random-'))
  const directory = join(folder, 'spool')
  const endpoint = await startEndpoint(plan, join(folder, 'endpoint'))
  const lives = []
  try {
    const hasHeir = plan.client.spool && ['kill', 'exit', 'close'].includes(plan.end.how)
    for (const own of hasHeir ? [plan, heirOf(plan)] : [plan]) {
      const mostMs = longestMs(own, plan)
      const order = { ...own, dist: distOf(env), url: endpoint.url, directory }
      const file = join(folder, `client-${lives.length}`)
      lives.push(
        await live({ plan: own, order, endpoint, mostMs, file, isFirst: own === plan, signal }),
      )
      if (signal.aborted) break
    }
    await sleep(50) // what was sent is still read by the endpoint
    endpoint.child.kill('SIGCONT')
    if (endpoint.child.connected) endpoint.child.send('stop')
    await endpoint.ended
    return { plan, lives, isCut: signal.aborted, endpoint: await linesOf(join(folder, 'endpoint')) }
  } finally {
    endpoint.child.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}
