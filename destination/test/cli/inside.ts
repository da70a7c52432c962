import { vi } from 'vitest'
import { allCommands } from '../../src/cli/commands.js'
import { run } from '../../src/cli/run.js'
import { Pauses } from '../../src/deliver/pauses.js'
import { allDestinations } from '../../src/manage/all-destinations.js'
import { shownTrace } from '../../src/operate/shown-trace.js'
import { examine } from '../../src/operate/doctor.js'
import { migrateStore } from '../../src/operate/migrate.js'
import { openStore } from '../../src/store/open.js'
import { balanced, shareOf } from '../../src/store/shares.js'
import type { Ended } from './process.js'

const COMMANDS = allCommands({
  start: () => Promise.reject(new Error('nothing is to be started')),
  ...{ examine, open: openStore, show: shownTrace, readDestinations: allDestinations },
  migrate: migrateStore,
  readPauses: (store) => Pauses.open(store),
  ...{ balanced, shareOf },
  plannedAttempts: () => [],
})

/** How a warning of Node begins. It can be of any test that runs in this process. */
const NODE_WARNING = /^\(node:\d+\) /

/** Runs the command line in this process. This is faster than a child process, and enough for tests of its output. */
export async function runInside(args: string[], commands = COMMANDS): Promise<Ended> {
  const output = { stdout: '', stderr: '' }
  const warnings: string[] = []
  const print = (stream: 'stdout' | 'stderr', text: string) => {
    if (NODE_WARNING.test(text)) warnings.push(text)
    else output[stream] += text
  }
  const spies = [
    ...(['stdout', 'stderr'] as const).map((stream) =>
      vi.spyOn(process[stream], 'write').mockImplementation((text) => {
        print(stream, String(text))
        return true
      }),
    ),
    vi.spyOn(console, 'log').mockImplementation((text) => {
      print('stdout', `${text}\n`)
    }),
    vi.spyOn(console, 'error').mockImplementation((text) => {
      print('stderr', `${text}\n`)
    }),
  ]
  try {
    return { code: await run(args, commands), ...output }
  } finally {
    for (const spy of spies) spy.mockRestore()
    for (const text of warnings) process.stderr.write(text)
  }
}
