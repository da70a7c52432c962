/**
 * What came of one POST to one endpoint. The names are the ones of logs, metrics and pages.
 *
 * - `delivered`: a 2xx.
 * - `server_error`: a 5xx. `throttled`: a 429. `request_timeout`: a 408.
 * - `client_error`: any other 4xx. `redirect`: a 3xx, never followed.
 * - `timeout`: no answer within the deadline. `dns_error`: the name has no address.
 * - `connection_refused`, `connection_reset`: by the other side; `connection_failed`: any other reason
 *   for which there was no answer, the network's or the protocol's.
 * - `tls_error`: the certificate is not trusted, or no TLS could be agreed on; nothing was sent.
 * - `address_refused`: the address is in a network that is not to be reached; nothing was sent.
 * - `endpoint_down`: the endpoint's breaker is open; nothing was sent.
 * - `endpoint_busy`: the endpoint had no room in time; nothing was sent.
 */
export type OutcomeCode =
  | 'delivered'
  | 'server_error'
  | 'throttled'
  | 'request_timeout'
  | 'client_error'
  | 'redirect'
  | 'timeout'
  | 'dns_error'
  | 'connection_refused'
  | 'connection_reset'
  | 'connection_failed'
  | 'tls_error'
  | 'address_refused'
  | 'endpoint_down'
  | 'endpoint_busy'

/** What an outcome means for its message: it has arrived, is to be tried again, or is given up there. */
export type Verdict = 'delivered' | 'retry' | 'refused'

/** What came of one POST. */
export interface Outcome {
  code: OutcomeCode
  verdict: Verdict
  /** The status of the answer; `undefined` if there was none. */
  status: number | undefined
  /** From the start of the attempt to the status line, or to the failure, in ms. */
  ms: number
  /** The least wait that `Retry-After` asks for, in ms; `undefined` for none. */
  retryAfterMs: number | undefined
  /** The start of the answer's body; empty for none. */
  response: string
  /** What went wrong, in words, with the fix where there is one; `undefined` for a delivery. */
  error: string | undefined
}
