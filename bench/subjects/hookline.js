// hookline at its defaults.
import { dist } from '../dist.js'

const createStubbedFetch = (stub) => {
  const response = {
    status: 200,
    ok: true,
    headers: new Headers(),
    body: null,
    text: async () => '',
  }
  return async (_url, { body }) => {
    stub.take(body)
    return response
  }
}

export async function create({ endpoint, flushAt, stub, spool, gzip }) {
  const { Analytics } = await import(new URL('index.js', dist).href)
  let lost = 0
  const analytics = new Analytics('WRITE_KEY', {
    endpoint,
    flushAt,
    spool,
    gzip,
    ...(stub && { fetch: createStubbedFetch(stub) }),
    onFailed: ({ messages }) => {
      lost += messages.length
    },
  })
  return {
    track(event) {
      analytics.track(event)
    },
    pending: () => analytics.stats().pending,
    pendingBytes: () => analytics.stats().pendingBytes,
    flush: () => analytics.flush(),
    close: () => analytics.close({ timeout: 30_000 }),
    reportedLost() {
      const { dropped, rejected } = analytics.stats()
      if (dropped + rejected !== lost) {
        throw new Error(`stats() has ${dropped + rejected} events lost, onFailed told of ${lost}`)
      }
      return lost
    },
  }
}
