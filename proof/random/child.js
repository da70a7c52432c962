// The process of a round that records messages: it does what the plan says, and writes down all that the client
// tells it. What is written is on disk at once where the process is about to die.
import diagnostics from 'node:diagnostics_channel'
import { openSync, writeSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock, watchStalls } from './clock.js'
import { dice } from './prng.js'

const {
  dist,
  url,
  file,
  directory,
  seed,
  client: options,
  load,
  calls,
  end,
} = JSON.parse(process.argv[2])
const { Analytics } = await import(pathToFileURL(`${dist}/index.js`).href)

const out = openSync(file, 'a')
let lines = []
const tell = (line) => lines.push(JSON.stringify({ at: clock(), ...line }))
function save() {
  if (lines.length > 0) writeSync(out, `${lines.join('\n')}\n`)
  lines = []
}
setInterval(save, 50).unref()
watchStalls(tell)

// The requests as the client sees them, also those that find no server.
let lastRequest = 0
diagnostics.subscribe('http.client.request.start', ({ request }) => {
  const seen = { n: (lastRequest += 1), from: clock(), isReused: request.reusedSocket }
  const name = (socket) => (seen.port = socket.localPort ?? seen.port)
  const watch = (socket) => {
    name(socket)
    if (socket.connecting) socket.once('connect', () => name(socket))
  }
  if (request.socket) watch(request.socket)
  else request.once('socket', watch)
  tell({ kind: 'http begins', n: seen.n })
  request.once('close', () => tell({ kind: 'http', ...seen, until: clock() }))
})

/** An option that a former build does not know is left out. */
function isKnown(name, value) {
  try {
    new Analytics('wk', { [name]: value, disabled: true })
    return true
  } catch {
    return false
  }
}

const { spool, onFailed, callbacks, maxBatchBytes, ...more } = options
if (maxBatchBytes && isKnown('maxBatchBytes', maxBatchBytes)) more.maxBatchBytes = maxBatchBytes
tell({ kind: 'options', maxBatchBytes: more.maxBatchBytes })
const idOf = ({ messageId }) => Number(messageId?.slice(1))
const analytics = new Analytics('wk_proof', {
  endpoint: url,
  ...more,
  ...(spool && { spool: { directory } }),
  ...(onFailed && {
    onFailed: ({ messages, error }) => {
      tell({ kind: 'failed', code: error.code, status: error.status, ids: messages.map(idOf) })
      check()
    },
  }),
  onDelivered: ({ messages, attempts }) => {
    tell({ kind: 'delivered', messages, attempts })
    check()
  },
})

// The client ends its wait when a script has nothing left to do.
process.on('beforeExit', () => tell({ kind: 'idle' }))

let lastBooks = 0
/** Looks at the books; those that are wrong are always written down. */
function check() {
  const stats = analytics.stats()
  const { accepted, delivered, rejected, dropped, pending, pendingBytes } = stats
  const isRight =
    accepted === delivered + rejected + dropped + pending &&
    Object.values(stats).every((figure) => Number.isSafeInteger(figure) && figure >= 0) &&
    (pending > 0 || pendingBytes === 0)
  const now = clock()
  if (!isRight || now - lastBooks > 100) {
    lastBooks = now
    tell({ kind: 'books', isRight, ...stats })
  }
  return stats
}

const chances = dice(seed + 1)
const TYPES = {
  track: (pad) => ({ event: 'Order Completed', properties: { pad } }),
  identify: (pad) => ({ traits: { pad } }),
  page: (pad) => ({ name: 'Home', traits: { pad } }),
  group: (pad) => ({ groupId: 'g1', traits: { pad } }),
}
const NAMES = Object.keys(TYPES)
const OVERHEAD = 170
const HAS_CALLBACK = { all: () => true, some: (i) => i % 3 === 0, none: () => false }

let made = 0
function record(count) {
  const from = made
  for (; made < from + count; made += 1) {
    const id = made
    const length = Math.max(0, chances.between(...load.bytes) - OVERHEAD)
    const pad = load.isUnicode ? 'é漢🙂'.repeat(length / 9) : 'x'.repeat(length)
    const callback = (error) =>
      tell({ kind: 'outcome', id, code: error?.code, status: error?.status })
    try {
      const type = NAMES[id % NAMES.length]
      const message = { userId: 'u1', messageId: `m${id}`, ...TYPES[type](pad) }
      analytics[type](message, ...(HAS_CALLBACK[callbacks](id) ? [callback] : []))
    } catch (error) {
      tell({ kind: 'thrown', id, error: String(error) })
    }
  }
  tell({ kind: 'calls', from, to: made })
  check()
  save()
}

let lastCall = 0
async function call(name, given) {
  const n = (lastCall += 1)
  const before = check()
  // JSON has no Infinity: no timeout is an endless one.
  const timeout = Number.isFinite(given.timeout) ? given.timeout : undefined
  tell({ kind: 'call', n, name, timeout, made, books: before })
  const result = await analytics[name](given)
  tell({ kind: 'answer', n, name, result, made, books: check() })
  save()
}

const begun = clock()
tell({ kind: 'begun' })
save()
writeSync(1, 'begun\n')
const until = (atMs) => sleep(Math.max(0, begun + atMs - clock()))

for (const { atMs, timeout } of calls)
  setTimeout(() => void call('flush', timeout === undefined ? {} : { timeout }), atMs)

const CHUNK = 1_000
for (const [atMs, count] of load.turns) {
  await until(atMs)
  for (let left = count; left > 0; left -= CHUNK) {
    record(Math.min(CHUNK, left))
    if (analytics.stats().pendingBytes > (load.gateBytes ?? Infinity)) await call('flush', {})
  }
}

const timeout = end.timeout ?? Infinity
const ENDS = {
  close: () => call('close', { timeout }),
  flush: () => call('flush', {}),
  end: () => undefined,
  exit: () => process.exit(0),
  kill: () => process.kill(process.pid, 'SIGKILL'),
  /** Waits until only what is never accepted is left. */
  async rest() {
    while (check().pending > end.left) await sleep(50)
    tell({ kind: 'rest' })
    await call('close', { timeout: 300 })
  },
}
process.on('exit', (code) => {
  tell({ kind: 'exit', code, books: check() })
  save()
})
tell({ kind: 'ended' })
save()
await ENDS[end.how]()
tell({ kind: 'done' })
