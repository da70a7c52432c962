import { setTimeout as sleep } from 'node:timers/promises'
import Analytics from '@rudderstack/rudder-sdk-node'

// As light as an injected transport can be: no axios, no retry interceptors.
const stubbedTransport = (stub) => ({
  retryCount: 0,
  axiosInstance: {
    async post(_url, data) {
      stub.take(typeof data === 'object' && 'batch' in data ? JSON.stringify(data) : data)
      return { status: 200 }
    },
  },
})

export function create({ endpoint, flushAt, stub, raisedCaps, gzip = true }) {
  let pending = 0
  let lost = 0
  const analytics = new Analytics('WRITE_KEY', {
    dataPlaneUrl: endpoint,
    flushAt,
    gzip,
    logLevel: 'none',
    // Without one, the first failed batch ends the process.
    errorHandler: () => undefined,
    ...(raisedCaps && { maxInternalQueueSize: 1_000_000 }),
    ...(stub && stubbedTransport(stub)),
  })
  const settle = (error) => {
    pending -= 1
    if (error) lost += 1
  }
  // A flush takes flushAt events and leaves the rest.
  async function flush() {
    while (pending > 0) {
      await analytics.flush()
      await sleep(1)
    }
  }
  return {
    track(event) {
      const queued = analytics.queue.length
      pending += 1
      analytics.track(event, settle)
      // An event that is refused because the queue is full gets no callback. It is lost without a report.
      if (queued >= analytics.maxInternalQueueSize) pending -= 1
    },
    pending: () => pending,
    flush,
    close: flush,
    reportedLost: () => lost,
  }
}
