import { createHash } from 'node:crypto'
import { CALL_TYPES, type CallType } from '../../model/call.js'
import type { Row } from './row.js'

/** What exports have beside the call itself: who sent it, and when it was handed on. */
const BOOKKEEPING = [
  ...['channel', 'originalTimestamp', 'projectId', 'receivedAt', 'sentAt', 'type', 'version'],
  ...['writeKey', '_metadata'],
]

const IDS = ['userId', 'anonymousId', 'previousId', 'groupId']

/** A call to make: its type, and what the client is to check and take. */
export interface ImportedCall {
  type: CallType
  message: Record<string, unknown>
}

/**
 * The call of a line. Without an id of its own it gets one that is made of the line and of what it says, so that the same
 * line is the same message however often it is sent: the destination forwards it once.
 *
 * @param type - That of lines that have none.
 * @returns what is wrong with the line, if it is no call.
 */
export function toCall(
  { line, text, fields = {} }: Pick<Row, 'line' | 'text' | 'fields'>,
  type: CallType | undefined,
): ImportedCall | string {
  const named = fields['type'] ?? type
  if (named === undefined) return `no type: expected one of ${CALL_TYPES.join(', ')}, or --type`
  const known = CALL_TYPES.find((known) => known === named)
  if (!known) return `type: expected one of ${CALL_TYPES.join(', ')}, got ${JSON.stringify(named)}`

  const message: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (BOOKKEEPING.includes(name) || value === null) continue
    message[name] = IDS.includes(name) && typeof value === 'number' ? String(value) : value
  }
  message['timestamp'] ??= fields['originalTimestamp']
  if (message['timestamp'] === undefined) delete message['timestamp']
  message['messageId'] ??= idOf(line, text)
  return { type: known, message }
}

function idOf(line: number, text: string): string {
  const hash = createHash('sha256').update(`${line}\n${text}`).digest('hex')
  return `import-${hash.slice(0, 32)}`
}
