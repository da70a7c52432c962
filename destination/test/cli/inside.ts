import { vi } from 'vitest'
import { addCompletion } from '../../src/cli/completion.js'
import { addDoctor } from '../../src/cli/doctor.js'
import { addImport } from '../../src/cli/import.js'
import { addList } from '../../src/cli/list.js'
import { addListen } from '../../src/cli/listen.js'
import { addDestinations, addSources, addTenants } from '../../src/cli/managed.js'
import { addMigrate } from '../../src/cli/migrate.js'
import { addPause, addResume } from '../../src/cli/pause.js'
import { addReplay } from '../../src/cli/replay.js'
import { run } from '../../src/cli/run.js'
import { addSchedule } from '../../src/cli/schedule.js'
import { addSend } from '../../src/cli/send.js'
import { addServe } from '../../src/cli/serve.js'
import { addSettings } from '../../src/cli/settings.js'
import { addSign } from '../../src/cli/sign.js'
import { addStatus } from '../../src/cli/status.js'
import { addStore } from '../../src/cli/store.js'
import { addTail } from '../../src/cli/tail.js'
import { addTest } from '../../src/cli/test.js'
import { addTrace } from '../../src/cli/trace.js'
import { addVerify } from '../../src/cli/verify.js'
import { Pauses } from '../../src/deliver/pauses.js'
import { allDestinations } from '../../src/manage/all-destinations.js'
import { shownTrace } from '../../src/operate/shown-trace.js'
import { examine } from '../../src/operate/doctor.js'
import { migrateStore } from '../../src/operate/migrate.js'
import { openStore } from '../../src/store/open.js'
import { balanced, shareOf } from '../../src/store/shares.js'
import type { Ended } from './process.js'

/** Those of `main.ts`. A test of the documents compares the help of both. */
const COMMANDS = [
  addServe(() => Promise.reject(new Error('nothing is to be started'))),
  addListen,
  addSend,
  addStatus,
  addList,
  addTail,
  addTrace({
    ...{ open: openStore, show: shownTrace, readDestinations: allDestinations },
    readPauses: (store) => Pauses.open(store),
  }),
  addPause,
  addResume,
  addReplay,
  addTest,
  addSources,
  addDestinations,
  addTenants,
  addSettings,
  addDoctor(examine),
  addSign,
  addVerify,
  addImport,
  addMigrate({ open: openStore, migrate: migrateStore }),
  addStore({ open: openStore, balanced, shareOf }),
  addSchedule(() => []),
  addCompletion,
]

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
