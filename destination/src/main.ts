import { addCompletion } from './cli/completion.js'
import { addDoctor } from './cli/doctor.js'
import { addImport } from './cli/import.js'
import { addList } from './cli/list.js'
import { addListen } from './cli/listen.js'
import { addMigrate } from './cli/migrate.js'
import { addDestinations, addSources, addTenants } from './cli/managed.js'
import { watchOutput } from './cli/output.js'
import { addPause, addResume } from './cli/pause.js'
import { addReplay } from './cli/replay.js'
import { run } from './cli/run.js'
import { addSchedule } from './cli/schedule.js'
import { addSend } from './cli/send.js'
import { addServe } from './cli/serve.js'
import { addSettings } from './cli/settings.js'
import { addSign } from './cli/sign.js'
import { addStatus } from './cli/status.js'
import { addStore } from './cli/store.js'
import { addTail } from './cli/tail.js'
import { addTest } from './cli/test.js'
import { addTrace } from './cli/trace.js'
import { addVerify } from './cli/verify.js'
import { Pauses } from './deliver/pauses.js'
import { plannedAttempts } from './deliver/schedule.js'
import type { startDestination } from './destination.js'
import type { allDestinations } from './manage/all-destinations.js'
import type { examine } from './operate/doctor.js'
import type { migrateStore } from './operate/migrate.js'
import { shownTrace } from './operate/shown-trace.js'
import type { openStore } from './store/open.js'
import { balanced, shareOf } from './store/shares.js'

// What takes long to load is loaded by the commands that need it, when they run.
const start: typeof startDestination = async (...given) =>
  (await import('./destination.js')).startDestination(...given)

const find: typeof examine = async function* (...given) {
  yield* (await import('./operate/doctor.js')).examine(...given)
}

const open: typeof openStore = async (...given) =>
  (await import('./store/open.js')).openStore(...given)

const readDestinations: typeof allDestinations = async (...given) =>
  (await import('./manage/all-destinations.js')).allDestinations(...given)

const migrate: typeof migrateStore = async (...given) =>
  (await import('./operate/migrate.js')).migrateStore(...given)

const commands = [
  addServe(start),
  addListen,
  addSend,
  addStatus,
  addList,
  addTail,
  addTrace({
    ...{ open, show: shownTrace, readDestinations },
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
  addDoctor(find),
  addSign,
  addVerify,
  addImport,
  addMigrate({ open, migrate }),
  addStore({ open, balanced, shareOf }),
  addSchedule(plannedAttempts),
  addCompletion,
]

const finish = watchOutput()
// A handle that a command left open must not keep the process alive.
process.exit(await finish(await run(process.argv.slice(2), commands)))
