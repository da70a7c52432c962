import { Analytics } from '@segment/analytics-node'

const createStubbedClient = (stub) => ({
  async makeRequest({ body }) {
    stub.take(body)
    return { status: 200, statusText: 'OK' }
  },
})

export function create({ endpoint, flushAt, stub }) {
  let pending = 0
  let lost = 0
  const analytics = new Analytics({
    writeKey: 'WRITE_KEY',
    host: endpoint,
    flushAt,
    ...(stub && { httpClient: createStubbedClient(stub) }),
  })
  analytics.on('track', () => {
    pending -= 1
  })
  analytics.on('error', ({ ctx }) => {
    if (!ctx) return
    pending -= 1
    lost += 1
  })
  return {
    track(event) {
      pending += 1
      analytics.track(event)
    },
    pending: () => pending,
    flush: () => analytics.flush(),
    close: () => analytics.closeAndFlush({ timeout: 30_000 }),
    reportedLost: () => lost,
  }
}
