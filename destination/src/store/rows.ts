import type { Copy, State, Trace } from '../model/delivery.js'
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

/** A row with these columns as the rest of the service has them. */
type Decoded<Row> = Omit<Row, 'state'> & { state: State }

/** Reads these columns; the others stay as they are. */
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

/** Reads the texts of an attempt; the other columns stay as they are. */
export function decodeAttempt<Row extends { error: string | null; response: string }>(
  row: Row,
): Row {
  return { ...row, error: fromNullable(row.error), response: fromStored(row.response) }
}

/** A text as databases keep it; `null` stays `null`. */
export function toNullable(text: string | null): string | null {
  return text === null ? null : toStored(text)
}

function fromNullable(text: string | null): string | null {
  return text === null ? null : fromStored(text)
}

/** The URLs that refused a delivery, as a column holds them: JSON, or NULL if there are none, which is usual. */
export function toRefusedBy(urls: readonly string[]): string | null {
  return urls.length === 0 ? null : JSON.stringify(urls)
}

/** Reads what {@link toRefusedBy} wrote. */
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
