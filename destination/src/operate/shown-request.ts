import type { ShownRequest } from '../model/answers.js'
import type { Trace } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import { fixedHeaders, type HeaderList } from '../post/headers.js'
import { createSigning } from '../post/signing.js'
import type { Destination, Endpoint, Settings } from '../settings/settings.js'

/** Stands for a value that the page must not show. */
const HIDDEN = '…'

/**
 * The requests of the latest attempt of a delivery, one for each endpoint, as the current settings make them. Requests are
 * not stored.
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
  return destination.webhooks.map((endpoint) => ({
    url: withoutQuery(endpoint.url),
    headers: shownHeaders(endpoint, messageHeaders(trace, destination)).map(([name, value]) =>
      mayReplay || !name.toLowerCase().endsWith('signature') ? [name, value] : [name, HIDDEN],
    ),
  }))
}

/**
 * The names and values of all headers of a request. The values of static headers are hidden, because they may be keys.
 *
 * @param ofMessage - The headers that the endpoint's settings do not have.
 */
export function shownHeaders(
  { headers }: Pick<Endpoint, 'headers'>,
  ofMessage: HeaderList,
): [name: string, value: string][] {
  const own = Object.fromEntries(Object.keys(headers).map((name) => [name, HIDDEN]))
  return pairsOf([...fixedHeaders(own), ...ofMessage])
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
