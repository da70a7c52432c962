import type { Delivery } from '../model/delivery.js'
import type { Outcome } from '../model/outcome.js'
import type { HeaderList } from '../post/headers.js'
import type { Signing } from '../post/signing.js'
import type { EndpointOutcome } from './decide.js'

/** An endpoint that a request can be sent to. */
interface Receiver {
  endpoint: { url: string }
  post(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void
}

/**
 * Sends a delivery: one attempt at each endpoint that has not refused it for good, to all of them at the same time.
 *
 * @param done - Called once with the outcome of each attempt, after `send` has returned.
 */
export function send(
  delivery: Delivery,
  signing: Signing,
  endpoints: readonly Receiver[],
  done: (outcomes: EndpointOutcome[]) => void,
): void {
  const { body, refusedBy, attempt, attemptsBefore, traceParent } = delivery
  const receivers =
    refusedBy.length === 0
      ? endpoints
      : endpoints.filter(({ endpoint }) => !refusedBy.includes(endpoint.url))
  const outcomes: EndpointOutcome[] = []
  if (receivers.length === 0) {
    setImmediate(done, outcomes)
    return
  }
  const signed = signing.headers(body, delivery.messageId, attempt)
  const headers = traceParent === undefined ? signed : [...signed, 'traceparent', traceParent]
  for (const receiver of receivers) {
    receiver.post(body, headers, (outcome) => {
      outcomes.push({
        url: receiver.endpoint.url,
        outcome: signing.judge(outcome, attempt - attemptsBefore),
      })
      if (outcomes.length === receivers.length) done(outcomes)
    })
  }
}
