import { addListen } from './cli/listen.js'
import { addMigrate } from './cli/migrate.js'
import { run } from './cli/run.js'
import { addSchedule } from './cli/schedule.js'
import { addSend } from './cli/send.js'
import { addServe } from './cli/serve.js'
import { startDestination } from './destination.js'
import { migrateStore } from './migrate.js'
import { plannedAttempts } from './settle/schedule.js'
import { openStore } from './store/open.js'

const commands = [
  addServe(startDestination),
  addListen,
  addSend,
  addMigrate({ open: openStore, migrate: migrateStore }),
  addSchedule(plannedAttempts),
]

// Whatever a command left open, it has ended.
process.exit(await run(process.argv.slice(2), commands))
