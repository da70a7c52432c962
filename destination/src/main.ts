import { allCommands } from './cli/commands.js'
import { watchOutput } from './cli/output.js'
import { run } from './cli/run.js'
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

const commands = allCommands({
  start,
  examine: find,
  open,
  show: shownTrace,
  readDestinations,
  migrate,
  readPauses: (store) => Pauses.open(store),
  balanced,
  shareOf,
  plannedAttempts,
})

const finish = watchOutput()
// A handle that a command left open must not keep the process alive.
process.exit(await finish(await run(process.argv.slice(2), commands)))
