import { existsSync } from 'node:fs'
import type { ShownMessage, ShownTrace } from '../model/answers.js'
import type { Trace } from '../model/delivery.js'
import { printable } from '../observe/printable.js'
import type { Store } from '../store/store.js'
import {
  addAdminOptions,
  AdminError,
  findAdmin,
  UnreachableError,
  type AdminOptions,
} from './admin-client.js'
import { CommandError, EXIT, type AddCommand } from './command.js'

const EXAMPLES = `
Asks the running destination. If none runs, and the settings in this folder name an SQLite store, the command reads the
store itself. The id is the messageId of the call, which receivers get as X-Message-Id. Exits with 1 if the message is
not known.

Examples:
  $ hookline-destination trace 768084a7-4e11-4a2f-8a7a-2f6d1f0c9a55
  $ hookline-destination trace 768084a7-4e11-4a2f-8a7a-2f6d1f0c9a55 --json | jq '.deliveries[].state'
  $ hookline-destination trace order-17 --url https://hooks.example.com --token "$ADMIN_TOKEN"`

/** What the command needs to read a store itself, if no destination runs. */
export interface TraceParts {
  open: (url: string, options?: { mustExist?: boolean }) => Promise<Store>
  /** Removes what must not be shown of a delivery. */
  show: (trace: Trace) => ShownTrace
}

/** @param parts - Read the store if no destination runs. */
export function addTrace(parts: TraceParts): AddCommand {
  return (program) => {
    const command = program
      .command('trace')
      .description('show what happened to a message: each attempt, and when the next one is due')
      .argument('<messageId>', 'id of the message')
    addAdminOptions(command)
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action(async (messageId: string, options: AdminOptions & { json?: true }) => {
        const deliveries = await find(parts, messageId, options)
        if (options.json) console.log(JSON.stringify({ deliveries }, null, 2))
        else console.log(traceLines(deliveries, Date.now()).join('\n'))
      })
  }
}

async function find(
  parts: TraceParts,
  messageId: string,
  options: AdminOptions,
): Promise<ShownTrace[]> {
  try {
    const ask = await findAdmin(options)
    const answer = await ask(`/messages?messageId=${encodeURIComponent(messageId)}`)
    return (answer as ShownMessage).deliveries
  } catch (error) {
    const path = error instanceof UnreachableError ? fileOf(error) : undefined
    if (path === undefined) throw error
    const found = await look(parts, path, messageId)
    if (found.length > 0) return found
    throw new AdminError('unknown_message', `There is no message ${JSON.stringify(messageId)}.`)
  }
}

/** The URL of the store if its file exists. Opening a store that does not exist would create it. */
function fileOf({ local }: UnreachableError): string | undefined {
  const store = local?.settings.store ?? ''
  return store.startsWith('sqlite:') && existsSync(store.slice('sqlite:'.length))
    ? store
    : undefined
}

async function look(
  { open, show }: TraceParts,
  url: string,
  messageId: string,
): Promise<ShownTrace[]> {
  let store: Store
  try {
    store = await open(url, { mustExist: true })
  } catch (error) {
    throw new CommandError(EXIT.failed, (error as Error).message)
  }
  try {
    return (await store.trace(messageId)).map(show)
  } finally {
    await store.close()
  }
}

/** Describes for people what happened to a message. */
function traceLines(deliveries: readonly ShownTrace[], now: number): string[] {
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
    ...attempts.map(({ attempt, at, url, code, status, ms, error }) => {
      const answer = status === null ? code : `${status} ${code}`
      const why = error === null ? '' : `\n      ${error}`
      return `  ${timeOf(at)}  attempt ${attempt}  ${answer}  ${Math.round(ms)} ms  ${url}${why}`
    }),
    `  ${stateOf(delivery, now)}`,
  ].flatMap((line) => line.split('\n').map(printable))
}

function stateOf({ state, reason, dueAt, deadlineAt }: ShownTrace, now: number): string {
  if (state === 'done') return 'It was delivered.'
  if (state === 'skipped') return `It was not sent: ${reason}.`
  if (state === 'dead') return `It is a dead letter: ${reason} \`replay\` sends it again.`
  if (state === 'leased') return 'It is being sent.'
  const due =
    dueAt === null || dueAt <= now ? 'now' : `${timeOf(dueAt)}, in ${inWords(dueAt - now)}`
  const end = deadlineAt === null ? '' : `; the last one is at ${timeOf(deadlineAt)}`
  const lane = state === 'bulk' ? 'It is bulk work' : 'It is in the backlog'
  return `${lane}. The next attempt is due ${due}${end}.`
}

function timeOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')}Z`
}

/** Formats a duration in its two largest units. */
function inWords(ms: number): string {
  const seconds = Math.ceil(ms / 1_000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
