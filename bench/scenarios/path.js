// The whole way of a message through the destination: accepted, durable, signed, delivered.
import { faultsOfClient, faultsOfEndpoint } from '../destination/faults.js'
import { arrival, buildLoad, Client, flood } from '../destination/load.js'
import { SECRET, settingsOf, start } from '../destination/process.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { percentile } from '../measure.js'
import { CAP_MS } from '../produce.js'
import { LIMIT, OURS } from '../subjects/index.js'

/** Messages on their way at once, from the post to the arrival: well above what the endpoint takes at a time. */
const VARIANTS = [
  { name: 'at most 2,000 under way', underWay: 2_000 },
  { name: 'as fast as it accepts', underWay: Infinity },
]
const CONNECTIONS = 16
const BATCH_SIZE = 20
const WARM_UP = 20_000
const EVENTS = 120_000
const QUICK_EVENTS = 60_000

const scenario = {
  name: 'path',
  title: `The destination: ${EVENTS.toLocaleString('en-US')} messages accepted in batches of ${BATCH_SIZE}, stored, signed and delivered`,
  runs: 3,
  subjects: [LIMIT, OURS],
  requires: [LIMIT],
  ratios: ['rate', 'cpuUs'],
  columns: [
    { head: 'rate x', ratio: 'rate' },
    { head: 'messages/s', value: 'rate' },
    { head: 'accepted/s', value: 'acceptRate' },
    { head: 'CPU x', ratio: 'cpuUs' },
    { head: 'CPU µs/message', value: 'cpuUs' },
    { head: 'from post to arrival p50 ms', value: 'p50Ms' },
    { head: 'p99 ms', value: 'p99Ms' },
    { head: 'peak MB', value: 'peakMb' },
    { head: 'arrived', value: 'arrived' },
  ],
  targets: VARIANTS.flatMap(({ name }) => [
    { variant: name, what: 'messages/s delivered', value: 'rate', atLeast: 15_000 },
    { variant: name, what: 'messages/s delivered, x the minimum', ratio: 'rate', atLeast: 0.85 },
    { variant: name, what: 'CPU per message, x the minimum', ratio: 'cpuUs', atMost: 1.4 },
  ]),

  async collect(options) {
    const { subjects, isQuick, isProfiled } = options
    const events = isQuick ? QUICK_EVENTS : EVENTS
    const load = await buildLoad({ count: WARM_UP + events, batchSize: BATCH_SIZE })
    const arms = VARIANTS.flatMap(({ name, underWay }) => {
      const limit = { variant: name, subject: LIMIT, underWay }
      const others = subjects.filter((subject) => subject !== LIMIT)
      return [
        limit,
        ...others.map((subject) => ({ variant: name, subject, underWay, base: limit })),
      ]
    })
    return runArms(scenario, arms, options, async ({ subject, underWay }, folder) => {
      const receiver = await startReceiver(SECRET)
      const settings = settingsOf(`${folder}/store.db`, [{ name: 'crm', urls: [receiver.hook()] }])
      const running = await start(subject, settings, { folder, isProfiled })
      const client = new Client(running.url, { connections: CONNECTIONS })
      try {
        return await measure({ receiver, running, client, load, underWay })
      } finally {
        await client.close()
        await running.kill()
        await receiver.stop()
      }
    })
  },
}

export default scenario

async function measure({ receiver, running, client, load, underWay }) {
  const deadline = performance.now() + CAP_MS
  const mayGo = () => client.sentAt.length * BATCH_SIZE - receiver.arrived() < underWay
  const post = (from, to) =>
    flood(client, load, { from, to, connections: CONNECTIONS, mayGo, deadline })

  const warmUpBatches = WARM_UP / BATCH_SIZE
  await post(0, warmUpBatches)
  await arrival(receiver, client.accepted)

  const begin = performance.now()
  const cpuBefore = running.cpuUs()
  const acceptedBefore = client.accepted
  await post(warmUpBatches, load.bodies.length)
  const events = client.accepted - acceptedBefore
  const acceptSeconds = (performance.now() - begin) / 1000
  await arrival(receiver, client.accepted)
  const seconds = (performance.now() - begin) / 1000
  const cpuUs = (running.cpuUs() - cpuBefore) / events

  const peakMb = running.peakRssMb()
  const stopFaults = await running.stop()
  const [endpoint] = await receiver.report(load.count)
  const latencies = [...endpoint.arrivedAt.subarray(WARM_UP, WARM_UP + events)].map(
    (at, i) => at - client.sentAt[Math.floor((WARM_UP + i) / BATCH_SIZE)],
  )
  return {
    rate: events / seconds,
    acceptRate: events / acceptSeconds,
    cpuUs,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    peakMb,
    arrived: endpoint.found.arrived,
    isCapped: client.sentAt.length < load.bodies.length,
    faults: [
      ...faultsOfClient(client),
      ...faultsOfEndpoint(endpoint, client.accepted),
      ...stopFaults,
    ],
  }
}
