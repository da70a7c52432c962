import { createInstance } from '@amplitude/analytics-node'

// The client hands its transport an object; to stringify it is the transport's part of the work.
const createStubbedTransport = (stub) => ({
  async send(_url, payload) {
    stub.take(JSON.stringify(payload))
    return { status: 'success', statusCode: 200, body: {} }
  },
})

export async function create({ endpoint, flushAt, stub }) {
  const client = createInstance()
  await client.init('WRITE_KEY', {
    serverUrl: `${endpoint}/2/httpapi`,
    flushQueueSize: flushAt,
    // The size cuts a flush into requests and never starts one, so the time has to.
    flushIntervalMillis: 50,
    logLevel: 0,
    ...(stub && { transportProvider: createStubbedTransport(stub) }),
  }).promise
  let pending = 0
  let lost = 0
  const settle = ({ code }) => {
    pending -= 1
    if (code < 200 || code > 299) lost += 1
  }
  async function flush() {
    while (pending > 0) {
      await client.flush().promise
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  return {
    track({ userId, event, properties }) {
      pending += 1
      void client
        .track({ user_id: userId, event_type: event, event_properties: properties })
        .promise.then(settle)
    },
    pending: () => pending,
    flush,
    close: flush,
    reportedLost: () => lost,
  }
}
