/**
 * The state of an endpoint's circuit breaker. `closed`: the endpoint is healthy. `open`: the endpoint is down, and gets
 * only one probe at a time. `half-open`: the endpoint is recovering, and gets more requests after each success.
 */
export type BreakerState = 'closed' | 'open' | 'half-open'
