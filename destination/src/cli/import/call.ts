import { createHash } from 'node:crypto'
import { CALL_TYPES, type CallType } from '../../model/call.js'
import { findChanges } from '../../model/changed-numbers.js'
import type { Row } from './row.js'

/** Fields that exports add to a call, such as its source and the times of its delivery. They are not sent. */
const BOOKKEEPING = [
  ...['channel', 'originalTimestamp', 'projectId', 'receivedAt', 'sentAt', 'type', 'version'],
  ...['writeKey', '_metadata'],
]

const IDS = ['userId', 'anonymousId', 'previousId', 'groupId']

/** A call to make: its type, and the message that the client checks and sends. */
export interface ImportedCall {
  type: CallType
  message: Record<string, unknown>
}

/**
 * Makes the call of a line. A line without a messageId gets one that is derived from the name of the import, its number
 * and its call. The same line therefore has the same id in every import of the file, and the destination forwards it
 * once.
 *
 * @param type - The type of calls that have no type.
 * @param name - The name of the import; `undefined` for an import that an earlier version started. Its ids are derived
 * from the number and the text of the line.
 * @returns the problem as a text if the line is not a valid call.
 */
export function toCall(
  { line, text, fields = {}, marked }: Pick<Row, 'line' | 'text' | 'fields' | 'marked'>,
  type: CallType | undefined,
  name: string | undefined,
): ImportedCall | string {
  const named = fields['type'] ?? type
  if (named === undefined) {
    return `type: expected one of ${CALL_TYPES.join(', ')}, got none; add it to the line, or give --type`
  }
  const known = CALL_TYPES.find((known) => known === named)
  if (!known) return `type: expected one of ${CALL_TYPES.join(', ')}, got ${JSON.stringify(named)}`

  const sent = new Map<string, unknown>()
  for (const [name, value] of Object.entries(fields)) {
    if (BOOKKEEPING.includes(name) || value === null) continue
    if (!IDS.includes(name) || typeof value !== 'number') sent.set(name, value)
    // JSON.parse has already rounded a larger number, so it might be the id of another user.
    else if (Number.isSafeInteger(value)) sent.set(name, String(value))
    else {
      const written = numberIn(marked, name) ?? value
      return `${name}: expected a string or a whole number below 2^53, got ${written}`
    }
  }
  // An assignment to __proto__ would set the prototype. fromEntries creates a field of that name, which the client refuses.
  const message: Record<string, unknown> = Object.fromEntries(sent)
  message['timestamp'] ??= fields['originalTimestamp']
  if (message['timestamp'] === undefined) delete message['timestamp']
  message['messageId'] ??= idOf(
    name === undefined ? [line, text] : [name, line, known, JSON.stringify(message)],
  )
  return { type: known, message }
}

/** The number of a field as it is in the file; `undefined` if JavaScript can hold it. */
function numberIn(marked: unknown, field: string): string | undefined {
  let written: string | undefined
  findChanges((marked as Record<string, unknown> | undefined)?.[field], field, (_path, number) => {
    written = number
  })
  return written
}

function idOf(parts: readonly (string | number)[]): string {
  const hash = createHash('sha256').update(parts.join('\n')).digest('hex')
  return `import-${hash.slice(0, 32)}`
}
