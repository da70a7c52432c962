import { parentPort, workerData } from 'node:worker_threads'
import { readSettings, requireReachable } from './read.js'
import type { ReadPart } from './read-aside.js'
import { SettingsError } from './settings-error.js'

// Reads a settings file for the main thread, which asks for one part after the other.

/** The sources or destinations of one part. The main thread takes about a ms to receive them. */
const PART = 250

const parts = read(workerData as string)
parentPort?.on('message', () => {
  const next = parts.next()
  parentPort?.postMessage(next.done ? undefined : next.value)
})

function* read(file: string): Generator<ReadPart> {
  try {
    const { sources, destinations, ...others } = readSettings(file, process.env)
    const settings = { ...others, sources, destinations }
    requireReachable(settings, file)
    yield { settings: { ...others, sources: [], destinations: [] } }
    for (let i = 0; i < sources.length; i += PART) yield { sources: sources.slice(i, i + PART) }
    for (let i = 0; i < destinations.length; i += PART) {
      yield { destinations: destinations.slice(i, i + PART) }
    }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const { code, file: shown, problems } = error
    yield { refusal: { code, shown, problems } }
  }
}
