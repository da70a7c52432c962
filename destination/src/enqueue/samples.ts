import type { Call, EventType } from '../model/call.js'
import { deletionBody, webhookBody } from './webhook-body.js'

/** The user of all samples. A receiver that deletes or stores this user touches no real one. */
const USER = 'hookline-test'

/** What each call has in the fields that only its type has. */
const FIELDS: Readonly<Record<Exclude<EventType, 'delete'>, Partial<Call>>> = {
  identify: { traits: { email: 'test@example.com', test: true } },
  track: { event: 'Hookline Test', properties: { test: true } },
  page: { name: 'Hookline Test', properties: { test: true } },
  screen: { name: 'Hookline Test', properties: { test: true } },
  group: { groupId: 'hookline-test-group', traits: { test: true } },
  alias: { previousId: 'hookline-test-before' },
}

/** The text of a sample message, as it is sent for a real message of this type. */
export function sampleBody(type: EventType, messageId: string, timestamp: string): string {
  if (type === 'delete') return deletionBody(USER, timestamp)
  return webhookBody({ type, messageId, timestamp, userId: USER, ...FIELDS[type] })
}
