import type { Command } from 'commander'
import type { PauseChanged } from '../model/answers.js'
import { addAdminOptions, findAdmin, pathOf, type AdminOptions } from './admin-client.js'
import type { AddCommand } from './command.js'
import { timeOf } from './shown-time.js'

interface PauseOptions extends AdminOptions {
  reason: string
  json?: true
}

const OF_PAUSE = `
A paused destination gets calls, and nothing is sent to it: its messages wait until you resume it. The pause holds in every
process of the store, also after a restart. Waiting messages become dead letters after the retention. The command needs the
admin or the operator token. To change the reason, pause the destination again.

Examples:
  $ hookline-destination pause crm --reason "maintenance until 14:00"
  $ hookline-destination pause crm --reason "INC-204: wrong events" --json`

const OF_RESUME = `
Sends what waits, the oldest first, and the new messages at the same time. A message whose 4 hours have ended during the pause is
still sent once, and at least 3 times in all if it fails. The command needs the admin or the operator token. It also ends the pause of a
destination that failed for too long. It exits with 0 if the destination was not paused.

Examples:
  $ hookline-destination resume crm
  $ hookline-destination resume crm --json`

export const addPause: AddCommand = (program) => {
  const command = program
    .command('pause')
    .description('send nothing to a destination until you resume it')
    .argument('<destination>', 'name of the destination')
    .requiredOption('-r, --reason <text>', 'why, for those who see the pause (required)')
  addAdminOptions(command)
    .option('--json', 'print JSON')
    .addHelpText('after', OF_PAUSE)
    .action(async (destination: string, { reason, ...options }: PauseOptions) => {
      const changed = await change(destination, 'pause', { reason }, options)
      if (options.json) return
      const how = changed.wasPaused ? 'was paused already; the reason is changed' : 'is paused'
      console.log(`${destination} ${how}. Its messages wait until you resume it.`)
    })
}

export const addResume: AddCommand = (program) => {
  const command: Command = program
    .command('resume')
    .description('end the pause of a destination')
    .argument('<destination>', 'name of the destination')
  addAdminOptions(command)
    .option('--json', 'print JSON')
    .addHelpText('after', OF_RESUME)
    .action(async (destination: string, options: Omit<PauseOptions, 'reason'>) => {
      const { wasPaused } = await change(destination, 'resume', {}, options)
      if (options.json) return
      console.log(
        wasPaused ? `${destination} is sent its messages again.` : `${destination} was not paused.`,
      )
    })
}

async function change(
  destination: string,
  action: 'pause' | 'resume',
  body: object,
  options: Omit<PauseOptions, 'reason'>,
): Promise<PauseChanged> {
  const { ask } = await findAdmin(options)
  const path = pathOf('destination', destination, `/${action}`)
  const changed = (await ask(path, body)) as PauseChanged
  if (options.json) console.log(JSON.stringify(changed))
  return changed
}

/** A pause in one line, for people. */
export function pauseInWords({ at, reason }: NonNullable<PauseChanged['paused']>): string {
  return `paused since ${timeOf(at)}: ${reason}`
}
