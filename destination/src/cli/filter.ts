import { InvalidArgumentError, Option, type Command } from 'commander'
import { parseTime } from '../collect/timestamp.js'
import { EVENT_TYPES } from '../model/call.js'
import type { Status } from '../model/answers.js'
import { OUTCOME_CODES } from '../model/outcome.js'
import { parseDuration } from '../settings/duration.js'
import type { AskAdmin } from './admin-client.js'
import { CommandError, EXIT } from './command.js'

/** Which messages a command is about. All given fields must be equal. */
export interface MessageFilter {
  type?: string
  event?: string
  user?: string
}

/**
 * Adds the options of a {@link MessageFilter}.
 *
 * @param types - The types that these messages can have.
 */
export function addFilterOptions(
  command: Command,
  types: readonly string[] = EVENT_TYPES,
): Command {
  return command
    .addOption(new Option('--type <type>', 'only messages of this type').choices(types))
    .option('--event <name>', 'only messages with this event')
    .option('--user <id>', 'only messages of this user')
}

/** Whether a message has the fields of the filter. */
export function isMatch(filter: MessageFilter, message: MessageFilter): boolean {
  const { type, event, user } = filter
  return (
    (type === undefined || message.type === type) &&
    (event === undefined || message.event === event) &&
    (user === undefined || message.user === user)
  )
}

/** Which stored deliveries a command is about. All given fields must match. Times are in ms since the epoch. */
export interface DeliveryFilter extends MessageFilter {
  destination?: string
  source?: string
  status?: string
  code?: string
  endpoint?: string
  since?: number
  until?: number
}

/** Adds the options of a {@link DeliveryFilter}. */
export function addDeliveryFilterOptions(command: Command): Command {
  // Both times of a range are counted from the same moment.
  const now = Date.now()
  const readTime = (text: string) => timeOf(text, now)
  command
    .option('--destination <name>', 'only for this destination')
    .option('--source <name>', 'only from this source')
  return addFilterOptions(command)
    .option('--status <status>', 'only with this last status, such as 503 or 5xx')
    .addOption(new Option('--code <code>', 'only with this last code').choices(OUTCOME_CODES))
    .option('--endpoint <url>', 'only with the last attempt at this URL; its query is left out')
    .option(
      '--since <when>',
      'only accepted at this time or later: a time (UTC, if it has no zone), or how long ago, such as 2h',
      readTime,
    )
    .option('--until <when>', 'only accepted before this time', readTime)
}

function timeOf(text: string, now: number): number {
  const agoMs = parseDuration(text)
  if (agoMs !== undefined) return now - agoMs
  const at = parseTime(text)
  if (at !== undefined) return at
  throw new InvalidArgumentError(
    'Expected a time that exists, such as 2026-11-21T14:00:00Z, or how long ago, such as 30m, 2h or 1d.',
  )
}

/**
 * The fields of a filter that were given.
 *
 * @throws CommandError if no time is in its range.
 */
export function givenFilter(options: DeliveryFilter): Record<string, string | number> {
  const { destination, source, type, event, user, status, code, endpoint, since, until } = options
  const fields = { destination, source, type, event, user, status, code, endpoint, since, until }
  if (since !== undefined && until !== undefined && since >= until) {
    const [from, to] = [since, until].map((at) => new Date(at).toISOString())
    throw new CommandError(
      EXIT.usage,
      `--since must be earlier than --until, got --since ${from} and --until ${to}.`,
    )
  }
  const given: Record<string, string | number> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) given[name] = value
  }
  return given
}

/**
 * Where a filter matches nothing, its name may be misspelled.
 *
 * @throws CommandError if the destination or the source of the filter is not known.
 */
export async function requireKnownNames(
  ask: AskAdmin,
  { destination, source }: Pick<DeliveryFilter, 'destination' | 'source'>,
): Promise<void> {
  if (destination === undefined && source === undefined) return
  const { destinations, formerDestinations, sources } = (await ask('/status')) as Status
  requireKnown('destination', destination, [...destinations, ...formerDestinations])
  requireKnown('source', source, sources)
}

function requireKnown(
  what: string,
  name: string | undefined,
  known: readonly { name: string }[],
): void {
  if (name === undefined || known.some((each) => each.name === name)) return
  const names = known.map((each) => each.name).join(', ') || 'none'
  const message = `There is no ${what} ${JSON.stringify(name)}. Known ${what}s: ${names}.`
  throw new CommandError(EXIT.usage, message)
}
