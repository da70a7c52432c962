// Runs the destination, or its minimum, as an operator would: a process of its own, its settings in a file,
// its output (a line of log for each attempt) in another. What it costs is read from the kernel.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, closeSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { destination } from './libraries.js'
import { OTHER_KEY, WRITE_KEY } from './load.js'

const build = fileURLToPath(new URL('../build/', import.meta.url))
const PROGRAMS = {
  hookline: [
    fileURLToPath(new URL('bin/hookline-destination.js', destination)),
    'serve',
    '--config',
  ],
  limit: [fileURLToPath(new URL('minimum.js', import.meta.url))],
}

export const SECRET = 'a-secret-of-a-usual-length'

const START_MS = 20_000
/** The destination promises 10 s. */
const STOP_MS = 12_000
/** The unit of /proc, USER_HZ, is the same on all of Linux's usual architectures. */
const US_A_TICK = 10_000

/** A folder for stores, on the disk of the repository: a temporary folder may be in memory, where nothing is synced. */
export async function makeFolder() {
  await mkdir(build, { recursive: true })
  const path = await mkdtemp(join(build, 'destination-'))
  return { path, remove: () => rm(path, { recursive: true, force: true }) }
}

/** @param {{ name: string, urls: string[], source?: string, concurrency?: number }[]} destinations the load comes from the source `web` */
export const settingsOf = (store, destinations) => ({
  listen: '127.0.0.1:0',
  store: store.includes(':') ? store : `sqlite:${store}`,
  sources: [
    { name: 'web', writeKey: WRITE_KEY },
    { name: 'elsewhere', writeKey: OTHER_KEY },
  ],
  destinations: destinations.map(({ name, urls, source = 'web', concurrency }) => ({
    name,
    sources: [source],
    enabled: true,
    sharedSecret: SECRET,
    webhooks: urls.map((url) => ({ url, ...(concurrency && { concurrency }) })),
  })),
  allowNetworks: ['127.0.0.0/8'],
})

/**
 * @param {string} subject `hookline` or `limit`
 * @returns the running process, once it has said where it listens
 * @throws {Error} with its last words, if it doesn't
 */
export async function start(subject, settings, { folder, isProfiled, args = [] }) {
  const configFile = join(folder, 'hookline.config.json')
  const outputFile = join(folder, 'output.log')
  writeFileSync(configFile, JSON.stringify(settings))

  const output = openSync(outputFile, 'w')
  const flags = isProfiled ? ['--cpu-prof', `--cpu-prof-dir=${build}profiles`] : []
  const startedAt = performance.now()
  const child = spawn(process.execPath, [...flags, ...PROGRAMS[subject], configFile, ...args], {
    cwd: folder,
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  const exited = once(child, 'exit')

  const readOutput = () => readFileSync(outputFile, 'utf8')
  const lastWords = () => readOutput().trim().slice(-500)
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  const urlIn = () => /"url":"(http:[^"]+)"/.exec(readOutput())?.[1]
  let url
  while ((url = urlIn()) === undefined) {
    const isLate = performance.now() - startedAt > START_MS
    if (isLate) child.kill('SIGKILL')
    if (isLate || hasEnded()) throw new Error(`${subject} did not start: ${lastWords()}`)
    await sleep(2)
  }

  const readProc = (name) => {
    if (hasEnded()) throw new Error(`${subject} ended: ${lastWords()}`)
    return readFileSync(`/proc/${child.pid}/${name}`, 'utf8')
  }
  const status = (key) =>
    Number(new RegExp(`${key}:\\s+(\\d+) kB`).exec(readProc('status'))[1]) / 1024
  return {
    url,
    pid: child.pid,
    listeningMs: performance.now() - startedAt,
    startedAt,
    /** CPU time of all its threads so far, user and system, in µs. */
    cpuUs() {
      // The name of the program, which may hold anything, ends at the last parenthesis.
      const stat = readProc('stat')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return (Number(fields[11]) + Number(fields[12])) * US_A_TICK
    },
    rssMb: () => status('VmRSS'),
    peakRssMb: () => status('VmHWM'),
    /** @returns what was wrong with its end, if anything */
    async stop() {
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      const [code, signal] = await exited
      clearTimeout(late)
      return code === 0 ? [] : [`ended with ${signal ?? code}`]
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
