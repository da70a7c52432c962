import type { Delivery } from '../model/delivery.js'
import type { Outcome } from '../model/outcome.js'
import { traceHeaders, type HeaderList } from '../post/headers.js'
import { refusesSignature, type Signing } from '../post/signing.js'
import type { EndpointOutcome } from './decide.js'
import type { EndpointRequest } from './endpoint-queue.js'

/** An endpoint that a request can be sent to. */
interface Receiver {
  readonly endpoint: { url: string }
  post(request: EndpointRequest, done: (outcome: Outcome) => void): void
}

/** What {@link send} needs of the one who sends, and tells it. */
interface Sending {
  /** The endpoints that have not refused it for good. */
  receivers: readonly Receiver[]
  /** See {@link EndpointRequest}. It holds for the first requests: those with another secret, which follow, may wait. */
  mostWaiting: number
  /** How requests are signed by the present settings. */
  signingNow: () => Signing
  /** Called once with the outcomes, after `send` has returned. */
  ended: (outcomes: EndpointOutcome[]) => void
  /** Called when one endpoint has its outcome and others do not have theirs yet. */
  answered: () => void
  /** Whether the delivery was deleted meanwhile, so that no other request should start. */
  isRecalled: () => boolean
}

/**
 * Sends a delivery: one attempt at each of its endpoints, to all of them at the same time.
 *
 * During a rotation an attempt may need several requests, because the endpoint knows only one of the secrets. Each of
 * these requests has an outcome in the list. If the settings change between two of them, those that follow are signed by the
 * new settings: a secret that was removed signs nothing more.
 */
export function send(delivery: Delivery, sending: Sending): void {
  const { receivers, signingNow, ended, answered, isRecalled } = sending
  const { id, lane } = delivery
  const outcomes: EndpointOutcome[] = []
  if (receivers.length === 0) {
    setImmediate(ended, outcomes)
    return
  }
  const body = Buffer.from(delivery.body)
  const headersFor = signed(delivery, body)
  const wasTried = delivery.attempt > 1
  let left = receivers.length
  for (const receiver of receivers) {
    const { url } = receiver.endpoint
    const post = (
      signing: Signing,
      [secret, ...others]: readonly (string | undefined)[],
      mostWaiting = Infinity,
    ) => {
      const headers = headersFor(signing, secret)
      receiver.post({ id, lane, body, headers, wasTried, mostWaiting }, (outcome) => {
        if (outcome.verdict === 'delivered') signing.accepted(url, secret)
        const now = signingNow()
        const next = now === signing ? others : now.secretsFor(url)
        if (next.length > 0 && refusesSignature(outcome)) {
          outcomes.push({ url, outcome: { ...outcome, verdict: 'retry' } })
          if (!isRecalled()) {
            post(now, next)
            return
          }
        } else outcomes.push({ url, outcome })
        left--
        if (left === 0) ended(outcomes)
        else answered()
      })
    }
    const signing = signingNow()
    post(signing, signing.secretsFor(url), sending.mostWaiting)
  }
}

/** The headers of a delivery by the secret that signs it. Endpoints with the same secret share one signature. */
function signed({ messageId, attempt, traceParent }: Delivery, body: Buffer) {
  let last: { signing: Signing; secret: string | undefined; headers: HeaderList } | undefined
  return (signing: Signing, secret: string | undefined): HeaderList => {
    if (last?.signing === signing && last.secret === secret) return last.headers
    const own = signing.headers(body, messageId, attempt, secret)
    const headers = traceParent === undefined ? own : [...own, ...traceHeaders(traceParent)]
    last = { signing, secret, headers }
    return headers
  }
}
