import type { ShownRequest } from '../model/answers.js'
import type { Trace } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import { fixedHeaders } from '../post/headers.js'
import { createSigning } from '../post/signing.js'
import type { Destination, Settings } from '../settings/settings.js'

/** Stands for a value that the page must not show. */
const HIDDEN = '…'

/**
 * The requests of the latest attempt of a delivery, one for each endpoint, as the current settings make them. Requests are
 * not stored. The values of static headers are hidden, because they may be keys.
 *
 * @returns nothing if the settings do not have the destination.
 */
export function shownRequests(
  trace: Trace,
  { destinations, adminToken }: Pick<Settings, 'destinations' | 'adminToken'>,
): ShownRequest[] {
  const destination = destinations.find(({ name }) => name === trace.destination)
  if (!destination || trace.state === 'skipped') return []
  // A signature lets its holder send the message. Without a token, a reader may not send anything.
  const mayReplay = adminToken !== undefined
  return destination.webhooks.map(({ url, headers }) => {
    const own = Object.fromEntries(Object.keys(headers).map((name) => [name, HIDDEN]))
    const all = [...fixedHeaders(own), ...messageHeaders(trace, destination)]
    return {
      url: withoutQuery(url),
      headers: pairsOf(all).map(([name, value]) =>
        mayReplay || !name.toLowerCase().endsWith('signature') ? [name, value] : [name, HIDDEN],
      ),
    }
  })
}

function messageHeaders(trace: Trace, destination: Destination): readonly string[] {
  const { attempts, body, messageId } = trace
  const last = attempts.at(-1)
  const signing = createSigning(destination, () => last?.at ?? trace.receivedAt)
  return signing.headers(body, messageId, last?.attempt ?? 1, destination.sharedSecret)
}

function pairsOf(list: readonly string[]): [string, string][] {
  return Array.from({ length: list.length / 2 }, (_, i) => [
    list[2 * i] ?? '',
    list[2 * i + 1] ?? '',
  ])
}
