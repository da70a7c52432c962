import { PostHog } from 'posthog-node'

const createStubbedFetch = (stub) => {
  const response = {
    status: 200,
    headers: new Headers(),
    text: async () => '',
    json: async () => ({}),
  }
  return async (_url, { body }) => {
    stub.take(body)
    return response
  }
}

export function create({ endpoint, flushAt, stub, raisedCaps, gzip = true }) {
  const client = new PostHog('WRITE_KEY', {
    host: endpoint,
    flushAt,
    disableCompression: !gzip,
    ...(raisedCaps && { maxQueueSize: 1_000_000 }),
    ...(stub && { fetch: createStubbedFetch(stub) }),
  })
  client.on('error', () => undefined)
  let produced = 0
  let sent = 0
  client.on('flush', (messages) => {
    sent += messages.length
  })
  const pending = () => produced - sent
  // A flush that fails rejects, and leaves its messages in the queue.
  async function flush() {
    while (pending() > 0) await client.flush()
  }
  return {
    track({ userId, event, properties }) {
      produced += 1
      client.capture({ distinctId: userId, event, properties })
    },
    // Events that are dropped because the queue is full are not reported. Only the queue shows them.
    pending: raisedCaps ? pending : () => client.getPersistedProperty('queue')?.length ?? 0,
    flush,
    close: () => client.shutdown(30_000),
    reportedLost: () => 0,
  }
}
