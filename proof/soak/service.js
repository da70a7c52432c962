// The processes of a round: started, killed, suspended and told of new settings, as an operator or an accident does it.
import { once } from 'node:events'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startDestination } from '../destination.js'
import { clock } from '../random/clock.js'
import { waitedMs } from './starvation.js'

/** A process that runs confirms new settings in this time. */
const CONFIRM_MS = 20_000
/** On SIGTERM it ends in 10 s. The rest is for a busy machine. */
const STOP_MS = 12_000
const LOOK_MS = 50
const SAMPLE_MS = 250

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** The whole lines of a file after its first bytes. */
function linesFrom(path, from) {
  const file = openSync(path)
  try {
    const bytes = Buffer.alloc(fstatSync(file).size - from)
    readSync(file, bytes, 0, bytes.length, from)
    return bytes.toString('utf8', 0, bytes.lastIndexOf('\n') + 1)
  } finally {
    closeSync(file)
  }
}

/** Calls of `tell` say what happened, those of `fault` what must not. */
export class Service {
  #processes = []
  #sampling
  /** Times in which messages may wait, or be sent again. `to` is `Infinity` until it is over. */
  disturbances = []
  peakMb = 0
  /** How long the processes and the endpoints waited for a CPU, in ms, one for each sample. */
  #starved = []
  #waited = new Map()
  counts = { kills: 0, suspends: 0, reloads: 0, restarts: 0 }

  constructor(parts) {
    this.parts = parts
  }

  async start() {
    for (const [number, role] of this.parts.roles.entries()) {
      const folder = join(this.parts.root, `process-${number}`)
      mkdirSync(folder)
      this.#processes.push({ number, role, folder, port: await freePort(), seen: 0 })
    }
    const over = this.disturb('the processes start')
    await Promise.all(this.#processes.map((one) => this.#run(one)))
    over()
    this.#starve()
    this.#starved = []
    this.#sampling = setInterval(() => this.#sample(), SAMPLE_MS)
  }

  /** Where calls may be sent. */
  get collectors() {
    return this.#processes.filter(({ role }) => role === 'all').map(urlOf)
  }

  get all() {
    return this.#processes.map(urlOf)
  }

  async #run(one, under = []) {
    const { settings, env, store } = this.parts
    const options = ['--role', one.role]
    const startedAt = clock()
    const file = settings.file(store, one.port)
    one.version = settings.versions.length
    const running = await startDestination({
      folder: one.folder,
      settings: file,
      env,
      under,
      options,
    })
    // It runs for as long as it took to start. On a busy machine, a process that is ended sooner would never take a call.
    const mayEndAt = clock() + (clock() - startedAt)
    Object.assign(one, { running, mayEndAt, seen: 0, isEnding: false })
    void running.exited.then(([code, signal]) => {
      if (!one.isEnding)
        this.parts.fault('process', `process ${one.number} ended by itself: ${code ?? signal}`)
    })
    // The settings may have changed since it read them.
    if (one.version < settings.versions.length) this.#hangUp(one)
    this.#confirm()
  }

  /** @returns what ends the disturbance */
  disturb(what, { afterMs = 0 } = {}) {
    const disturbance = { what, from: clock(), to: Infinity, lateUntil: Infinity }
    this.disturbances.push(disturbance)
    this.parts.tell(what)
    return () => {
      disturbance.to = clock()
      disturbance.lateUntil = disturbance.to + afterMs
    }
  }

  async kill(number, downMs = 0, under = []) {
    const one = this.#processes[number]
    await sleep(one.mayEndAt - clock())
    this.counts.kills += 1
    // What it has leased on PostgreSQL is due again after 30 s.
    const over = this.disturb(`process ${number} is killed`, { afterMs: this.#leaseMs })
    one.isEnding = true
    await one.running.kill()
    one.running = undefined
    one.resume?.()
    await sleep(downMs)
    await this.#run(one, under)
    over()
    this.parts.tell(`process ${number} runs again`)
  }

  get #leaseMs() {
    return this.parts.roles.length > 1 ? 35_000 : 2_000
  }

  async restart(number) {
    const one = this.#processes[number]
    one.resume?.()
    await sleep(one.mayEndAt - clock())
    this.counts.restarts += 1
    const over = this.disturb(`process ${number} is stopped`, { afterMs: 2_000 })
    await this.#stop(one)
    await this.#run(one)
    over()
    this.parts.tell(`process ${number} runs again`)
  }

  /** Nothing that it has forgotten may keep it from an orderly end. */
  async #stop(one) {
    one.isEnding = true
    const startedAt = clock()
    await one.running.stop()
    const [code, signal] = await one.running.exited
    const ms = Math.round(clock() - startedAt)
    const lateMs = ms - STOP_MS - this.starvedMs(startedAt, clock())
    if (code === 0 && lateMs <= 0) return
    this.parts.fault('stop', `process ${one.number} ends with ${code ?? signal} after ${ms} ms`)
  }

  /** Ends all processes in an orderly way. */
  async stop() {
    await Promise.all(this.#processes.map((one) => this.#stop(one)))
    this.parts.tell('all processes have stopped')
  }

  suspend(number) {
    const one = this.#processes[number]
    if (one.resume) return
    this.counts.suspends += 1
    const over = this.disturb(`process ${number} is suspended`, { afterMs: 2_000 })
    const { pid } = one.running
    process.kill(pid, 'SIGSTOP')
    one.resume = () => {
      over()
      // It may have been killed meanwhile.
      if (one.running?.pid === pid) process.kill(pid, 'SIGCONT')
      this.parts.tell(`process ${number} goes on`)
      one.resume = undefined
    }
  }

  resume(number) {
    this.#processes[number].resume?.()
  }

  /** Writes the present settings and tells all processes. It does not wait for them. */
  reload(what) {
    const { settings, store } = this.parts
    this.counts.reloads += 1
    settings.write()
    this.parts.tell(`${what} (${settings.marker()})`)
    for (const one of this.#processes) {
      writeFileSync(
        join(one.folder, 'hookline.config.json'),
        JSON.stringify(settings.file(store, one.port)),
      )
      this.#hangUp(one)
    }
  }

  #hangUp(one) {
    if (one.isEnding || !one.running) return
    one.toldAt ??= clock()
    process.kill(one.running.pid, 'SIGHUP')
  }

  /** Waits until the log of a process has a line with this text. */
  async #logs(one, text) {
    const { running } = one
    for (const late = clock() + CONFIRM_MS; clock() < late && one.running === running;) {
      if (readFileSync(running.outputFile, 'utf8').includes(text)) return
      await sleep(LOOK_MS)
    }
    if (one.running === running && !one.isEnding && !one.resume)
      this.parts.fault('reload', `process ${one.number} did not log ${text} in ${CONFIRM_MS} ms`)
  }

  /** Settings that are no JSON: each process says so, and keeps the old ones. */
  async reloadWrong() {
    const runs = this.#processes.filter((one) => !one.isEnding && !one.resume)
    this.parts.tell('the settings are wrong')
    for (const one of runs) {
      writeFileSync(one.running.config, '{')
      process.kill(one.running.pid, 'SIGHUP')
    }
    await Promise.all(runs.map((one) => this.#logs(one, '"msg":"not reloaded')))
    const { settings, store } = this.parts
    for (const one of runs)
      writeFileSync(one.running.config, JSON.stringify(settings.file(store, one.port)))
  }

  /** Looks which versions of the settings the processes have confirmed in their logs. */
  #confirm() {
    const { settings } = this.parts
    const least = Math.min(...this.#processes.map(({ version = 0 }) => version))
    for (const [n, version] of settings.versions.entries()) {
      if (n < least && version.confirmedAt === Infinity) version.confirmedAt = clock()
    }
  }

  /** How long processes waited for a CPU between two times, in ms. */
  starvedMs(from, to) {
    let ms = 0
    for (const { at, waited } of this.#starved) if (at >= from && at - SAMPLE_MS <= to) ms += waited
    return ms
  }

  #starve() {
    let waited = 0
    for (const pid of [process.pid, ...this.#processes.map(({ running }) => running?.pid)]) {
      if (pid === undefined) continue
      const ms = waitedMs(pid)
      waited += Math.max(0, ms - (this.#waited.get(pid) ?? 0))
      this.#waited.set(pid, ms)
    }
    this.#starved.push({ at: clock(), waited })
  }

  #sample() {
    this.#starve()
    for (const one of this.#processes) {
      if (one.isEnding || !one.running) continue
      this.#measure(one)
      this.#readLog(one)
    }
    this.#confirm()
  }

  #measure({ running: { pid } }) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const mb = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024
      this.peakMb = Math.max(this.peakMb, mb)
    } catch {
      // Not on Linux, or it has just ended.
    }
  }

  #readLog(one) {
    const fresh = linesFrom(one.running.outputFile, one.seen)
    one.seen += Buffer.byteLength(fresh)
    for (const [line, marker] of fresh.matchAll(/.*"version-(\d+)".*/g)) {
      if (line.includes('"msg":"reloaded"')) one.version = Number(marker)
    }
    const { settings } = this.parts
    if (one.resume || one.version === settings.versions.length) one.toldAt = undefined
    else if (one.toldAt !== undefined && clock() - one.toldAt > CONFIRM_MS) {
      one.toldAt = undefined
      this.parts.fault('reload', `process ${one.number} did not confirm ${settings.marker()}`)
    }
  }

  /** Waits until every process has the newest settings. One that is suspended goes on. */
  async settled() {
    const { settings } = this.parts
    for (const one of this.#processes) one.resume?.()
    for (const late = clock() + CONFIRM_MS; clock() < late; await sleep(LOOK_MS)) {
      this.#sample()
      if (settings.versions.at(-1).confirmedAt < Infinity) return
    }
    this.parts.fault('reload', `${settings.marker()} is not confirmed in ${CONFIRM_MS} ms`)
  }

  async close() {
    clearInterval(this.#sampling)
    for (const one of this.#processes) {
      one.isEnding = true
      await one.running?.kill()
    }
  }
}

const urlOf = ({ port }) => `http://127.0.0.1:${port}`
