import { InvalidArgumentError } from 'commander'
import type { Replayed } from '../model/answers.js'
import { addAdminOptions, type AdminOptions, findAdmin, missing } from './admin-client.js'
import { CommandError, EXIT, wholeNumber, type AddCommand } from './command.js'
import { canAsk, question } from './question.js'
import {
  addDeliveryFilterOptions,
  givenFilter,
  requireKnownNames,
  type DeliveryFilter,
} from './filter.js'

interface ReplayOptions extends AdminOptions, DeliveryFilter {
  message?: string
  all?: true
  force?: true
  dryRun?: true
  confirm?: number
  asOf?: number
  json?: true
}

const EXAMPLES = `
Sends dead letters again: immediately, with a new retry window of 4 hours, signed with the current secret. The dead
letters of one message, or with the given ids, are sent at once. With a filter or --all they are counted first, and sent
only after you confirm the count: type it in, or give --confirm. With the --as-of that --dry-run has printed, only what
was counted then is sent, and nothing twice. The command needs the admin or the operator token.

Examples:
  $ hookline-destination replay --message 768084a7-4e11-4a2f-8a7a-2f6d1f0c9a55
  $ hookline-destination replay --destination crm --since 2h --dry-run
  $ hookline-destination replay --destination crm --status 422 --dry-run
  $ hookline-destination replay --destination crm --since 2026-11-21T14:00:00Z --until 2026-11-21T15:00:00Z
  $ hookline-destination replay --all --confirm 132     # in a script: sends nothing if the count is not 132`

export const addReplay: AddCommand = (program) => {
  const command = program
    .command('replay')
    .description('send dead letters again')
    .argument('[ids...]', 'ids of deliveries, as trace shows them', readId)
    .option('--message <id>', 'the dead letters of this message')
  addDeliveryFilterOptions(command)
    .option('--all', 'all dead letters')
    .option('--force', 'with ids or --message: also deliveries that have succeeded')
    .option('--dry-run', 'count them, but send nothing')
    .option('--confirm <count>', 'send them if this is their count', wholeNumber(0, 1e12))
    .option(
      '--as-of <ms>',
      'only what could be sent at this time, which --dry-run prints, and was not sent since',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
  addAdminOptions(command)
    .option('--json', 'print JSON')
    .addHelpText('after', EXAMPLES)
    .action((ids: number[], options: ReplayOptions) => replay(ids, options))
}

/** @param before - The ids of the arguments before this one: commander calls this once per argument. */
function readId(text: string, before: number[] | undefined): number[] {
  const id = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : NaN
  if (!Number.isSafeInteger(id)) {
    throw new InvalidArgumentError(
      'Expected the id of a delivery, which is a number. Give the id of a message with --message.',
    )
  }
  return [...(before ?? []), id]
}

async function replay(ids: number[], options: ReplayOptions): Promise<void> {
  const which = selectionOf(ids, options)
  const isBulk = 'filter' in which || 'all' in which
  if (isBulk && options.force) throw new CommandError(EXIT.usage, FORCED_BULK)
  const { ask } = await findAdmin(options)
  const run = async (dryRun: boolean, confirm?: number, asOf = options.asOf) => {
    const force = options.force ?? false
    return (await ask('/replay', { ...which, force, dryRun, confirm, asOf })) as Replayed
  }
  if (options.dryRun) {
    const counted = await run(true)
    if (counted.matched + counted.kept.length === 0) await requireKnownNames(ask, options)
    print(counted, options)
    if (counted.matched > 0 && !options.json)
      console.log(`To send them, give ${choiceOf(counted)}.`)
    return
  }
  let count = options.confirm
  let asOf: number | undefined
  if (isBulk) {
    const counted = await run(true)
    if (counted.matched === 0) {
      if (counted.kept.length === 0) await requireKnownNames(ask, options)
      const { confirm: given = 0 } = options
      // The error is the only JSON then: a script reads one document.
      if (given === 0 || !options.json) print(counted, options)
      if (given !== 0) throw countChanged(`The count is 0, not ${given}. Nothing was sent.`)
      return
    }
    await confirm(counted, options)
    count = counted.matched
    asOf = counted.asOf
  }
  const replayed = await run(false, count, asOf)
  print(replayed, options)
  if (!isBulk && replayed.replayed === 0) throw new CommandError(EXIT.failed, '')
}

const FORCED_BULK =
  '--force goes only with ids or --message, because messages that have arrived are not sent again in bulk.'

function selectionOf(ids: readonly number[], options: ReplayOptions) {
  const { message, all } = options
  const filter = givenFilter(options)
  const selections = [
    ...(ids.length > 0 ? [{ ids }] : []),
    ...(message === undefined ? [] : [{ messageId: message }]),
    ...(Object.keys(filter).length > 0 ? [{ filter }] : []),
    ...(all ? [{ all }] : []),
  ]
  const [selection, ...others] = selections
  if (selection && others.length === 0) return selection
  const problem = selection ? 'Give only one of these' : 'Say what to replay'
  throw new CommandError(
    EXIT.usage,
    `${problem}: ids, --message, a filter such as --destination, or --all. See --help.`,
  )
}

/** @throws CommandError if the count is not confirmed. */
async function confirm(counted: Replayed, { confirm: given, json }: ReplayOptions): Promise<void> {
  const { matched } = counted
  if (given === matched) return
  if (given !== undefined) {
    throw countChanged(
      `The count is ${matched}, not ${given}. Nothing was sent. To send them, give ${choiceOf(counted)}.`,
    )
  }
  if (!canAsk(json)) {
    const message = `${describe(counted)}\nNothing was sent. To send them, give ${choiceOf(counted)}.`
    throw new CommandError(EXIT.usage, message, 'not_confirmed')
  }
  const typed = await question(`${describe(counted)}\nType ${matched} to send them again: `)
  if (typed !== String(matched)) throw new CommandError(EXIT.failed, 'Nothing was sent.')
}

/** The options that send exactly what was counted. */
function choiceOf({ matched, asOf }: Replayed): string {
  return `--confirm ${matched}${asOf === undefined ? '' : ` --as-of ${asOf}`}`
}

/** The error that the API gives if the count changes after this command has counted. */
function countChanged(message: string): CommandError {
  return new CommandError(EXIT.failed, message, 'count_changed')
}

function print(result: Replayed, { json }: ReplayOptions): void {
  console.log(json ? JSON.stringify(result) : describe(result))
}

function describe(result: Replayed): string {
  const { kept, away } = result
  return [
    describeReplay(result),
    ...(kept.length > 0
      ? [
          `Not replayed: ${listOf(kept)}. The settings have no enabled destination of this name. ` +
            'Put it back, or enable it, and replay again.',
        ]
      : []),
    ...(away ? [`${missing(away)} Replay again once it is back.`] : []),
  ].join('\n')
}

function describeReplay({ matched, replayed, byDestination, dryRun }: Replayed): string {
  if (matched === 0) return 'There is nothing to replay.'
  const parts = listOf(byDestination)
  return dryRun
    ? `Deliveries to replay: ${matched} (${parts}).`
    : `Deliveries sent again: ${replayed} (${parts}). Use \`trace\` to see the result of each.`
}

function listOf(counts: Replayed['byDestination']): string {
  return counts.map(({ name, count }) => `${count} for ${name}`).join(', ')
}
