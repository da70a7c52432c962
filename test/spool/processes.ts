// Processes that record messages and die of it. They run the sources as plain JavaScript: they start in a
// quarter of the time, and a test starts dozens.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { afterAll } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Compiles the sources into a folder of its own, from where packages are found, and gives its path. */
export function compile(): string {
  const target = join(ROOT, 'node_modules/.cache', `hookline-spool-${process.pid}`)
  afterAll(() => {
    rmSync(target, { recursive: true, force: true })
  })
  const options = { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext }
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  for (const name of sources.filter((each) => each.endsWith('.ts'))) {
    const path = join(target, name.replace(/ts$/, 'js'))
    const source = readFileSync(join(ROOT, 'src', name), 'utf8')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, ts.transpileModule(source, { compilerOptions: options }).outputText)
  }
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
