import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Problem } from './problem.js'
import { SettingsError, type SettingsErrorCode } from './settings-error.js'
import type { Settings } from './settings.js'

/** What the thread posts. An error would lose its class and its fields on the way. */
export type ReadResult =
  | { settings: Settings }
  | { refusal: { code: SettingsErrorCode; shown: string; problems: readonly Problem[] } }

/**
 * Does what `readSettings`, with the environment of this process, and `requireReachable` do, in a thread of its own: a file
 * with thousands of destinations takes seconds, in which this process would do nothing else.
 *
 * @throws {@link SettingsError} with all problems that were found.
 */
export async function readSettingsAside(file: string): Promise<Settings> {
  const thread = new Worker(new URL('./read-thread.js', import.meta.url), { workerData: file })
  const [result] = (await once(thread, 'message')) as [ReadResult]
  if ('settings' in result) return result.settings
  const { code, shown, problems } = result.refusal
  throw new SettingsError(code, shown, problems)
}
