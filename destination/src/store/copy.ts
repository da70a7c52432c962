import type { Copy, Trace } from '../model/delivery.js'

/** What a trace tells of a delivery. */
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
