import { parentPort, workerData } from 'node:worker_threads'
import { readSettings, requireReachable } from './read.js'
import type { ReadResult } from './read-aside.js'
import { SettingsError } from './settings-error.js'

// Reads a settings file for the main thread.

parentPort?.postMessage(read(workerData as string))

function read(file: string): ReadResult {
  try {
    const settings = readSettings(file, process.env)
    requireReachable(settings, file)
    return { settings }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const { code, file: shown, problems } = error
    return { refusal: { code, shown, problems } }
  }
}
