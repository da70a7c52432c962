/**
 * The outcomes of one POST to one endpoint. Logs, metrics, the admin API and the page use these codes.
 *
 * - `delivered`: a 2xx status.
 * - `server_error`: a 5xx status. `throttled`: a 429. `request_timeout`: a 408.
 * - `client_error`: any other 4xx status. `redirect`: a 3xx status; redirects are not followed.
 * - `timeout`: no answer within the deadline. `dns_error`: the host name could not be resolved.
 * - `connection_refused`, `connection_reset`: the other side refused or reset the connection. `connection_failed`: there
 *   was no valid answer for any other reason.
 * - `tls_error`: the certificate is not trusted, or the TLS handshake failed. Nothing was sent.
 * - `address_refused`: the settings do not allow the network of the address. Nothing was sent.
 * - `endpoint_down`: the endpoint's breaker is open. Nothing was sent.
 * - `endpoint_busy`: the endpoint had no capacity in time. Nothing was sent.
 */
export const OUTCOME_CODES = [
  'delivered',
  'server_error',
  'throttled',
  'request_timeout',
  'client_error',
  'redirect',
  'timeout',
  'dns_error',
  'connection_refused',
  'connection_reset',
  'connection_failed',
  'tls_error',
  'address_refused',
  'endpoint_down',
  'endpoint_busy',
] as const
export type OutcomeCode = (typeof OUTCOME_CODES)[number]

/**
 * What an outcome means for the message. `delivered`: the endpoint accepted it. `retry`: it can be tried again. `refused`:
 * the endpoint permanently refused it.
 */
export type Verdict = 'delivered' | 'retry' | 'refused'

/** The result of one POST. */
export interface Outcome {
  code: OutcomeCode
  verdict: Verdict
  /** The status of the answer; `undefined` if there was none. */
  status: number | undefined
  /** From the start of the attempt to the status line, or to the failure, in ms. */
  ms: number
  /** The minimum wait that `Retry-After` demands, in ms; `undefined` without one. */
  retryAfterMs: number | undefined
  /** The start of the answer's body; empty if there is none. */
  response: string
  /** As `AttemptLog.headers`: the headers of the answer of a request that failed. */
  headers?: string | undefined
  /** The error in words, with the fix if one is known; `undefined` if the message was delivered. */
  error: string | undefined
}
