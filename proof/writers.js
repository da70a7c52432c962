// Starts writers, and records which of their calls have returned.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { atEnd } from './cleanup.js'

const script = fileURLToPath(new URL('writer.js', import.meta.url))

/** The build of the SDK: the repository's, or the one that `HOOKLINE_DIST` names. */
export const distOf = (env) =>
  env?.HOOKLINE_DIST ?? fileURLToPath(new URL('../dist', import.meta.url))

export function startWriter(order) {
  const child = spawn(process.execPath, [script, JSON.stringify(order)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close')
  void ended.then(atEnd(() => child.kill('SIGKILL')))
  let returned = 0
  let stderr = ''
  child.stdout.on('data', (chunk) => (returned += chunk.length))
  child.stderr.on('data', (chunk) => (stderr += chunk))
  return {
    name: order.name,
    get returned() {
      return returned
    },
    /** Kills the writer once this many calls have returned. */
    async kill(after) {
      while (returned < after && child.exitCode === null)
        await Promise.race([once(child.stdout, 'data'), ended])
      if (child.exitCode !== null)
        throw new Error(`A writer ended by itself: ${stderr.slice(-500)}`)
      child.kill('SIGKILL')
      await ended
    },
  }
}

/** Delivers all that is left in a directory, if it can be had within the time. */
export async function drain({ dist, directory, endpoint, writeKey, timeout }) {
  const { Analytics } = await import(pathToFileURL(`${dist}/index.js`).href)
  const analytics = new Analytics(writeKey, { endpoint, spool: { directory } })
  await analytics.close({ timeout })
}

/** The calls of writers that had returned but did not arrive. */
export function missing(writers, has) {
  const lost = []
  for (const { name, returned } of writers) {
    for (let call = 0; call < returned; call += 1)
      if (!has(`${name}.${call}`)) lost.push(`${name}.${call}`)
  }
  return lost
}
