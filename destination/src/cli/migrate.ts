import { performance } from 'node:perf_hooks'
import type { Migrated, MigrateProgress } from '../operate/migrate.js'
import { withoutPassword } from '../model/shown-url.js'
import type { Store } from '../store/store.js'
import { CommandError, EXIT, type AddCommand } from './command.js'
import { bar } from './progress.js'

interface MigrateOptions {
  from: string
  to: string
  json?: true
}

/** What moves deliveries, as far as a command line has to do with it. */
export interface MigrateParts {
  open: (url: string) => Promise<Store>
  migrate: (
    from: Store,
    to: Store,
    report: (progress: MigrateProgress) => void,
  ) => Promise<Migrated>
}

const EXAMPLES = `
Moves all that is stored: what waits, with its attempts so far and when it is tried next, dead letters, and the log.
Stop what serves from the first store; the second one may be served from meanwhile. Nothing is taken from the first
one. A move that was cut off is made again by the same command: what is there already stays as it is. At the end both
are compared.

Examples:
  $ hookline-destination migrate --from sqlite:./data/hookline.db --to postgres://hookline:secret@db/hookline
  $ hookline-destination migrate --from "$OLD" --to "$NEW" --json

With --json, lines of {"stage","done","total"} go to the standard error, and the result to the standard output. Ends
with 0 if both stores have the same in the end, or the second one has gone on; with 1 if not.`

/** @param parts - the stores, and what moves between them */
export function addMigrate({ open, migrate }: MigrateParts): AddCommand {
  return (program) => {
    program
      .command('migrate')
      .description('move everything from one store to another')
      .requiredOption('--from <url>', 'the store that has it: sqlite: and a path, or postgres://')
      .requiredOption('--to <url>', 'the one that gets it')
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action(async ({ from, to, json }: MigrateOptions) => {
        if (from === to) {
          throw new CommandError(EXIT.usage, '--from and --to are the same store: name two.')
        }
        const first = await opened(open, from, '--from')
        const second = await opened(open, to, '--to').catch(async (error: unknown) => {
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
            `Cut off: ${(error as Error).message}\nThe same command again goes on with it.`,
          )
        } finally {
          await Promise.all([first.close(), second.close()])
        }
        if (json) console.log(JSON.stringify(result))
        else console.log(describe(result, withoutPassword(to)))
        if (result.different > 0) throw new CommandError(EXIT.failed, '')
      })
  }
}

async function opened(open: MigrateParts['open'], url: string, option: string): Promise<Store> {
  try {
    return await open(url)
  } catch (error) {
    throw new CommandError(EXIT.failed, `${option}: ${(error as Error).message}`)
  }
}

function describe(result: Migrated, to: string): string {
  const { total, moved, known, same, ahead, different, differences } = result
  const lines = [
    `${total} deliveries: ${moved} moved, ${known} were there already.`,
    `Compared: ${same} are the same, ${ahead} have gone on since, ${different} differ.`,
    ...differences.map(
      ({ messageId, source, destination, what }) =>
        `  ${JSON.stringify(messageId)} from ${source} to ${destination}: ${what}`,
    ),
  ]
  if (different > 0) lines.push('Something is wrong: keep the first store, and run it again.')
  else lines.push(`All of it is in ${to}. Set "store" to it, and put the first one away.`)
  return lines.join('\n')
}

const NAMES = { copy: 'moving', compare: 'comparing' }

/** How often a progress that changes is drawn, or told, in ms. */
const DRAW_MS = 100
const TELL_MS = 2_000

/** Passes on what comes no more often than that, and the end of each stage. */
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
