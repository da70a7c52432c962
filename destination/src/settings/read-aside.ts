import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Problem } from './problem.js'
import { SettingsError, type SettingsErrorCode } from './settings-error.js'
import type { Settings } from './settings.js'

/** What the thread posts each time it is asked; nothing at the end. An error would lose its class and its fields on the way. */
export type ReadPart =
  | { settings: Settings }
  | { sources: Settings['sources'] }
  | { destinations: Settings['destinations'] }
  | { refusal: { code: SettingsErrorCode; shown: string; problems: readonly Problem[] } }

/**
 * Does what `readSettings`, with the environment of this process, and `requireReachable` do, in a thread of its own: a file
 * with thousands of destinations takes seconds, in which this process would do nothing else. It also comes in parts, because
 * receiving it at once would take longer than a request may wait.
 *
 * @throws {@link SettingsError} with all problems that were found.
 */
export async function readSettingsAside(file: string): Promise<Settings> {
  const thread = new Worker(new URL('./read-thread.js', import.meta.url), { workerData: file })
  try {
    return await receive(thread)
  } finally {
    void thread.terminate()
  }
}

async function receive(thread: Worker): Promise<Settings> {
  let settings: Settings | undefined
  for (;;) {
    thread.postMessage('next')
    const [part] = (await once(thread, 'message')) as [ReadPart | undefined]
    if (!part) break
    if ('refusal' in part) {
      const { code, shown, problems } = part.refusal
      throw new SettingsError(code, shown, problems)
    }
    if ('settings' in part) settings = part.settings
    else if ('sources' in part) settings?.sources.push(...part.sources)
    else settings?.destinations.push(...part.destinations)
  }
  if (!settings) throw new Error('the thread that reads the settings has ended without any')
  return settings
}
