// The endpoints of the customer, in a separate thread. It is a minimal HTTP server, because `node:http` would use as
// much CPU as the program that is measured.
//
// While the clock runs it answers, notes the time, and keeps the bytes of each request; it checks
// signatures and counts when asked for its report. `/hook/0`, `/hook/1` and so on answer at once,
// `/late` after 50 ms, `/silent` never does.
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { sharedNow } from '../measure.js'

const OK = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
const HEAD_END = Buffer.from('\r\n\r\n')
/** Where `POST /silent` differs from `POST /hook/0`. */
const KIND_AT = 'POST /'.length
const SILENT = 's'.charCodeAt(0)
const LATE = 'l'.charCodeAt(0)
const LATE_MS = 50
/** Requests are kept side by side in pieces of this size: a hundred thousand buffers would be slow. */
const PIECE_BYTES = 16 * 1024 * 1024

/**
 * @param {string} secret what requests are to be signed with
 * @returns a server whose `arrived()` tells at any time how many requests it has answered
 */
export async function startReceiver(secret) {
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(new URL(import.meta.url), { workerData: { answered, secret } })
  const [port] = await once(worker, 'message')
  const origin = `http://127.0.0.1:${port}`
  return {
    hook: (number = 0) => `${origin}/hook/${number}`,
    silent: `${origin}/silent`,
    late: `${origin}/late`,
    arrived: () => Atomics.load(answered, 0),
    /**
     * Counts which of the messages 0 to `expected` - 1 arrived, were lost or arrived more than once.
     *
     * @returns {Promise<{ path: string, found: object, arrivedAt: Float64Array }[]>} one for each path that
     *   got something: the counts, and when each message first came, by `sharedNow`; 0 if it didn't
     */
    async report(expected) {
      worker.postMessage(expected)
      const [report] = await once(worker, 'message')
      return report
    },
    stop: () => worker.terminate(),
  }
}

/** Keeps bytes, and gives them back in the order in which they came. */
class Arena {
  #pieces = []
  #at = PIECE_BYTES
  #places = []

  keep(bytes) {
    if (this.#at + bytes.length > PIECE_BYTES) {
      this.#pieces.push(Buffer.allocUnsafeSlow(PIECE_BYTES))
      this.#at = 0
    }
    const piece = this.#pieces.length - 1
    bytes.copy(this.#pieces[piece], this.#at)
    this.#places.push(piece, this.#at, bytes.length)
    this.#at += bytes.length
  }

  *[Symbol.iterator]() {
    for (let i = 0; i < this.#places.length; i += 3) {
      const [piece, start, length] = this.#places.slice(i, i + 3)
      yield this.#pieces[piece].subarray(start, start + length)
    }
  }
}

function listen({ answered, secret }) {
  const requests = new Arena()
  const times = []

  /** @returns the bytes of the request that `bytes` starts with, or 0 if there is more to come */
  const lengthOfRequest = (bytes) => {
    const headEnd = bytes.indexOf(HEAD_END)
    if (headEnd < 0) return 0
    const [, length] = /\r\ncontent-length: *(\d+)/i.exec(bytes.latin1Slice(0, headEnd)) ?? []
    if (length === undefined) throw new Error('a request without a content-length')
    const total = headEnd + HEAD_END.length + Number(length)
    return bytes.length < total ? 0 : total
  }

  const server = createServer({ noDelay: true }, (socket) => {
    let rest
    socket.on('data', (chunk) => {
      let bytes = rest ? Buffer.concat([rest, chunk]) : chunk
      for (;;) {
        const length = lengthOfRequest(bytes)
        if (length === 0) break
        if (bytes[KIND_AT] !== SILENT) {
          times.push(sharedNow())
          if (bytes[KIND_AT] === LATE) setTimeout(() => socket.write(OK), LATE_MS)
          else socket.write(OK)
          requests.keep(bytes.subarray(0, length))
          Atomics.add(answered, 0, 1)
        }
        bytes = bytes.subarray(length)
      }
      rest = bytes.length > 0 ? bytes : undefined
    })
    socket.on('error', () => {
      // The other side is killed in some scenarios.
    })
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))

  parentPort.on('message', (expected) => {
    parentPort.postMessage(account(requests, times, { expected, secret }))
  })
}

const emptyCounts = () => ({
  arrived: 0,
  duplicated: 0,
  foreign: 0,
  forged: 0,
  sharedIds: 0,
  retries: 0,
})

function account(requests, times, { expected, secret }) {
  const endpoints = new Map()
  let index = 0
  for (const request of requests) {
    const { path, headers, body } = parse(request)
    if (!endpoints.has(path)) {
      const arrivedAt = new Float64Array(expected)
      endpoints.set(path, { path, found: emptyCounts(), arrivedAt, ids: new Set() })
    }
    const { found, arrivedAt, ids } = endpoints.get(path)
    const time = times[index]
    index += 1

    const signature = createHmac('sha1', secret).update(body).digest('hex')
    if (headers.get('x-signature') !== signature) found.forged += 1
    if (headers.get('x-attempt') !== '1') found.retries += 1
    const seq = JSON.parse(body).properties?.seq
    if (!(Number.isInteger(seq) && seq >= 0 && seq < expected)) found.foreign += 1
    else if (arrivedAt[seq] > 0) found.duplicated += 1
    else {
      arrivedAt[seq] = time
      found.arrived += 1
      const id = headers.get('x-message-id')
      if (!id || ids.has(id)) found.sharedIds += 1
      ids.add(id)
    }
  }
  return [...endpoints.values()].map(({ path, found, arrivedAt }) => ({ path, found, arrivedAt }))
}

function parse(request) {
  const headEnd = request.indexOf(HEAD_END)
  const [first, ...lines] = request.latin1Slice(0, headEnd).split('\r\n')
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  return { path: first.split(' ')[1], headers, body: request.subarray(headEnd + HEAD_END.length) }
}

if (!isMainThread) listen(workerData)
