import { Option } from 'commander'
import { printable } from '../observe/printable.js'
import type { DeliveryList } from '../model/answers.js'
import type { Summary } from '../model/delivery.js'
import { addAdminOptions, type AdminOptions, findAdmin, missing } from './admin-client.js'
import { wholeNumber, type AddCommand } from './command.js'
import {
  addDeliveryFilterOptions,
  givenFilter,
  requireKnownNames,
  type DeliveryFilter,
} from './filter.js'
import { timeOf } from './shown-time.js'
import { table } from './table.js'

interface ListOptions extends AdminOptions, DeliveryFilter {
  state?: string
  message?: string
  limit: number
  before?: number
  json?: true
}

const STATES = ['fresh', 'backlog', 'bulk', 'leased', 'waiting', 'done', 'dead', 'skipped']

const EXAMPLES = `
Prints the newest deliveries first. The state "waiting" stands for fresh, backlog, bulk and leased.

Examples:
  $ hookline-destination list --state dead --destination crm
  $ hookline-destination list --user u1 --limit 5
  $ hookline-destination list --status 5xx --since 1h
  $ hookline-destination list --state dead --json | jq -r '.deliveries[].messageId'`

export const addList: AddCommand = (program) => {
  const command = program
    .command('list')
    .description('list stored deliveries')
    .addOption(new Option('--state <state>', 'only in this state').choices(STATES))
    .option('--message <id>', 'only of this message')
  addAdminOptions(addDeliveryFilterOptions(command))
    .option('-n, --limit <number>', 'the most deliveries', wholeNumber(1, 200), 20)
    .option('--before <id>', 'only deliveries older than this one')
    .option('--json', 'print JSON')
    .addHelpText('after', EXAMPLES)
    .action(list)
}

async function list(options: ListOptions): Promise<void> {
  const { ask } = await findAdmin(options)
  const found = (await ask(`/deliveries?${queryOf(options)}`)) as DeliveryList
  if (found.deliveries.length === 0) await requireKnownNames(ask, options)
  if (options.json) {
    console.log(JSON.stringify(found, null, 2))
    return
  }
  const { deliveries, next, isComplete, away } = found
  const header = ['ID', 'ACCEPTED', 'STATE', 'LAST ANSWER', 'WHAT', 'USER', 'DESTINATION']
  if (deliveries.length === 0) console.log('No delivery matches.')
  else console.log(table([[...header, 'MESSAGE'], ...deliveries.map(row)]).join('\n'))
  if (away) console.error(missing(away))
  if (next === null) return
  const isCut = !isComplete && !away
  const why = isCut ? 'The search took too long and is not complete.' : 'There are more.'
  console.error(`${why} Continue with --before ${next}.`)
}

function queryOf(options: ListOptions): URLSearchParams {
  const { state, message: messageId, limit, before } = options
  const query = new URLSearchParams()
  const given = { state, messageId, ...givenFilter(options), limit, before }
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) query.set(name, String(value))
  }
  return query
}

function row(delivery: Summary): string[] {
  const { id, receivedAt, state, lastCode, lastStatus, type, event, user, destination } = delivery
  const answer = [lastStatus, lastCode].filter((part) => part !== null).join(' ') || '-'
  const what = event === '' ? type : `${type} ${JSON.stringify(event)}`
  const cells = [String(id), timeOf(receivedAt), state, answer, what, user || '-']
  return [...cells, destination || '-', delivery.messageId].map(printable)
}
