import { InvalidArgumentError, type Command } from 'commander'
import { printable } from '../observe/printable.js'
import type { Settings } from '../settings/settings.js'
import type { Directory, MoveProgress, Servers } from '../store/servers.js'
import type { Store } from '../store/store.js'
import type { StoreError } from '../store/store-error.js'
import { CommandError, EXIT, type AddCommand } from './command.js'
import { readLocalSettings } from './local-settings.js'
import { cannotUse } from './store-failure.js'
import { table } from './table.js'

/** What the commands need of the store. */
export interface StoreParts {
  open: (place: Settings['store']) => Promise<Store>
  /** The new owners of shares that are to be spread evenly. */
  balanced: (owners: readonly string[], servers: readonly string[]) => Map<number, string>
  shareOf: (source: string) => number
}

interface CommonOptions {
  config?: string
  json?: true
}

interface MoveOptions extends CommonOptions {
  share?: number[]
  from?: string
  to: string
}

/** Decides where the shares go, by the directory and the names of the servers. */
type Plan = (directory: Directory, servers: readonly string[]) => ReadonlyMap<number, string>

const EXAMPLES = `
The messages of a store with several servers are divided into 256 shares, by their source. These commands use the servers that
"store" names in the settings file.

Examples:
  $ hookline-destination store shares                        # how many shares each server has
  $ hookline-destination store shares --source web           # the share and the server of a source
  $ hookline-destination store balance                       # after a server was added
  $ hookline-destination store move --share 75 --to b
  $ hookline-destination store move --from c --to a          # before a server is removed`

const MOVE_NOTE = `
The store stays in use. Calls are stored at the new server from the beginning. What waits at the former one follows; what is done
or dead stays there until the retention is over. If the command is interrupted, run it again: it continues. All processes have to
know both servers.`

/** @param parts - Open the store, and decide about shares. */
export function addStore(parts: StoreParts): AddCommand {
  return (program) => {
    const group = program
      .command('store')
      .description('show and move the shares of a store that has several servers')
      .addHelpText('after', EXAMPLES)
    const common = (command: Command) =>
      command.option('-c, --config <file>', 'settings file').option('--json', 'print JSON')

    common(group.command('shares').description('show which server owns how many shares'))
      .option('--source <name>', 'show only the share of this source')
      .action((options: CommonOptions & { source?: string }) => showShares(parts, options))

    common(group.command('move').description('move shares to a server'))
      .option('--share <numbers>', 'the shares, such as 75 or 3,17,40', readShares)
      .option('--from <server>', 'all shares of this server')
      .requiredOption('--to <server>', 'the server that gets them (required)')
      .addHelpText('after', MOVE_NOTE)
      .action((options: MoveOptions) => move(parts, planOf(options), options))

    common(group.command('balance').description('spread the shares evenly over all servers'))
      .addHelpText('after', MOVE_NOTE)
      .action((options: CommonOptions) =>
        move(
          parts,
          ({ names, shares }, servers) =>
            parts.balanced(
              shares.map(({ server }) => nameOf(names, server)),
              servers,
            ),
          options,
        ),
      )
  }
}

function readShares(text: string): number[] {
  const shares = text.split(',').map((one) => (/^\d{1,3}$/.test(one) ? Number(one) : NaN))
  if (shares.every((share) => share < 256)) return shares
  throw new InvalidArgumentError('Expected numbers from 0 to 255, with commas between them.')
}

function planOf({ share, from, to }: MoveOptions): Plan {
  if ((share === undefined) === (from === undefined)) {
    throw new CommandError(EXIT.usage, 'Say which shares to move: either --share or --from.')
  }
  return ({ names, shares }, servers) => {
    if (from !== undefined && !servers.includes(from)) {
      throw new CommandError(
        EXIT.usage,
        `there is no server ${JSON.stringify(from)} in the settings.`,
      )
    }
    const all = [...shares.entries()]
    const chosen = share ?? all.flatMap(([i, { server }]) => (names[server] === from ? [i] : []))
    return new Map(chosen.map((one) => [one, to]))
  }
}

async function showShares(
  parts: StoreParts,
  { source, json, ...options }: CommonOptions & { source?: string },
): Promise<void> {
  await withServers(parts, options, async (servers) => {
    const { names, shares } = await servers.directory()
    const listed = shares.map(({ server, next, former }, share) => ({
      share,
      server: nameOf(names, server),
      next: next === null ? null : nameOf(names, next),
      former: former.map((one) => ({ server: nameOf(names, one.server), isMoving: one.isMoving })),
    }))
    const chosen =
      source === undefined ? listed : listed.filter(({ share }) => share === parts.shareOf(source))
    if (json) console.log(JSON.stringify({ shares: chosen }, null, 2))
    else if (source === undefined) console.log(lines(servers, listed).join('\n'))
    else for (const { share, server } of chosen) console.log(`share ${share}, server ${server}`)
  })
}

interface ListedShare {
  server: string
  next: string | null
  former: { server: string; isMoving: boolean }[]
}

function lines(servers: Servers, shares: readonly ListedShare[]): string[] {
  const rows = servers.list().map(({ name, error }) => {
    const own = shares.filter(({ server }) => server === name)
    const arriving = own.filter(({ former }) => former.some(({ isMoving }) => isMoving)).length
    const leaving = own.filter(({ next }) => next !== null).length
    const formerly = shares.filter(({ former }) => former.some((one) => one.server === name)).length
    const counts = [own.length, arriving, leaving, formerly].map(String)
    return [name, ...counts, error ? error.message : 'works']
  })
  return table([['SERVER', 'SHARES', 'ARRIVING', 'LEAVING', 'FORMER', 'STATE'], ...rows]).map(
    printable,
  )
}

async function move(parts: StoreParts, plan: Plan, options: CommonOptions): Promise<void> {
  await withServers(parts, options, async (servers) => {
    const names = servers.list().map(({ name }) => name)
    const latest = new Map<string, MoveProgress>()
    const tell = telling(options)
    const stopped = new AbortController()
    const stop = () => {
      stopped.abort()
    }
    process.once('SIGINT', stop).once('SIGTERM', stop) // the second one ends the process
    try {
      await servers.move(
        (directory) => plan(directory, names),
        (progress) => {
          latest.set(`${progress.from} ${progress.to}`, progress)
          tell(progress)
        },
        stopped.signal,
      )
    } catch (error) {
      if (error instanceof CommandError || (error as StoreError).code === 'unsupported') throw error
      const again = 'What has begun continues when you run the same command again.'
      if (error === stopped.signal.reason) {
        throw new CommandError(EXIT.failed, `The move was stopped. ${again}`, 'stopped')
      }
      const failure = error as StoreError
      throw cannotUse(failure, `${failure.message}\n${again}`)
    } finally {
      process.off('SIGINT', stop).off('SIGTERM', stop)
    }
    const ways = [...latest.values()]
    if (options.json) console.log(JSON.stringify({ ways }))
    else if (ways.length === 0) console.log('All shares are where they should be.')
    else for (const way of ways) console.log(`${inWords(way)} Done.`)
  })
}

/** How often the progress of a move is told, in ms. */
const TELL_MS = 2_000

function telling({ json }: CommonOptions): (progress: MoveProgress) => void {
  let toldAt = performance.now()
  return (progress) => {
    if (performance.now() - toldAt < TELL_MS) return
    toldAt = performance.now()
    console.error(json ? JSON.stringify(progress) : inWords(progress))
  }
}

function inWords({ from, to, shares, moved, left }: MoveProgress): string {
  const count = shares.length === 1 ? '1 share' : `${shares.length} shares`
  const messages = moved === 1 ? '1 waiting message was' : `${moved} waiting messages were`
  const text = `${count} from ${from} to ${to}: ${messages} moved.`
  if (left === 0) return text
  return `${text} ${left === 1 ? '1 is being sent, and follows' : `${left} are being sent, and follow`}.`
}

/** @throws CommandError if there is no store with several servers, or it fails. */
async function withServers(
  { open }: StoreParts,
  { config }: CommonOptions,
  work: (servers: Servers) => Promise<void>,
): Promise<void> {
  const place = (await readLocalSettings(config, ['store']))?.settings.store
  if (place === undefined) {
    throw new CommandError(EXIT.usage, 'There are no settings in this folder. Name them: --config.')
  }
  if (typeof place === 'string') {
    throw new CommandError(
      EXIT.usage,
      '"store" names a single server in the settings. Only a list of servers has shares: see docs/postgres.md.',
    )
  }
  let store: Store | undefined
  try {
    store = await open(place)
    // A store that was opened on a list has servers.
    await work(store.servers as Servers)
  } catch (error) {
    if ((error as Error).name !== 'StoreError') throw error
    const failure = error as StoreError
    if (failure.code !== 'unsupported') throw cannotUse(failure)
    throw new CommandError(EXIT.usage, failure.message, failure.code)
  } finally {
    await store?.close()
  }
}

function nameOf(names: readonly string[], server: number): string {
  return names[server] ?? String(server)
}
