import type { Call } from '../model/call.js'

/**
 * Makes the text that is signed and sent for a call: first the fields of its type in the order of the spec ("Outbound
 * message body"), then the other fields of the call. Fields that are `undefined` are left out.
 *
 * The text is a JSON fixed point: `JSON.stringify(JSON.parse(text)) === text`. A receiver can therefore verify the
 * signature with the bytes of the body, or with the parsed body after `JSON.stringify`. `JSON.stringify` of plain data
 * always gives such a text.
 *
 * @throws RangeError if the call is nested too deeply for `JSON.stringify`. The collector refuses such calls.
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
      // In the spec, every screen has a name and a context, and no screen has properties.
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
 * Makes the call again from the text that {@link webhookBody} made of it. Only its `integrations` are not in the text, and whether
 * a `properties`, `traits`, `context` or name of a screen that is empty there was left out in the call.
 */
export function callOf(body: string, messageId: string): Call {
  const call: Record<string, unknown> = { messageId }
  for (const [name, value] of Object.entries(JSON.parse(body) as object)) {
    if (name !== 'version') call[OWN_NAMES[name] ?? name] = value
  }
  return call as unknown as Call
}

/** The fields that have another name in a call than in its text. */
const OWN_NAMES: Readonly<Record<string, string>> = {
  'Previous ID': 'previousId',
  'User ID': 'userId',
}

/**
 * Makes the text that is signed and sent for a deletion. In the spec, only this body has no version.
 *
 * @param userId - The user whose data is to be deleted.
 * @param timestamp - The time of the request for the deletion: ISO 8601 with milliseconds.
 */
export function deletionBody(userId: string, timestamp: string): string {
  return JSON.stringify({ type: 'delete', userId, timestamp })
}
