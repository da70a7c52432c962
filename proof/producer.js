// A process that records events with one client at a steady rate, then closes it and says what it knows. What it is
// made with: the first argument. The clock and the names it resolves are in the parent's hand.
import dns from 'node:dns'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildEvent } from '../bench/event.js'
import { createSubject } from '../bench/subjects/index.js'

const { subject, endpoint, options, count, rate, capMs } = JSON.parse(process.argv[2])
const TURN_MS = 25
const MAX_CALLS_A_TURN = 10

let isDnsGone = false
dns.lookup = (host, given, done) => {
  const callback = typeof given === 'function' ? given : done
  const isAll = given?.all === true
  if (isDnsGone)
    callback(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' }))
  else if (isAll) callback(null, [{ address: '127.0.0.1', family: 4 }])
  else callback(null, '127.0.0.1', 4)
}

let aheadMs = 0
const { now } = Date
const RealDate = Date
globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length > 0 ? given : [now() + aheadMs]))
  }
  static now() {
    return now() + aheadMs
  }
}

const ORDERS = {
  'dns gone': () => (isDnsGone = true),
  'dns back': () => (isDnsGone = false),
  'clock ahead': () => (aheadMs = 3_600_000),
  'clock back': () => (aheadMs = 0),
}
process.on('message', (order) => ORDERS[order]())

const client = await createSubject(subject, { endpoint, flushAt: 20, ...options })
process.send('begun')
const start = performance.now()
let made = 0
while (made < count) {
  // A process that was delayed catches up gradually, because bursts are not part of this proof.
  const onTime = Math.ceil(((performance.now() - start) * rate) / 1_000)
  const due = Math.min(count, onTime, made + MAX_CALLS_A_TURN)
  for (; made < due; made += 1) client.track(buildEvent(made))
  await sleep(TURN_MS)
}
process.send('made')
let closing
try {
  closing = client.close()
} catch {
  // Its own affair: what arrived is what counts.
}
await Promise.race([Promise.resolve(closing).catch(() => undefined), sleep(capMs)])
const peakMb = process.resourceUsage().maxRSS / 1_024
process.send({ made, reported: client.reportedLost(), peakMb }, () => process.exit(0))
