// The sources' side: batches as the SDK sends them, made before the clock starts, and posted.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildEvent } from '../event.js'
import { sharedNow, turn } from '../measure.js'
import { create as createSdk } from '../subjects/hookline.js'
import { library } from './libraries.js'

const { Pool } = library('undici')

/** The write key of the source `web` in all settings files here. */
export const WRITE_KEY = 'WRITE_KEY'

/** The write key of the source `elsewhere`. */
export const OTHER_KEY = 'ANOTHER_KEY'

const headersFor = (writeKey) => ({
  authorization: `Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`,
  'content-type': 'application/json',
})

/**
 * The SDK's own requests for the events `first` to `first + count - 1`, numbered as in event.js, each under an id of its own.
 *
 * @returns {Promise<{ bodies: Uint8Array[], batchSize: number, count: number }>}
 */
export async function buildLoad({ count, batchSize = 20, first = 0 }) {
  const bodies = []
  const sdk = await createSdk({ flushAt: batchSize, stub: { take: (body) => bodies.push(body) } })
  for (let seq = 0; seq < count; seq += 1) {
    sdk.track(buildEvent(first + seq))
    // With more of them waiting, the SDK would send larger batches.
    if ((seq + 1) % batchSize === 0) while (sdk.pending() > 0) await turn()
  }
  await sdk.close()
  return { bodies, batchSize, count }
}

/** Connections to a collector. A batch that is not answered with 200 is counted and not sent again. */
export class Client {
  #pool
  #writeKey
  /** Messages answered with 200. */
  accepted = 0
  /** The number of each other status and error. */
  refusals = new Map()
  /** When the batch of each number was sent. */
  sentAt = []

  constructor(url, { connections, writeKey = WRITE_KEY }) {
    this.#pool = new Pool(url, { connections })
    this.#writeKey = writeKey
  }

  /** @returns the refusal; `undefined` if the batch was accepted. */
  async post({ bodies, batchSize }, index, writeKey = this.#writeKey) {
    this.sentAt[index] = sharedNow()
    const refusal = await this.#send(bodies[index], writeKey)
    if (refusal === undefined) this.accepted += batchSize
    else this.refusals.set(refusal, (this.refusals.get(refusal) ?? 0) + 1)
    return refusal
  }

  async #send(body, writeKey) {
    try {
      const answer = await this.#pool.request({
        path: '/v1/batch',
        method: 'POST',
        headers: headersFor(writeKey),
        body,
      })
      const text = await answer.body.text()
      if (answer.statusCode !== 200) return `answered ${answer.statusCode}`
      // A 200 may have refused some of the batch.
      return text.includes('rejected') ? text.slice(0, 200) : undefined
    } catch (error) {
      return error.code ?? error.message
    }
  }

  close() {
    return this.#pool.destroy()
  }
}

/**
 * Posts the batches `from` to `to` - 1, each as soon as a connection is free and `mayGo` says so.
 *
 * @param {() => boolean} mayGo called again after each millisecond in which it returned false
 */
export async function flood(
  client,
  load,
  { from = 0, to, connections, mayGo = () => true, deadline },
) {
  let index = from
  const lane = async () => {
    while (index < to && performance.now() < deadline) {
      if (!mayGo()) {
        await sleep(1)
        continue
      }
      const own = index
      index += 1
      await client.post(load, own)
    }
  }
  await Promise.all(Array.from({ length: connections }, lane))
}

/** Posts the batches from number `from` at a steady pace; one that is late goes at once. */
export async function pace(client, load, { from, eventsPerSecond }) {
  const everyMs = (load.batchSize / eventsPerSecond) * 1000
  const posts = []
  const start = performance.now()
  for (let index = from; index < load.bodies.length; index += 1) {
    const wait = start + (index - from) * everyMs - performance.now()
    if (wait > 0) await sleep(wait)
    posts.push(client.post(load, index))
  }
  await Promise.all(posts)
}

/** Waits until this many messages have arrived, or none has arrived for a while. */
export async function arrival(receiver, expected, { quietMs = 8_000 } = {}) {
  let last = { count: -1, at: 0 }
  for (;;) {
    const count = receiver.arrived()
    if (count >= expected) return
    if (count !== last.count) last = { count, at: performance.now() }
    if (performance.now() - last.at > quietMs) return
    await sleep(2)
  }
}

/** A URL where nobody listens: connections are refused. */
export async function refusedUrl() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}/hook`
}
