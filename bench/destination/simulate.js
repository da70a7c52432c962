// What a fleet on PostgreSQL has to bear: computes a day of many destinations, some of which are down at times, second
// by second, from costs that were measured. Prints what to plan for; see docs/postgres.md.
//
//     node bench/destination/simulate.js
//     node bench/destination/simulate.js --destinations 200 --rate 2000 --down 0.05 --latency 300
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    destinations: { type: 'string', default: '1000' },
    /** Events per second in total. The share of a destination depends on its rank (Zipf). */
    rate: { type: 'string', default: '10000' },
    /** The share of the time that a destination is down. */
    down: { type: 'string', default: '0.02' },
    /** How long an outage lasts on average, in minutes. */
    outage: { type: 'string', default: '30' },
    /** How long an endpoint takes to answer, in ms. */
    latency: { type: 'string', default: '100' },
    concurrency: { type: 'string', default: '128' },
    retention: { type: 'string', default: '7' },
    hours: { type: 'string', default: '24' },
  },
})
const given = Object.fromEntries(Object.entries(values).map(([name, text]) => [name, Number(text)]))
const wrong = Object.keys(given).find((name) => !(given[name] > 0))
if (wrong) {
  console.error(`--${wrong} takes a number above 0, not ${values[wrong]}.`)
  process.exit(2)
}

/**
 * Measured on two cores of a shared machine: CPU in µs, disk in bytes, for one message with a body of 530 bytes that
 * arrives at its first attempt. The server's are those of its put (35), its claim and settlement (38) and its deletion (7).
 */
const COSTS = { serverUs: 80, workerUs: 60, collectorUs: 55, diskBytes: 1_000, walBytes: 2_300 }

/** A probe reaches an endpoint that is down every 30 s at least: until then a recovery is not seen. */
const SEEN_AFTER_S = 30

const random = generator(1)
const ranks = Array.from({ length: given.destinations }, (_, i) => 1 / (i + 1) ** 0.8)
const sum = ranks.reduce((a, b) => a + b, 0)
const seconds = given.hours * 3_600
const destinations = ranks.map((share) => ({
  rate: (given.rate * share) / sum,
  /** How many requests the endpoint can take per second at its cap. */
  capacity: given.concurrency / (given.latency / 1_000),
  waiting: 0,
  downUntil: -1,
  /** When its backlog began. */
  since: -1,
}))
const outageS = given.outage * 60
const perSecondDown = given.down / (1 - given.down) / outageS

const peaks = { waiting: 0, delivered: 0, down: 0, recoveryS: 0 }
const saturated = destinations.filter(({ rate, capacity }) => rate > capacity).length
for (let now = 0; now < seconds; now += 1) {
  let [waiting, delivered, down] = [0, 0, 0]
  for (const one of destinations) {
    if (now >= one.downUntil && random() < perSecondDown) {
      one.downUntil = now + Math.ceil(-Math.log(1 - random()) * outageS) + random() * SEEN_AFTER_S
      if (one.waiting === 0) one.since = now
    }
    if (now < one.downUntil) {
      one.waiting += one.rate
      down += 1
    } else {
      const sent = Math.min(one.waiting + one.rate, one.capacity)
      one.waiting += one.rate - sent
      delivered += sent
      if (one.since >= 0 && one.waiting < 1) {
        peaks.recoveryS = Math.max(peaks.recoveryS, now - one.downUntil)
        one.since = -1
      }
    }
    waiting += one.waiting
  }
  peaks.waiting = Math.max(peaks.waiting, waiting)
  peaks.delivered = Math.max(peaks.delivered, delivered)
  peaks.down = Math.max(peaks.down, down)
}

/** A core that is busy for more than two thirds of the time delays other work. */
const cores = (us, rate) => (us * rate) / 1e6 / 0.67
const perDay = given.rate * 86_400
const GB = 1e9
const rows = [
  ['events a day', perDay.toLocaleString('en-US')],
  [
    'busiest destination',
    `${destinations[0].rate.toFixed(0)} events/s, can take ${destinations[0].capacity.toFixed(0)}`,
  ],
  ['destinations that get more than they can take', saturated],
  ['down at once, at most', peaks.down],
  ['messages that wait, at most', Math.round(peaks.waiting).toLocaleString('en-US')],
  ['delivered in one second, at most', Math.round(peaks.delivered).toLocaleString('en-US')],
  [
    'longest until a backlog was gone, after the endpoint was back',
    `${Math.round(peaks.recoveryS)} s`,
  ],
  ['cores of the server', cores(COSTS.serverUs, peaks.delivered).toFixed(1)],
  ['collectors, of one core', Math.ceil(cores(COSTS.collectorUs, given.rate))],
  ['workers, of one core', Math.ceil(cores(COSTS.workerUs, peaks.delivered))],
  ['disk a day', `${((perDay * COSTS.diskBytes) / GB).toFixed(0)} GB`],
  [
    `disk for ${given.retention} days`,
    `${((perDay * given.retention * COSTS.diskBytes) / GB).toFixed(0)} GB`,
  ],
  ['write-ahead log', `${((given.rate * COSTS.walBytes) / 1e6).toFixed(0)} MB/s`],
]
const width = Math.max(...rows.map(([what]) => what.length))
for (const [what, figure] of rows) console.log(`${what.padEnd(width)}  ${figure}`)

/** The generator Mulberry32, so that each run simulates the same day. */
function generator(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
