import type { EndpointOutcome } from './decide.js'
import type { Delivery } from '../model/delivery.js'
import type { Outcome } from '../model/outcome.js'
import type { HeaderList } from '../post/headers.js'
import type { Signing } from '../post/signing.js'

/** Where an attempt sends to: one endpoint. */
export interface AttemptLine {
  endpoint: { url: string }
  post(body: string, headers: HeaderList, done: (outcome: Outcome) => void): void
}

/**
 * One attempt of a delivery: a POST to each endpoint that has not refused it for good, to all of them at once.
 *
 * @param done - Called once, later, with what came of each.
 */
export function attempt(
  delivery: Delivery,
  signing: Signing,
  lines: readonly AttemptLine[],
  done: (outcomes: EndpointOutcome[]) => void,
): void {
  const { body, refusedBy, attempt, attemptsBefore, traceParent } = delivery
  const targets =
    refusedBy.length === 0
      ? lines
      : lines.filter(({ endpoint }) => !refusedBy.includes(endpoint.url))
  const outcomes: EndpointOutcome[] = []
  if (targets.length === 0) {
    setImmediate(done, outcomes)
    return
  }
  const signed = signing.headers(body, delivery.messageId, attempt)
  const headers = traceParent === undefined ? signed : [...signed, 'traceparent', traceParent]
  for (const line of targets) {
    line.post(body, headers, (outcome) => {
      outcomes.push({
        url: line.endpoint.url,
        outcome: signing.judge(outcome, attempt - attemptsBefore),
      })
      if (outcomes.length === targets.length) done(outcomes)
    })
  }
}
