import { existsSync, realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { Migrated, MigrateProgress } from '../operate/migrate.js'
import { withoutPassword } from '../model/shown-url.js'
import type { Store } from '../store/store.js'
import type { StoreError } from '../store/store-error.js'
import { CommandError, EXIT, type AddCommand } from './command.js'
import { bar } from './progress.js'
import { codeOf, mayWorkLater } from './store-failure.js'

interface MigrateOptions {
  from: string
  to: string
  json?: true
}

/** What the command needs to open stores and to move deliveries. */
export interface MigrateParts {
  open: (url: string, options?: { mustExist?: boolean }) => Promise<Store>
  migrate: (
    from: Store,
    to: Store,
    report: (progress: MigrateProgress) => void,
  ) => Promise<Migrated>
}

const EXAMPLES = `
Moves everything that is stored: the backlog with its attempts and the time of the next attempt, the dead letters, the
log, and the settings that were made at run time. First stop every process that uses the first store, also those of the role collector:
on PostgreSQL, the command refuses to run while a process delivers from it, but it can't see one that only collects. What such a process
accepts stays in the first store: stop it, and run the command again. The second store may be in use. Nothing is deleted from the first
store. If the move is interrupted, run the same command again: it does not change what the second store has already.
At the end, the command compares the deliveries of both stores.

Examples:
  $ hookline-destination migrate --from sqlite:./data/hookline.db --to postgres://hookline:secret@db/hookline
  $ hookline-destination migrate --from "$OLD" --to "$NEW" --json

With --json, lines of {"stage","done","total"} go to the standard error, and the result goes to the standard output.
Exits with 0 if every delivery is in the second store, either equal or already further on there, with 1 if not, or if a store can't
be used now (its server can't be reached, it is full, another process uses its file, workers deliver from the PostgreSQL of --from), and with 2 if --from or --to names no store that
can be used. It also exits with 1 if --from is the home of a store that had several servers, and the other ones may still have messages,
which are not moved. The first store must exist. The second one is created if necessary.`

/** @param parts - What opens stores and moves deliveries between them. */
export function addMigrate({ open, migrate }: MigrateParts): AddCommand {
  return (program) => {
    program
      .command('migrate')
      .description('move everything from one store to another')
      .requiredOption(
        '--from <url>',
        'store to move from: sqlite: and a path, or postgres:// (required)',
      )
      .requiredOption('--to <url>', 'store to move to (required)')
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action(async ({ from, to, json }: MigrateOptions) => {
        if (fileOf(from) === fileOf(to)) {
          throw new CommandError(
            EXIT.usage,
            '--from and --to name the same store. Give two different stores.',
          )
        }
        const first = await opened('--from', () => open(from, { mustExist: true }))
        await requireUnused(first, withoutPassword(from))
        const second = await opened('--to', () => open(to)).catch(async (error: unknown) => {
          await first.close()
          throw error
        })
        const report = json ? tellInJson() : process.stderr.isTTY ? drawBar() : tellInLines()
        let result: Migrated
        try {
          result = await migrate(first, second, report)
        } catch (error) {
          throw new CommandError(
            EXIT.failed,
            `The move stopped: ${(error as Error).message}\nRun the same command again to continue.`,
          )
        } finally {
          await Promise.all([first.close(), second.close()])
        }
        if (json) console.log(JSON.stringify(result))
        else console.log(describe(result, withoutPassword(from), withoutPassword(to)))
        if (result.different > 0 || result.formerServers) throw new CommandError(EXIT.failed, '')
      })
  }
}

/** The file of an SQLite store, so that two spellings of its path are the same store; any other store as it is given. */
function fileOf(url: string): string {
  if (!url.startsWith('sqlite:')) return url
  const path = resolve(url.slice('sqlite:'.length))
  return existsSync(path) ? realpathSync(path) : path
}

async function opened<T>(option: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (error) {
    const failure = error as StoreError
    // Otherwise the option names no store that can be used, such as a database that does not exist, or a user that may not log in.
    const exitCode = mayWorkLater(failure) ? EXIT.failed : EXIT.usage
    throw new CommandError(exitCode, `${option}: ${failure.message}`, codeOf(failure))
  }
}

/** Closes a store that workers deliver from. @throws CommandError if there are some, as for the file of another process. */
async function requireUnused(first: Store, from: string): Promise<void> {
  const count = await opened('--from', async () => first.shared?.liveWorkers() ?? 0).catch(
    async (error: unknown) => {
      await first.close()
      throw error
    },
  )
  if (count === 0) return
  await first.close()
  const others = count === 1 ? 'another running process' : `${count} other running processes`
  const message =
    `--from: ${from} is the store of ${others}, which would still change it. End every process that uses it, and run the same command ` +
    'again. A process that was killed counts for 15 s.'
  throw new CommandError(EXIT.failed, message, 'locked')
}

function describe(result: Migrated, from: string, to: string): string {
  const { total, moved, known, same, ahead, different, differences, records, formerServers } =
    result
  const lines = [
    ...(records.total > 0
      ? [
          `Records of settings and of the states of destinations: ${records.total}. Moved: ${records.moved}. ` +
            `Already in the second store: ${records.known}.`,
        ]
      : []),
    `Deliveries: ${total}. Moved: ${moved}. Already in the second store: ${known}.`,
    `Comparison: ${same} equal, ${ahead} already further on in the second store, ${different} different.`,
    ...differences.map(
      ({ messageId, source, destination, what }) =>
        `  ${JSON.stringify(messageId)} from ${source} to ${destination}: ${what}`,
    ),
  ]
  if (different > 0) {
    lines.push(
      'The stores differ. Keep the first store. If a process still used it, stop it first, and run the same command again. Running it again ' +
        'changes nothing that the second store already had. If that is an older copy, use an empty store as the second one.',
    )
  } else if (formerServers) {
    lines.push(
      `All that ${from} has is in ${to}. What other servers still have was not moved: shares of this store came from ` +
        `${formerServers.join(', ')}, where the dead letters and the log of these shares stay until the retention is over.`,
      'If you need these, let the processes run with all servers in "store", replay the dead letters or wait for the retention, and ' +
        `run the same command again. If not, set "store" to ${to}, and stop using the first store.`,
    )
  } else {
    lines.push(`Everything is in ${to}. Set "store" to it, and stop using the first store.`)
  }
  return lines.join('\n')
}

const NAMES = { copy: 'moving', compare: 'comparing' }

/** How often the progress is drawn on a terminal, or printed as a line, in ms. */
const DRAW_MS = 100
const TELL_MS = 2_000

/** Limits how often the progress is shown. The end of each stage is always shown. */
function spaced(
  ms: number,
  show: (progress: MigrateProgress) => void,
): (progress: MigrateProgress) => void {
  let shownAt = -Infinity
  return (progress) => {
    const now = performance.now()
    if (now - shownAt < ms && progress.done < progress.total) return
    shownAt = now
    show(progress)
  }
}

function tellInJson() {
  return spaced(TELL_MS, (progress) => {
    console.error(JSON.stringify(progress))
  })
}

function tellInLines() {
  return spaced(TELL_MS, ({ stage, done, total }) => {
    console.error(`${NAMES[stage]}: ${done} of ${total}`)
  })
}

const BAR_WIDTH = 30

function drawBar() {
  return spaced(DRAW_MS, ({ stage, done, total }) => {
    const share = total === 0 ? 1 : Math.min(1, done / total)
    const end = done >= total ? '\n' : ''
    process.stderr.write(
      `\r${NAMES[stage].padEnd(9)} ${bar(share, BAR_WIDTH)} ${String(Math.floor(share * 100)).padStart(3)} %  ${done}${end}`,
    )
  })
}
