// Runs the destination like an operator: as a separate process, which is killed and started again.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { atEnd } from './cleanup.js'

export const WRITE_KEY = 'wk_proof'
export const SECRET = 'a-secret-of-a-usual-length'
const START_MS = 30_000

/** The package: the repository's, or the one that `HOOKLINE_DESTINATION` names. */
const packageOf = (env) =>
  env?.HOOKLINE_DESTINATION ?? fileURLToPath(new URL('../destination', import.meta.url))

/** @param {Record<string, string>} endpoints the URL of each destination, by its name */
export const settingsOf = (store, endpoints, port = 0) => ({
  listen: `127.0.0.1:${port}`,
  store: `sqlite:${store}`,
  sources: [{ name: 'web', writeKey: WRITE_KEY }],
  destinations: Object.entries(endpoints).map(([name, url]) => ({
    name,
    sources: ['web'],
    enabled: true,
    sharedSecret: SECRET,
    webhooks: [{ url }],
  })),
  allowNetworks: ['127.0.0.0/8'],
})

/**
 * @param {string[]} under a command that runs it, with its arguments
 * @param {string[]} options of `serve`
 * @returns the process, once it has said where it listens
 */
export async function startDestination({ folder, settings, env, under = [], options = [] }) {
  const config = join(folder, 'hookline.config.json')
  const outputFile = join(folder, 'output.log')
  writeFileSync(config, JSON.stringify(settings))
  const output = openSync(outputFile, 'w')
  const program = join(packageOf(env), 'bin/hookline-destination.js')
  const [command, ...args] = [...under, process.execPath, program, 'serve', '--config', config]
  args.push(...options)
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  const exited = once(child, 'exit')
  // A run may end before the process has said its id.
  void exited.then(atEnd(() => child.kill('SIGKILL')))
  const late = performance.now() + START_MS
  for (;;) {
    const text = readFileSync(outputFile, 'utf8')
    const [, url, pid] = /"url":"(http:[^"]+)".*?"pid":(\d+)/.exec(text) ?? []
    const end = (signal) => async () => {
      if (child.exitCode === null && child.signalCode === null) process.kill(Number(pid), signal)
      await exited
    }
    if (url) void exited.then(atEnd(() => process.kill(Number(pid), 'SIGKILL')))
    if (url)
      return {
        ...{ url, pid: Number(pid), kill: end('SIGKILL'), stop: end('SIGTERM') },
        ...{ config, outputFile, exited },
      }
    const hasEnded = child.exitCode !== null || child.signalCode !== null
    if (hasEnded || performance.now() > late) {
      child.kill('SIGKILL')
      throw new Error(`The destination did not start: ${text.trim().slice(-500)}`)
    }
    await sleep(5)
  }
}
