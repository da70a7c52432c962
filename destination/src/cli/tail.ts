import { Option } from 'commander'
import { printable } from '../observe/printable.js'
import type { AttemptEvent, CallEvent } from '../model/answers.js'
import { CALL_TYPES } from '../model/call.js'
import { addAdminOptions, findAdmin, type AdminOptions } from './admin-client.js'
import { CommandError, EXIT, isColoured, paint, wholeNumber, type AddCommand } from './command.js'
import { addFilterOptions, isMatch, requireKnownNames, type MessageFilter } from './filter.js'
import { endWithReader } from './output.js'
import { createColumns } from './table.js'

interface TailOptions extends AdminOptions, MessageFilter {
  only?: 'calls' | 'attempts'
  destination?: string
  source?: string
  failed?: true
  count?: number
  json?: true
}

const EXAMPLES = `
Prints calls and attempts as they happen, at most 50 a second. --type, --event and --user choose calls; --destination and
--failed choose attempts. The deletion of a user is not a call: it only has attempts. Exits with 3 if the destination ends the connection.
If several processes share a store, each prints its own: a collector has calls, and a worker has the attempts that it made.

Examples:
  $ hookline-destination tail
  $ hookline-destination tail --failed --destination crm
  $ hookline-destination tail --only calls --event 'Order Completed' --count 1 --json | jq -r .messageId`

export const addTail: AddCommand = (program) => {
  const command = program
    .command('tail')
    .description('print calls and attempts as they happen')
    .addOption(new Option('--only <kind>', 'only these').choices(['calls', 'attempts']))
    .option('--source <name>', 'only from this source')
    .option('--destination <name>', 'only attempts for this destination')
    .option('--failed', 'only attempts that failed')
  addAdminOptions(addFilterOptions(command, CALL_TYPES))
    .option('-n, --count <number>', 'exit after this number', wholeNumber(1, 1_000_000_000))
    .option('--json', 'print one line of JSON for each')
    .addHelpText('after', EXAMPLES)
    .action(tail)
}

/** An event of the stream, with its kind. */
type Happening = ({ kind: 'call' } & CallEvent) | ({ kind: 'attempt' } & AttemptEvent)

async function tail(options: TailOptions): Promise<void> {
  refuseNothing(options)
  endWithReader()
  const { ask, stream } = await findAdmin(options)
  await requireKnownNames(ask, options)
  const print = options.json ? printJson : createPrinter(isColoured(process.stdout))
  let left = options.count ?? Infinity
  for await (const { event, data } of stream('/stream')) {
    if (event === 'open') console.error('Connected. Press Ctrl-C to stop.')
    if (event === 'skipped') console.error(`Not shown: ${(data as { count: number }).count}.`)
    if (event !== 'call' && event !== 'attempt') continue
    const happening = { kind: event, ...(data as object) } as Happening
    if (!isWanted(happening, options)) continue
    print(happening)
    if (--left === 0) return
  }
  throw new CommandError(EXIT.unreachable, 'The destination has ended the connection.')
}

function isWanted(one: Happening, options: TailOptions): boolean {
  const { only, source, destination, failed } = options
  if (only !== undefined && `${one.kind}s` !== only) return false
  if (source !== undefined && one.source !== source) return false
  if (one.kind === 'call') return !choosesAttempts(options) && isMatch(options, one)
  if (choosesCalls(options)) return false
  if (destination !== undefined && one.destination !== destination) return false
  return !failed || one.code !== 'delivered'
}

/** @throws CommandError if nothing could ever be printed. */
function refuseNothing(options: TailOptions): void {
  const { only } = options
  if (only === 'attempts' && choosesCalls(options)) {
    const message = '--type, --event and --user choose calls: remove --only attempts, or these.'
    throw new CommandError(EXIT.usage, message)
  }
  if (only === 'calls' && choosesAttempts(options)) {
    const message = '--destination and --failed choose attempts: remove --only calls, or these.'
    throw new CommandError(EXIT.usage, message)
  }
  if (!choosesCalls(options) || !choosesAttempts(options)) return
  const message =
    'Give --type, --event and --user, or --destination and --failed: attempts have no event and no user.'
  throw new CommandError(EXIT.usage, message)
}

function choosesCalls({ type, event, user }: MessageFilter): boolean {
  return [type, event, user].some((field) => field !== undefined)
}

function choosesAttempts({ destination, failed }: TailOptions): boolean {
  return destination !== undefined || failed === true
}

function printJson(one: Happening): void {
  console.log(JSON.stringify(one))
}

/** Prints one line for each call and each attempt, aligned. */
function createPrinter(colour: boolean): (one: Happening) => void {
  const columns = createColumns([8, 7, 20, 20])
  return (one) => {
    const line = columns([timeOfDay(one.at), one.kind, ...cellsOf(one)].map(printable))
    console.log(colour ? paint(styleOf(one), line) : line)
  }
}

function cellsOf(one: Happening): string[] {
  if (one.kind === 'call') {
    const what = one.event === '' ? one.type : `${one.type} ${JSON.stringify(one.event)}`
    return [what, `from ${one.source}`, one.messageId, `user ${one.user}`]
  }
  const { status, code, ms, attempt, nextInMs, error } = one
  const answer = status === null ? code : `${status} ${code}`
  const again = nextInMs === null ? one.next : `next in ${Math.round(nextInMs / 100) / 10} s`
  const details = [`attempt ${attempt}`, `${Math.round(ms)} ms`, again, error ?? '']
  return [answer, `to ${one.destination}`, one.messageId, details.filter(Boolean).join('  ')]
}

function styleOf(one: Happening): 'gray' | 'green' | 'red' {
  if (one.kind === 'call') return 'gray'
  return one.code === 'delivered' ? 'green' : 'red'
}

function timeOfDay(at: number): string {
  return new Date(at).toISOString().slice(11, 19)
}
