import type { Copy, DeliveryId, Match, State, Trace } from '../model/delivery.js'
import { causeOf } from '../model/cause.js'
import { grouped } from '../model/grouped.js'
import type { OutcomeCode } from '../model/outcome.js'
import { stateOf } from './states.js'
import { fromStored, toStored } from './text.js'

/** The columns of a delivery that both databases keep in the same form. */
interface StoredDelivery {
  messageId: string
  event: string
  user: string
  state: number
  reason: string | null
}

/** A row whose columns are decoded. */
type Decoded<Row> = Omit<Row, 'state'> & { state: State }

/** Decodes the columns of {@link StoredDelivery} and leaves the others as they are. */
export function decodeDelivery<Row extends StoredDelivery>(row: Row): Decoded<Row> {
  return {
    ...row,
    messageId: fromStored(row.messageId),
    event: fromStored(row.event),
    user: fromStored(row.user),
    reason: fromNullable(row.reason),
    state: stateOf(row.state),
  }
}

/** Decodes the texts of an attempt and leaves its other columns as they are. */
export function decodeAttempt<
  Row extends { error: string | null; response: string; headers?: string | null | undefined },
>(row: Row): Omit<Row, 'headers'> & { headers?: string } {
  const { headers, ...rest } = row
  return {
    ...rest,
    error: fromNullable(row.error),
    response: fromStored(row.response),
    ...(typeof headers === 'string' && { headers: fromStored(headers) }),
  }
}

/** The latest outcome of a delivery, as a database has it. */
export interface LastOutcome {
  lastCode: OutcomeCode | null
  lastError: string | null
  lastResponse: string | null
}

/** The {@link Summary.cause} of a delivery. */
export function decodeCause(
  { lastCode, lastError, lastResponse }: LastOutcome,
  { state, reason }: Pick<Copy, 'state' | 'reason'>,
): string | null {
  if (lastCode === null) return state === 'dead' ? reason : null
  if (lastCode === 'delivered') return null
  return causeOf(fromNullable(lastError), fromStored(lastResponse ?? ''))
}

/** {@link toStored} for a column that may be `null`. */
export function toNullable(text: string | null): string | null {
  return text === null ? null : toStored(text)
}

function fromNullable(text: string | null): string | null {
  return text === null ? null : fromStored(text)
}

/** Encodes the URLs that refused a delivery as JSON. Usually there are none: then it is `null`, which takes no room. */
export function toRefusedBy(urls: readonly string[]): string | null {
  return urls.length === 0 ? null : JSON.stringify(urls)
}

/** Decodes the result of {@link toRefusedBy}. */
export function refusedByOf(column: string | null): string[] {
  return column === null ? [] : (JSON.parse(column) as string[])
}

/** The part of a delivery that may be shown. */
export function toTrace(copy: Copy): Trace {
  return {
    id: copy.id,
    messageId: copy.messageId,
    source: copy.source,
    destination: copy.destination,
    type: copy.type,
    event: copy.event,
    user: copy.user,
    body: copy.body,
    state: copy.state,
    reason: copy.reason,
    receivedAt: copy.receivedAt,
    firstAttemptAt: copy.firstAttemptAt,
    dueAt: copy.state === 'dead' ? null : copy.dueAt,
    attempts: copy.attempts,
  }
}

/** Collects ids by destination. */
export function groupIds(found: readonly { id: DeliveryId; destination: string }[]): Match[] {
  const groups = grouped(found, ({ destination }) => destination)
  return Array.from(groups, ([destination, own]) => ({
    destination,
    ids: own.map(({ id }) => id),
  }))
}
