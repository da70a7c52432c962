import type { Call } from '../model/call.js'
import type { Enqueue, Enqueued, Verdict } from './enqueue.js'
import type { PendingBytes } from '../http/pending-bytes.js'
import { hasFilters, type Route } from './route.js'
import { webhookBody } from './webhook-body.js'

/** The headers of W3C Trace Context. */
export interface TraceHeaders {
  traceparent?: string | undefined
  tracestate?: string | undefined
}

/**
 * The most bytes of messages that one put has. A request of 500,000 bytes can become a thousand times as many, because each call gets
 * the context of its batch, and each destination gets each call. It is then put in parts.
 */
const MAX_PUT_BYTES = 2_000_000

/** What a message takes beside its body, in bytes, as a rough figure. */
const MESSAGE_BYTES = 200

/**
 * Accepts the calls of a request. When it resolves, each call is durable for each of its destinations. Calls that the source has sent
 * before are not forwarded again. If it rejects, none is durable; of a request that becomes more than 2 MB of messages, the first ones may be.
 *
 * @param headers - The headers of the request, with those of its trace as the client sent them.
 * @param isBulk - Whether the calls are bulk work, which does not delay other messages.
 * @throws StoreError if the store is full or cannot write. If the connection was lost during the commit, all calls may be durable.
 * @throws Refusal with 503 if too many messages wait for the store. No call is durable then.
 */
export type EnqueueCalls = (
  source: string,
  calls: Call[],
  headers: TraceHeaders,
  isBulk: boolean,
) => Promise<void>

/**
 * Creates {@link EnqueueCalls}.
 *
 * @param route - Decides by the current settings which destinations get a call.
 * @param pending - The bytes of messages that wait for the store.
 * @param traceOf - Reads the headers of the trace; by default they are dropped.
 */
export function createEnqueueCalls(
  enqueue: Enqueue,
  route: (source: string, call: Call) => Route,
  pending: PendingBytes,
  traceOf: (headers: TraceHeaders) => string | undefined = () => undefined,
): EnqueueCalls {
  return async (source, calls, headers, isBulk) => {
    pending.check(source)
    const traceParent = traceOf(headers)
    const parts = new Parts()
    const put = async () => {
      for (const { deliveries, bytes } of parts.takeFull()) {
        await pending.hold(source, bytes, () => enqueue(deliveries))
      }
    }
    for (const call of calls) {
      addDeliveries({ call, source, traceParent, isBulk }, route(source, call), parts)
      if (parts.hasFull) await put()
    }
    parts.cut()
    await put()
  }
}

/** The deliveries of a request, in parts of about {@link MAX_PUT_BYTES}. */
class Parts {
  #full: { deliveries: Enqueued[]; bytes: number }[] = []
  #deliveries: Enqueued[] = []
  #bytes = 0

  get hasFull(): boolean {
    return this.#full.length > 0
  }

  add(delivery: Enqueued): void {
    this.#deliveries.push(delivery)
    this.#bytes += MESSAGE_BYTES + delivery.body.length
    if (this.#bytes >= MAX_PUT_BYTES) this.cut()
  }

  /** Ends the part that is not full. */
  cut(): void {
    if (this.#deliveries.length === 0) return
    this.#full.push({ deliveries: this.#deliveries, bytes: this.#bytes })
    this.#deliveries = []
    this.#bytes = 0
  }

  takeFull(): { deliveries: Enqueued[]; bytes: number }[] {
    const full = this.#full
    this.#full = []
    return full
  }
}

/** What the deliveries of a call have in common. */
interface Content {
  call: Call
  source: string
  traceParent: string | undefined
  isBulk: boolean
}

/**
 * Adds a delivery for each destination of a call. A destination whose filters stop the call, and a call without a
 * destination, get one that is only logged.
 */
function addDeliveries(content: Content, route: Route, parts: Parts): void {
  const { to, stopped, reason } = route
  if (reason !== undefined) {
    parts.add(deliveryOf(content, '', '', reason, undefined))
    return
  }
  const body = to.length === 0 ? '' : webhookBody(content.call)
  for (const destination of to) {
    const verdict = hasFilters(destination) ? { destination } : undefined
    parts.add(deliveryOf(content, destination.name, body, undefined, verdict))
  }
  for (const verdict of stopped ?? []) {
    const { name } = verdict.destination
    parts.add(deliveryOf(content, name, '', verdict.reason, verdict))
  }
}

/** Lists the fields, because each message passes here: a spread takes ten times as long. */
function deliveryOf(
  { call, source, traceParent, isBulk }: Content,
  destination: string,
  body: string,
  skipReason: string | undefined,
  verdict: Verdict | undefined,
): Enqueued {
  return {
    messageId: call.messageId,
    source,
    destination,
    type: call.type,
    user: call.userId ?? call.anonymousId ?? '',
    event: call.event ?? call.name,
    traceParent,
    body,
    isBulk,
    skipReason,
    verdict,
  }
}
