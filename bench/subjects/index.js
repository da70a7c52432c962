// Everything that is measured. Each module here has one adapter:
//
//   create({ endpoint, flushAt, stub, raisedCaps }) → subject
//
// `endpoint` is the collector; with `stub` nothing is sent, the bodies go to `stub.take`. `raisedCaps`
// lets a subject queue what it would drop at its defaults, so that speed is compared for equal work.
// Other options stay at the subject's defaults, gzip included. A subject has
//
//   track(event)    one call, as an application would make it
//   pending()       events that have no outcome yet
//   flush()         resolves once all of them have one
//   close()         the orderly end
//   reportedLost()  events that the subject has said it lost

export const LIMIT = 'limit'
export const NOOP = 'noop'
export const OURS = 'hookline'
const PEERS = ['segment', 'rudderstack', 'posthog', 'amplitude']

/** Peers with gzip, which they have on by default, turned off: measured when asked for by name. */
const PLAIN_PEERS = ['rudderstack-plain', 'posthog-plain']

/** Measured for its footprint only: it sends a request per call. */
const UNBATCHED_PEERS = ['mixpanel']

export const SUBJECTS = [NOOP, LIMIT, OURS, ...PEERS, ...PLAIN_PEERS, ...UNBATCHED_PEERS]

export const createSubject = async (name, options) => {
  const { create } = await import(`./${name}.js`)
  return await create(options)
}
