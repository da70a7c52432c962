// Processes that record messages and die of it. They run the sources as plain JavaScript: they start in a
// quarter of the time, and a test starts dozens.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, inject } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The compiler may write a number in another way. */
const BEAT = /\bBEAT_MS = [\d_e]+/

/**
 * Compiles the sources into a folder of its own, from where packages are found, and gives its path.
 *
 * @param beatMs - how often clients beat: all times of a takeover follow from it
 */
export function compileWith(beatMs = 5_000): string {
  const target = join(ROOT, 'node_modules/.cache', `hookline-spool-${process.pid}-${beatMs}`)
  afterAll(() => {
    rmSync(target, { recursive: true, force: true })
  })
  cpSync(join(inject('compiledDir'), 'hookline'), target, { recursive: true })
  const lease = join(target, 'spool/lease.js')
  const source = readFileSync(lease, 'utf8')
  if (!BEAT.test(source)) throw new Error(`no ${String(BEAT)}`)
  writeFileSync(lease, source.replace(BEAT, `BEAT_MS = ${beatMs}`))
  writeFileSync(join(target, 'peer.js'), PEER)
  writeFileSync(join(target, 'package.json'), '{"type":"module"}')
  return target
}

/** What a writer does. */
export interface Order {
  readonly name: string
  readonly directory: string
  readonly endpoint: string
  readonly flushAt?: number
  /** How it ends when so many calls have returned; without, it goes on until it is killed. */
  readonly end?: {
    readonly after: number
    readonly how: 'exit' | 'throw' | 'memory' | 'close' | 'dry'
  }
}

/** Its calls are e0, e1, … of its name; each is told on stdout once it has returned. */
const WRITER = `
import { writeSync } from 'node:fs'
import { Analytics } from './index.js'

const { name, directory, endpoint, flushAt, end } = JSON.parse(process.argv[1])
const analytics = new Analytics('wk_4f9a-secret', {
  endpoint, flushAt, flushAfter: 20, maxQueueBytes: 20_000, spool: { directory },
  onFailed: () => {},
})
const ends = {
  exit: () => process.exit(7),
  throw: () => { throw new Error('uncaught') },
  memory: () => { for (const hoard = []; ; ) hoard.push(new Array(100_000).fill(hoard.length)) },
  close: () => void analytics.close(),
  dry: () => undefined,
}
function tell(text) {
  for (;;) try { return writeSync(1, text) } catch { /* the pipe is full */ }
}
let made = 0
function turn() {
  for (let call = 0; call < 7; call++) {
    if (made === end?.after) return ends[end.how]()
    analytics.track({ userId: name, event: 'e' + made, messageId: name + made })
    tell(made++ + '\\n')
  }
  setImmediate(turn)
}
turn()
`

/** A process that records messages. */
export function startWriter(folder: string, order: Order, flags: string[] = []) {
  const given = [...flags, '--input-type=module', '--eval', WRITER, JSON.stringify(order)]
  const child = spawn(process.execPath, given, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  let told = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => (told += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const ended = once(child, 'close')
  return {
    /** How many calls have returned. */
    get returned() {
      return told.split('\n').length - 1
    },
    /** Kills it once so many have. */
    async kill(after: number) {
      while (this.returned < after) {
        await Promise.race([once(child.stdout, 'data'), ended])
        if (child.exitCode !== null) throw new Error(`It ended by itself: ${stderr}`)
      }
      child.kill('SIGKILL')
      await ended
    },
    async end() {
      const [code, signal] = (await ended) as [number | null, string | null]
      return { code, signal, stderr }
    },
  }
}

/**
 * A process that does what it is told on stdin, and may have threads that do the same. Each client sends to a path of
 * its own name. Calls are told on stdout once they have returned, and so is each outcome but delivery.
 */
const PEER = `
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { Analytics } from './index.js'

const { name, directory, endpoint } = isMainThread ? JSON.parse(process.argv[2]) : workerData
const analytics = new Analytics('wk_4f9a-secret', {
  endpoint: endpoint + '/' + name, flushAfter: 20, maxQueueBytes: 20_000, spool: { directory },
  // An error of the spool itself: nothing here makes the disk fail.
  onFailed: ({ messages, error }) => messages.length === 0 && console.error(name, error.code, error.message),
})
const threads = new Map()
let made = 0
let wanted = 0

function tell(...words) {
  for (;;) try { return writeSync(1, words.join(' ') + '\\n') } catch { /* the pipe is full */ }
}
function turn() {
  for (let call = 0; call < 7 && made < wanted; call++) {
    const number = made++
    const callback = (error) => error && tell('outcome', name, number, error.code)
    analytics.track({ userId: name, event: 'e' + number, messageId: name + '.' + number }, callback)
    tell('returned', name, number)
  }
  if (made < wanted) setImmediate(turn)
}
const orders = {
  record: (count) => { const isIdle = made === wanted; wanted += Number(count); if (isIdle) turn() },
  thread: (thread) => {
    const workerData = { name: thread, directory, endpoint }
    threads.set(thread, new Worker(new URL(import.meta.url), { workerData }))
  },
  to: (thread, ...order) => threads.get(thread).postMessage(order.join(' ')),
  terminate: async (thread) => { await threads.get(thread).terminate(); tell('terminated', thread) },
  close: async () => {
    wanted = made
    await analytics.close()
    tell('accepted', name, analytics.stats().accepted)
    tell('closed', name)
    if (isMainThread) process.exit(0)
    parentPort.close()
  },
}
const obey = (line) => {
  const [what, ...rest] = line.split(' ')
  void orders[what](...rest)
}
if (isMainThread) createInterface({ input: process.stdin }).on('line', obey)
else parentPort.on('message', obey)
`

/** Whether processes of the folder can run as another user. */
export const canRunAs = (folder: string, uid: number) =>
  spawnSync(process.execPath, ['--check', join(folder, 'peer.js')], { uid }).status === 0

/** Starts a process that does what it is told, as another user if `uid` is given, with these flags of Node. */
export function startPeer(
  folder: string,
  name: string,
  directory: string,
  endpoint: string,
  { uid, flags = [] }: { uid?: number | undefined; flags?: readonly string[] } = {},
) {
  const order = JSON.stringify({ name, directory, endpoint })
  const given = [...flags, join(folder, 'peer.js'), order]
  const child = spawn(process.execPath, given, { stdio: 'pipe', uid })
  const returned = new Map<string, number>()
  const outcomes: { message: string; code: string }[] = []
  const told = new Set<string>()
  let accepted: number | undefined
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  child.stdin.on('error', () => undefined)
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [what = '', who = '', number = '', code = ''] = line.split(' ')
    if (what === 'returned') returned.set(who, Number(number) + 1)
    else if (what === 'accepted') accepted = Number(number)
    else if (what === 'outcome') outcomes.push({ message: `${who}.${number}`, code })
    else told.add(`${what} ${who}`)
  })
  const ended = once(child, 'close')
  return {
    name,
    /** How many calls of each of its clients have returned. */
    returned,
    outcomes,
    /** What it has done: `closed <client>`, `terminated <thread>`. */
    told,
    /** How many messages a client that is closed had, those that it took over included. */
    get accepted() {
      return accepted
    },
    /** What it complained of. */
    get stderr() {
      return stderr
    },
    order: (...words: (string | number)[]) => child.stdin.write(`${words.join(' ')}\n`),
    signal: (signal: 'SIGSTOP' | 'SIGCONT') => child.kill(signal),
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    ended,
  }
}
