// A process that records messages with a spool, at once and without end, and dies of it. Each call is told on stdout
// once it has returned.
import { writeSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const {
  dist,
  name,
  directory,
  endpoint,
  writeKey,
  rate,
  count = Infinity,
} = JSON.parse(process.argv[2])
const { Analytics } = await import(pathToFileURL(`${dist}/index.js`).href)
const analytics = new Analytics(writeKey, {
  endpoint,
  flushAfter: 20,
  maxQueueBytes: 100_000,
  spool: { directory },
})

function tell(text) {
  for (;;) {
    try {
      return writeSync(1, text)
    } catch (error) {
      if (error.code !== 'EAGAIN') process.exit(1) // who started it is gone; else the pipe is full
    }
  }
}

const CALLS_A_TURN = 7
let made = 0
function turn() {
  for (let call = 0; call < CALLS_A_TURN; call += 1) {
    if (made === count) return
    analytics.track({
      userId: name,
      event: 'Order Completed',
      messageId: `${name}.${made}`,
      properties: { seq: made },
    })
    made += 1
    tell('.')
  }
  if (rate) setTimeout(turn, (1_000 * CALLS_A_TURN) / rate)
  else setImmediate(turn)
}
turn()
