import { addDoctor } from './cli/doctor.js'
import { addImport } from './cli/import.js'
import { addListen } from './cli/listen.js'
import { addMigrate } from './cli/migrate.js'
import { addReplay } from './cli/replay.js'
import { run } from './cli/run.js'
import { addSchedule } from './cli/schedule.js'
import { addSend } from './cli/send.js'
import { addServe } from './cli/serve.js'
import { addTrace } from './cli/trace.js'
import { shown } from './admin/shown.js'
import { startDestination } from './destination.js'
import { examine } from './doctor/examine.js'
import { migrateStore } from './migrate.js'
import { plannedAttempts } from './settle/schedule.js'
import { openStore } from './store/open.js'

const commands = [
  addServe(startDestination),
  addListen,
  addSend,
  addTrace({ open: openStore, show: shown }),
  addReplay,
  addDoctor(examine),
  addImport,
  addMigrate({ open: openStore, migrate: migrateStore }),
  addSchedule(plannedAttempts),
]

// Whatever a command left open, it has ended.
process.exit(await run(process.argv.slice(2), commands))
