// Reads the events back out of a request body of any subject, after the clock has stopped.
import { gunzipSync } from 'node:zlib'

const isGzip = (bytes) => bytes[0] === 0x1f && bytes[1] === 0x8b

/**
 * @param {Buffer | string} body as sent, gzipped or not
 * @returns {{ seq: unknown, id: unknown }[]} each event's number and message id
 * @throws {SyntaxError} if the body isn't JSON
 */
export function eventsIn(body) {
  const bytes = Buffer.from(body)
  const { batch, events = batch } = JSON.parse(isGzip(bytes) ? gunzipSync(bytes) : bytes)
  return events.map((event) => ({
    seq: (event.properties ?? event.event_properties)?.seq,
    id: event.messageId ?? event.uuid ?? event.insert_id,
  }))
}

/**
 * Counts which of the events 0 to `expected` - 1 arrived, were lost or arrived more than once.
 *
 * @param {(Buffer | string)[]} bodies
 * @param {number} expected
 */
export function account(bodies, expected) {
  const seen = new Uint8Array(expected)
  const ids = new Set()
  const found = { arrived: 0, duplicated: 0, foreign: 0, malformed: 0, sharedIds: 0 }
  for (const body of bodies) {
    let events
    try {
      events = eventsIn(body)
    } catch {
      found.malformed += 1
      continue
    }
    for (const { seq, id } of events) {
      if (!(Number.isInteger(seq) && seq >= 0 && seq < expected)) {
        found.foreign += 1
        continue
      }
      if (seen[seq]) {
        found.duplicated += 1
        continue
      }
      seen[seq] = 1
      found.arrived += 1
      if (typeof id !== 'string' || ids.has(id)) found.sharedIds += 1
      ids.add(id)
    }
  }
  return found
}

/** Describes the faults of an account; empty if every event arrived exactly once with a unique id. */
export function faultsOf(found, expected) {
  return [
    found.arrived < expected && `${expected - found.arrived} of ${expected} events missing`,
    found.duplicated > 0 && `${found.duplicated} duplicated`,
    found.foreign > 0 && `${found.foreign} events without a number`,
    found.malformed > 0 && `${found.malformed} bodies not JSON`,
    found.sharedIds > 0 && `${found.sharedIds} events without a message id of their own`,
  ].filter(Boolean)
}
