import type { Call, CallType } from '../model/call.js'
import { isDeeperThan, jsonBytes, MAX_BATCH_CALLS, MAX_CALL_BYTES, MAX_DEPTH } from './limits.js'
import type { Fields } from '../model/fields.js'
import { fields, normalise, type Shared } from './normalise.js'
import { Refusal, RejectedCall, show, type Rejected } from '../http/refusal.js'
import { skewMsOf } from './timestamp.js'

/** The valid calls of a request, and the reasons why the others are not valid. */
export interface Received {
  calls: Call[]
  rejected: Rejected[]
}

/**
 * Reads the calls in a body.
 *
 * @param bodyBytes - The size of the body. If it is small enough, no call can be too large, and none is measured.
 * @throws {@link Refusal} if the body has no valid call.
 */
export function receiveCalls(
  body: Fields,
  bodyBytes: number,
  type: CallType | undefined,
  receivedAt: number,
): Received {
  const skewMs = skewMsOf(body['sentAt'], receivedAt)
  const received =
    type === undefined
      ? receiveBatch(body, bodyBytes, { ...sharedFields(body), type, skewMs, receivedAt })
      : receive([body], { type, skewMs, receivedAt, context: undefined, integrations: undefined })
  if (received.calls.length === 0) throw allRejected(received.rejected)
  return received
}

/**
 * Reads a single call in the form that it has in a batch.
 *
 * @throws {@link RejectedCall} if it is not valid.
 */
export function readCall(message: unknown, receivedAt: number): Call {
  if (isDeeperThan(MAX_DEPTH, message)) throw tooDeep()
  checkSize(jsonBytes(message))
  const shared = { type: undefined, context: undefined, integrations: undefined, skewMs: 0 }
  return normalise(message, { ...shared, receivedAt })
}

function receiveBatch(body: Fields, bodyBytes: number, shared: Shared): Received {
  const { batch } = body as { batch?: unknown }
  if (!Array.isArray(batch)) {
    const message = `The body must have the calls in an array "batch"; got ${show(batch)}.`
    throw new Refusal(400, 'invalid_batch', message)
  }
  if (batch.length === 0) {
    throw new Refusal(400, 'empty_batch', 'A batch must have at least one call; it has none.')
  }
  if (batch.length > MAX_BATCH_CALLS) {
    const message = `A batch must have at most ${MAX_BATCH_CALLS} calls; it has ${batch.length}. Send fewer at once.`
    throw new Refusal(413, 'too_many_calls', message)
  }
  if (bodyBytes <= MAX_CALL_BYTES) return receive(batch, shared)
  const { context, integrations } = shared
  return receive(batch, shared, context || integrations ? jsonBytes([context, integrations]) : 0)
}

/** The context and the integrations that a batch has for all of its calls. */
function sharedFields(body: Fields): Pick<Shared, 'context' | 'integrations'> {
  try {
    const shared = { context: fields(body, 'context'), integrations: fields(body, 'integrations') }
    // These fields become part of each call. The object `shared` around them counts as the level of the call.
    if (!isDeeperThan(MAX_DEPTH, shared)) return shared
    throw tooDeep()
  } catch (error) {
    if (!(error instanceof RejectedCall)) throw error
    throw new Refusal(400, 'invalid_batch', `In the fields of the batch: ${error.message}`)
  }
}

/** @param sharedBytes - The most bytes that a call gets from its batch. If it is left out, calls are not measured. */
function receive(messages: unknown[], shared: Shared, sharedBytes?: number): Received {
  const received: Received = { calls: [], rejected: [] }
  for (const [index, message] of messages.entries()) {
    try {
      if (isDeeperThan(MAX_DEPTH, message)) throw tooDeep()
      const call = normalise(message, shared)
      if (sharedBytes !== undefined && jsonBytes(message) + sharedBytes > MAX_CALL_BYTES) {
        // A call does not get what it has itself, such as its own traits in the context.
        const { context, integrations } = call
        checkSize(jsonBytes({ ...(message as Fields), context, integrations }))
      }
      received.calls.push(call)
    } catch (error) {
      if (!(error instanceof RejectedCall)) throw error
      received.rejected.push({ index, code: error.code, message: error.message })
    }
  }
  return received
}

function checkSize(bytes: number): void {
  if (bytes <= MAX_CALL_BYTES) return
  const message = `A call must have at most ${MAX_CALL_BYTES} bytes of JSON; it has ${bytes}.`
  throw new RejectedCall(
    'call_too_large',
    `${message} Send less data, or an id with which the receiver can find the rest.`,
  )
}

function tooDeep(): RejectedCall {
  const message = `A call must be nested at most ${MAX_DEPTH} levels deep; it is nested deeper.`
  return new RejectedCall('call_too_deep', message)
}

function allRejected(rejected: Rejected[]): Refusal {
  const [first] = rejected
  const count =
    rejected.length === 1 ? '' : `None of the ${rejected.length} calls is valid. The first one: `
  return new Refusal(400, 'all_rejected', count + (first?.message ?? ''), {}, { rejected })
}
