import { accessSync, constants } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import type { ShownAttempt, ShownMessage, ShownTrace } from '../model/answers.js'
import type { Trace } from '../model/delivery.js'
import { printable } from '../observe/printable.js'
import { SettingsError } from '../settings/settings-error.js'
import type { Settings } from '../settings/settings.js'
import type { StoreError } from '../store/store-error.js'
import type { Store } from '../store/store.js'
import {
  addAdminOptions,
  AdminError,
  findAdmin,
  UnreachableError,
  type AdminOptions,
} from './admin-client.js'
import type { AddCommand } from './command.js'
import { inWords, timeOf } from './shown-time.js'
import { cannotUse } from './store-failure.js'

const EXAMPLES = `
Asks the running destination. If none runs, and the settings in this folder name an SQLite store, the command reads the
store itself, and says so on the standard error. The id is the messageId of the call, or the X-Message-Id that receivers
get, which is percent-encoded. Exits with 1 if the message is not known.

Examples:
  $ hookline-destination trace 768084a7-4e11-4a2f-8a7a-2f6d1f0c9a55
  $ hookline-destination trace 768084a7-4e11-4a2f-8a7a-2f6d1f0c9a55 --json | jq '.deliveries[].state'
  $ hookline-destination trace order-17 --url https://hooks.example.com --token "$ADMIN_TOKEN"`

/** What the command needs to read a store itself, if no destination runs. */
export interface TraceParts {
  open: (place: Settings['store'], options?: { mustExist?: boolean }) => Promise<Store>
  /** Removes what must not be shown of a delivery. */
  show: (
    trace: Trace,
    destinations: readonly KnownDestination[],
    isPaused: (destination: string) => boolean,
  ) => ShownTrace
  /** Reads the destinations of the settings, and those that were made at run time and are kept in the store. */
  readDestinations: (settings: Settings, store: Store) => Promise<KnownDestination[]>
  /** Reads which destinations are paused. */
  readPauses: (store: Store) => Promise<{ of: (destination: string) => unknown }>
}

type KnownDestination = Pick<Settings['destinations'][number], 'name' | 'enabled'>

/** @param parts - Read the store if no destination runs. */
export function addTrace(parts: TraceParts): AddCommand {
  return (program) => {
    const command = program
      .command('trace')
      .description(
        'show what happened to a message: each attempt with its answer, and the next one',
      )
      .argument('<messageId>', 'id of the message')
    addAdminOptions(command)
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action(async (messageId: string, options: AdminOptions & { json?: true }) => {
        const { deliveries, now } = await findEither(parts, messageId, options)
        if (options.json) console.log(JSON.stringify({ deliveries }, null, 2))
        else console.log(traceLines(deliveries, now).join('\n'))
      })
  }
}

/** The deliveries of a message, and the time by the clock of the store, which the clock of this machine may not be. */
interface Found {
  deliveries: ShownTrace[]
  now: number
}

/** Finds a message by its id, or else by the id that an X-Message-Id encodes. */
async function findEither(parts: TraceParts, given: string, options: AdminOptions): Promise<Found> {
  try {
    return await find(parts, given, options)
  } catch (error) {
    const decoded = decode(given)
    const isUnknown = error instanceof AdminError && error.code === 'unknown_message'
    if (!isUnknown || decoded === given) throw error
    return find(parts, decoded, options)
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // it is no X-Message-Id
  }
}

async function find(parts: TraceParts, messageId: string, options: AdminOptions): Promise<Found> {
  try {
    const { ask } = await findAdmin(options)
    return (await ask(`/messages?messageId=${encodeURIComponent(messageId)}`)) as ShownMessage
  } catch (error) {
    if (!(error instanceof UnreachableError) || error.file === undefined) throw error
    const settings = await readAll(error.file, error)
    const path = requireFile(settings.store, error)
    const found = await look(parts, settings, messageId, () => {
      console.error(`No destination runs. This is what its store has, ${path}:`)
    })
    if (found.deliveries.length > 0) return found
    throw new AdminError(
      'unknown_message',
      `There is no message ${JSON.stringify(messageId)}.`,
      404,
    )
  }
}

/** @throws the given error, which then says why the settings can't be used. */
async function readAll(file: string, unreachable: UnreachableError): Promise<Settings> {
  const { readSettings } = await import('../settings/read.js')
  try {
    return readSettings(file, process.env)
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const why = `Its store can't be read instead, because of the settings.\n${error.message}`
    throw new UnreachableError(`${unreachable.message} ${why}`, file)
  }
}

/**
 * The path of the store, if it is a file that this user may open. Opening a store that does not exist would create it.
 *
 * @throws the given error, which then names the path, and why the file can't be used.
 */
function requireFile(store: Settings['store'], unreachable: UnreachableError): string {
  if (typeof store !== 'string' || !store.startsWith('sqlite:')) throw unreachable
  const named = store.slice('sqlite:'.length)
  const path = resolve(named)
  let failure: NodeJS.ErrnoException
  try {
    accessSync(path, constants.R_OK | constants.W_OK)
    return path
  } catch (error) {
    failure = error as NodeJS.ErrnoException
  }
  if (failure.code !== 'ENOENT' && failure.code !== 'ENOTDIR') {
    const isDenied = failure.code === 'EACCES' || failure.code === 'EPERM'
    const advice = isDenied ? ' Run the command as the user of the destination.' : ''
    throw new UnreachableError(
      `${unreachable.message} The store at ${path} can't be opened instead: ${failure.message}.${advice}`,
      unreachable.file,
    )
  }
  const why = isAbsolute(named)
    ? ''
    : ' The path in the settings is relative: run the command in the folder where the destination runs.'
  throw new UnreachableError(
    `${unreachable.message} There is no store at ${path} to read instead.${why}`,
    unreachable.file,
  )
}

/** @param opened - Is called before the store is read. */
async function look(
  { open, show, readDestinations, readPauses }: TraceParts,
  settings: Settings,
  messageId: string,
  opened: () => void,
): Promise<Found> {
  let store: Store
  try {
    store = await open(settings.store, { mustExist: true })
  } catch (error) {
    throw cannotUse(error as StoreError)
  }
  opened()
  try {
    const destinations = await readDestinations(settings, store)
    const pauses = await readPauses(store)
    const isPaused = (destination: string) => pauses.of(destination) !== undefined
    const traces = await store.trace(messageId)
    const deliveries = traces.map((trace) => show(trace, destinations, isPaused))
    return { deliveries, now: store.clock.wall() }
  } finally {
    await store.close()
  }
}

/** Describes for people what happened to a message. */
export function traceLines(deliveries: readonly ShownTrace[], now: number): string[] {
  return deliveries.flatMap((delivery, i) => [...(i > 0 ? [''] : []), ...linesOf(delivery, now)])
}

function linesOf(delivery: ShownTrace, now: number): string[] {
  const { id, messageId, source, destination, type, event, user, receivedAt, attempts } = delivery
  const what = [type, event && JSON.stringify(event), user && `of ${user}`]
    .filter(Boolean)
    .join(' ')
  const to = destination === '' ? 'to no destination' : `to ${destination}`
  return [
    `${messageId}  ${what}  from ${source} ${to}  (delivery ${id})`,
    `  ${timeOf(receivedAt)}  accepted`,
    ...attempts.flatMap(attemptLines),
    `  ${stateOf(delivery, now)}`,
  ].map(printable)
}

function attemptLines({ attempt, at, url, code, status, ms, error, response }: ShownAttempt) {
  const answer = status === null ? code : `${status} ${code}`
  return [
    `  ${timeOf(at)}  attempt ${attempt}  ${answer}  ${Math.round(ms)} ms  ${url}`,
    ...(error === null ? [] : [`      ${error}`]),
    ...(response === '' ? [] : [`      answer: ${shortened(response.trim())}`]),
  ]
}

/** The start of an answer that is shown, in characters. `--json` has all that is stored. */
const SHOWN_LENGTH = 500

function shortened(text: string): string {
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)} …` : text
}

/** What to do about a delivery to which no attempt is made. */
const HOLDS = {
  paused: 'The destination is paused, so no attempt is made. `resume` lifts the pause.',
  disabled:
    'The destination is disabled, so no attempt is made. Set "enabled": true and reload the settings to send it.',
  removed:
    'The settings have no destination of this name, so no attempt is made. Add the destination and reload the settings to send it.',
}

function stateOf({ state, reason, dueAt, deadlineAt, hold }: ShownTrace, now: number): string {
  if (state === 'done') return 'It was delivered.'
  if (state === 'skipped') return `It was not sent: ${reason}.`
  if (state === 'dead')
    return `It is a dead letter: ${`${reason}`.replace(/\.?$/, '.')} \`replay\` sends it again.`
  if (state === 'leased') return 'It is being sent.'
  if (hold !== null) return HOLDS[hold]
  const due =
    dueAt === null || dueAt <= now ? 'now' : `${timeOf(dueAt)}, in ${inWords(dueAt - now)}`
  const end = deadlineAt === null ? '' : `; the last one is at ${timeOf(deadlineAt)}`
  const lane = state === 'bulk' ? 'It is bulk work' : 'It is in the backlog'
  return `${lane}. The next attempt is due ${due}${end}.`
}
