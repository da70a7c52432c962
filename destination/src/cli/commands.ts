import type { AddCommand } from './command.js'
import { addCompletion } from './completion.js'
import { addDoctor } from './doctor.js'
import { addImport } from './import.js'
import { addList } from './list.js'
import { addListen } from './listen.js'
import { addDestinations, addSources, addTenants } from './managed.js'
import { addMigrate, type MigrateParts } from './migrate.js'
import { addPause, addResume } from './pause.js'
import { addReplay } from './replay.js'
import { addSchedule } from './schedule.js'
import { addSend } from './send.js'
import { addServe } from './serve.js'
import { addSettings } from './settings.js'
import { addSign } from './sign.js'
import { addStatus } from './status.js'
import { addStore, type StoreParts } from './store.js'
import { addTail } from './tail.js'
import { addTest } from './test.js'
import { addTrace, type TraceParts } from './trace.js'
import { addVerify } from './verify.js'

/** What the commands use of the rooms that the command line may not import. */
export interface CommandParts extends Omit<TraceParts, 'open'>, MigrateParts, StoreParts {
  open: TraceParts['open'] & MigrateParts['open'] & StoreParts['open']
  start: Parameters<typeof addServe>[0]
  examine: Parameters<typeof addDoctor>[0]
  plannedAttempts: Parameters<typeof addSchedule>[0]
}

/** All commands, in the order of the help. */
export function allCommands(parts: CommandParts): AddCommand[] {
  return [
    addServe(parts.start),
    addListen,
    addSend,
    addStatus,
    addList,
    addTail,
    addTrace(parts),
    addPause,
    addResume,
    addReplay,
    addTest,
    addSources,
    addDestinations,
    addTenants,
    addSettings,
    addDoctor(parts.examine),
    addSign,
    addVerify,
    addImport,
    addMigrate(parts),
    addStore(parts),
    addSchedule(parts.plannedAttempts),
    addCompletion,
  ]
}
