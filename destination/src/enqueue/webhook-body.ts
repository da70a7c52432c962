import type { Call } from '../model/call.js'

/**
 * The text that is signed and sent for a call: the fields of its type in the order of the spec ("Outbound
 * message body"), then what the call itself carried beyond them.
 *
 * It is a JSON fixed point, `JSON.stringify(JSON.parse(text)) === text`, so that a receiver which hashes the
 * bytes and one which stringifies the parsed body both verify. What `JSON.stringify` made of plain data always
 * is; `undefined` is what it leaves out.
 *
 * @throws RangeError for a call that is nested deeper than `JSON.stringify` goes: the collector lets none pass.
 */
export function webhookBody(call: Call): string {
  switch (call.type) {
    case 'track':
      return JSON.stringify({
        version: 1,
        type: 'track',
        userId: call.userId,
        timestamp: call.timestamp,
        event: call.event,
        properties: call.properties ?? {},
        anonymousId: call.anonymousId,
        context: call.context,
      })
    case 'identify':
      return JSON.stringify({
        version: 1,
        type: 'identify',
        userId: call.userId,
        timestamp: call.timestamp,
        traits: call.traits ?? {},
        anonymousId: call.anonymousId,
        context: call.context,
      })
    case 'page':
      return JSON.stringify({
        version: 1,
        type: 'page',
        userId: call.userId,
        timestamp: call.timestamp,
        properties: call.properties ?? {},
        name: call.name,
        category: call.category,
        anonymousId: call.anonymousId,
        context: call.context,
      })
    case 'screen':
      // The spec has a name and a context in every screen, and no properties.
      return JSON.stringify({
        version: 1,
        type: 'screen',
        userId: call.userId,
        timestamp: call.timestamp,
        name: call.name ?? '',
        context: call.context ?? {},
        category: call.category,
        properties: call.properties,
        anonymousId: call.anonymousId,
      })
    case 'group':
      return JSON.stringify({
        version: 1,
        type: 'group',
        userId: call.userId,
        timestamp: call.timestamp,
        groupId: call.groupId,
        traits: call.traits ?? {},
        anonymousId: call.anonymousId,
        context: call.context,
      })
    case 'alias':
      return JSON.stringify({
        version: 1,
        type: 'alias',
        timestamp: call.timestamp,
        'Previous ID': call.previousId,
        'User ID': call.userId,
        anonymousId: call.anonymousId,
        context: call.context,
      })
  }
}

/**
 * The text that is signed and sent for a deletion. It alone has no version.
 *
 * @param userId - Whose data is to be deleted.
 * @param timestamp - When that was asked for: ISO 8601 with milliseconds.
 */
export function deletionBody(userId: string, timestamp: string): string {
  return JSON.stringify({ type: 'delete', userId, timestamp })
}
