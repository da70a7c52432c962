import { randomInt } from 'node:crypto'
import { StoreError } from '../store/store-error.js'

/** The content type of every answer. */
export const JSON_TYPE = 'application/json; charset=utf-8'

/** The codes of refused requests. They are stable, because programs act on them. */
export type RefusalCode =
  | 'no_write_key'
  | 'unknown_write_key'
  | 'not_found'
  | 'method_not_allowed'
  | 'unsupported_encoding'
  | 'body_too_large'
  | 'body_incomplete'
  | 'invalid_gzip'
  | 'invalid_json'
  | 'invalid_batch'
  | 'empty_batch'
  | 'too_many_calls'
  | 'all_rejected'
  | 'rate_limited'
  | 'tenant_full'
  | 'bad_request'
  | 'store_unavailable'
  | 'overloaded'
  | 'internal_error'
  | 'admin_disabled'
  | 'invalid_audience'
  | 'invalid_members'
  | 'no_member_count'
  | 'wrong_member_count'
  | 'audience_superseded'
  | 'invalid_user'
  | 'invalid_filters'
  | 'no_admin_token'
  | 'wrong_admin_token'
  | 'role_not_allowed'
  | 'no_portal_token'
  | 'wrong_portal_token'
  | 'portal_link_expired'
  | 'urls_fixed'
  | 'kept_by_operator'
  | 'invalid_parameter'
  | 'count_changed'
  | 'unknown_delivery'
  | 'unknown_destination'
  | 'unknown_message'
  | 'test_running'
  | 'too_many_listeners'
  | 'invalid_settings'
  | 'unknown_source'
  | 'in_settings_file'
  | 'unusable_here'
  | 'no_settings_key'
  | 'version_mismatch'
  | 'source_in_use'
  | 'destination_in_use'
  | 'unknown_tenant'
  | 'tenant_in_use'
  | 'messages_waiting'
  | 'rotation_under_way'
  | 'no_rotation'

/** The codes of rejected calls. They are stable, because programs act on them. */
export type RejectionCode =
  | 'invalid_call'
  | 'unknown_type'
  | 'missing_field'
  | 'invalid_field'
  | 'call_too_large'
  | 'call_too_deep'

/** One rejected call of a batch: its index in the batch, and the reason with the fix. */
export interface Rejected {
  index: number
  code: RejectionCode
  message: string
}

/** One mistake in settings that a request has sent. */
export interface SettingProblem {
  /** Where the value is, such as `webhooks[0].url`. */
  path: string
  /** What was expected, what came, and how to fix it. */
  message: string
}

/** What a refusal tells apart from its code and message. */
export interface RefusalDetails {
  rejected?: readonly Rejected[]
  problems?: readonly SettingProblem[]
  /** How many messages wait. */
  waiting?: number
}

/** A request that is refused as a whole. The message says what was expected, what came instead, and how to fix it. */
export class Refusal extends Error {
  override readonly name = 'Refusal'

  constructor(
    readonly status: number,
    readonly code: RefusalCode,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
    readonly details: RefusalDetails = {},
  ) {
    super(message)
  }
}

/** A call that is rejected. The other calls of its batch may still be accepted. */
export class RejectedCall extends Error {
  override readonly name = 'RejectedCall'

  constructor(
    readonly code: RejectionCode,
    message: string,
  ) {
    super(message)
  }
}

/** What the words of an answer depend on. */
interface RefusedRequest {
  /** Whether it changes nothing. */
  isRead?: boolean
  /** Whether it is one of the operator, who may know the servers of the store. */
  isOfOperator?: boolean
}

/** Turns any error into the answer of the request. */
export function toRefusal(error: unknown, request: RefusedRequest = {}): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof StoreError) return storeFailed(error, request)
  const { statusCode = 500, message } = error as { statusCode?: number; message?: string }
  if (statusCode < 500) return new Refusal(statusCode, 'bad_request', message ?? 'Bad request')
  return new Refusal(
    500,
    'internal_error',
    'An internal error occurred. The log of the destination has the details. Send the request again.',
  )
}

/**
 * The answer if the store has failed. A part of the request may have been stored before, such as a deletion's messages, or all of it, if
 * the connection was lost during the commit.
 */
function storeFailed(error: StoreError, { isRead = false, isOfOperator = false }: RefusedRequest) {
  const store = isOfOperator && error.server !== undefined ? nameOf(error.server) : 'The store'
  const cannot = error.isUnreachable ? 'be reached' : isRead ? 'be read' : 'write'
  return notNow(
    'store_unavailable',
    error.code === 'full' ? `${store} is full` : `${store} cannot ${cannot}`,
    isRead ? 'could not be answered' : 'was not confirmed, but may have taken effect',
  )
}

/** @param servers - The name of a server of the store, or several names with commas between them. */
function nameOf(servers: string): string {
  return `The ${servers.includes(',') ? 'servers' : 'server'} ${servers} of the store`
}

/**
 * The answer if calls cannot be stored now, and the store has not been asked. `why` is the start of its message, without a full
 * stop.
 */
export function storeUnavailable(why: string): Refusal {
  return notNow('store_unavailable', why)
}

/** The answer if calls arrive faster than this machine can read, store and deliver them. */
export function overloaded(why = 'Calls arrive faster than they can be delivered'): Refusal {
  return notNow('overloaded', why)
}

function notNow(
  code: 'store_unavailable' | 'overloaded',
  why: string,
  outcome = 'was not accepted',
): Refusal {
  const message = `${why}. The request ${outcome}. Send it again later.`
  // A random delay, so that clients that were refused together do not all retry at the same moment.
  return new Refusal(503, code, message, { 'Retry-After': String(randomInt(1, 6)) })
}

const MAX_SHOWN = 40

/** Describes a wrong value in a few words for an error message. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return String(value)
  if (value.length <= MAX_SHOWN) return JSON.stringify(value)
  return `${JSON.stringify(value.slice(0, MAX_SHOWN))}… (${value.length} characters)`
}
