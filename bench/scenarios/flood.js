// One customer posts as fast as the destination accepts. Measures what is delivered meanwhile, and how long the messages
// of another, quiet customer take.
import { setTimeout as sleep } from 'node:timers/promises'
import { faultsOfClient, faultsOfEndpoint } from '../destination/faults.js'
import { arrival, buildLoad, Client, flood, OTHER_KEY, pace } from '../destination/load.js'
import { SECRET, settingsOf, start } from '../destination/process.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { percentile } from '../measure.js'
import { LIMIT, OURS } from '../subjects/index.js'

const CONNECTIONS = 16
const BATCH_SIZE = 20
/** More than any machine accepts while it is measured; the flood begins anew at its end. */
const FLOOD_EVENTS = 300_000
const WARM_UP = 20_000

const QUIET_PER_SECOND = 50
const SECONDS = 10
const QUICK_SECONDS = 4
const QUIET_WARM_UP = 200

const ALONE = { variant: 'the quiet customer alone', subject: OURS, isFlooded: false }
/** A burst and room for the warm-up. Then the tenant may send a small part of what the process can handle. */
const QUOTAS = { callsPerSecond: 500, burst: WARM_UP, waiting: WARM_UP, concurrency: 32 }
/** What a client waits for that is refused by the quota: about as long as `Retry-After` says, each for another time. */
const RETRY_AFTER_MS = 1_000

const FLOODED = { variant: 'beside the flood', subject: OURS, base: ALONE, isFlooded: true }
const LIMITED = {
  variant: 'beside the flood of a tenant with quotas',
  subject: OURS,
  base: ALONE,
  isFlooded: true,
  isLimited: true,
}
/** The hand-written minimum has no quotas and no fairness: what it loses to the flood, the machine takes. */
const LIMIT_ALONE = { ...ALONE, variant: 'the quiet customer alone, minimum', subject: LIMIT }
const LIMIT_FLOODED = {
  ...{ variant: 'beside the flood, minimum', subject: LIMIT, base: LIMIT_ALONE },
  isFlooded: true,
}

const scenario = {
  name: 'flood',
  title: `The destination: ${QUIET_PER_SECOND} messages a second of a quiet customer, while another one posts as fast as it can`,
  runs: 3,
  subjects: [OURS, LIMIT],
  ratios: ['p50Ms', 'p99Ms'],
  columns: [
    { head: 'p50 x', ratio: 'p50Ms' },
    { head: 'p99 x', ratio: 'p99Ms' },
    { head: 'from post to arrival p50 ms', value: 'p50Ms' },
    { head: 'p99 ms', value: 'p99Ms' },
    { head: 'max ms', value: 'maxMs' },
    { head: 'accepted/s', value: 'acceptRate' },
    { head: 'delivered/s', value: 'rate' },
    { head: 'peak MB', value: 'peakMb' },
  ],
  targets: [
    {
      variant: FLOODED.variant,
      what: 'p50 of the quiet customer from post to arrival, x without the flood',
      ratio: 'p50Ms',
      atMost: 2,
    },
    {
      variant: LIMITED.variant,
      what: 'p99 of the quiet customer from post to arrival, x without the flood of a tenant with quotas',
      ratio: 'p99Ms',
      atMost: 1.5,
    },
  ],

  async collect(options) {
    const seconds = options.isQuick ? QUICK_SECONDS : SECONDS
    const quiet = await buildLoad({
      count: QUIET_WARM_UP + seconds * QUIET_PER_SECOND,
      batchSize: 1,
    })
    const load = await buildLoad({ count: WARM_UP + FLOOD_EVENTS, batchSize: BATCH_SIZE })
    const arms = [ALONE, FLOODED, LIMITED, LIMIT_ALONE, LIMIT_FLOODED]
    return runArms(scenario, arms, options, async (arm, folder) => {
      const receiver = await startReceiver(SECRET)
      const destinations = [
        { name: 'quiet', urls: [receiver.hook(0)], source: 'elsewhere' },
        { name: 'busy', urls: [receiver.hook(1)] },
      ]
      const settings = settingsOf(`${folder}/store.db`, destinations)
      const running = await start(arm.subject, arm.isLimited ? limited(settings) : settings, {
        folder,
        isProfiled: options.isProfiled,
      })
      try {
        return await measure({ receiver, running, quiet, load, ...arm })
      } finally {
        await running.kill()
        await receiver.stop()
      }
    })
  },
}

export default scenario

/** The same settings, in which the customer that floods is a tenant with quotas. */
const limited = ({ sources, destinations, ...rest }) => ({
  ...rest,
  tenants: [{ name: 'busy', quotas: QUOTAS }],
  sources: sources.map((one) => (one.name === 'web' ? { ...one, tenant: 'busy' } : one)),
  destinations: destinations.map((one) => (one.name === 'busy' ? { ...one, tenant: 'busy' } : one)),
})

async function measure({ receiver, running, quiet, load, isFlooded, isLimited }) {
  const client = new Client(running.url, { connections: CONNECTIONS, writeKey: OTHER_KEY })
  const flooding = new Client(running.url, { connections: CONNECTIONS })
  let isOver = false
  try {
    const warmUp = { to: WARM_UP / BATCH_SIZE, connections: CONNECTIONS, deadline: Infinity }
    await flood(flooding, load, warmUp)
    await flood(client, quiet, { to: QUIET_WARM_UP, connections: 4, deadline: Infinity })
    await arrival(receiver, flooding.accepted + client.accepted)

    const mark = () => ({
      at: performance.now(),
      accepted: flooding.accepted,
      arrived: receiver.arrived(),
    })
    let begin = mark()
    const lanes = Array.from({ length: isFlooded ? CONNECTIONS : 0 }, async (_, lane) => {
      for (let i = warmUp.to + lane; i < load.bodies.length && !isOver; i += CONNECTIONS)
        if ((await flooding.post(load, i)) !== undefined && isLimited)
          await sleep(RETRY_AFTER_MS * (0.5 + Math.random()))
    })
    if (isFlooded) await sleep(1_000)
    if (isLimited) {
      // During the warm-up the burst has been filled up again.
      const behind = () => flooding.accepted + client.accepted - receiver.arrived()
      while (flooding.refusals.size === 0 || behind() > QUOTAS.callsPerSecond) await sleep(10)
      begin = mark()
    }
    await pace(client, quiet, { from: QUIET_WARM_UP, eventsPerSecond: QUIET_PER_SECOND })
    const seconds = (performance.now() - begin.at) / 1000
    const rate = (receiver.arrived() - begin.arrived) / seconds
    const acceptRate = (flooding.accepted - begin.accepted) / seconds
    const isShort = lanes.length > 0 && flooding.sentAt.length >= load.bodies.length
    isOver = true
    await Promise.all(lanes)
    await arrival(receiver, flooding.accepted + client.accepted)
    const peakMb = running.peakRssMb()

    const reports = await receiver.report(load.count)
    const own = reports.find(({ path }) => path === '/hook/0')
    const latencies = [...own.arrivedAt.subarray(QUIET_WARM_UP, quiet.count)].map(
      (at, i) => at - client.sentAt[QUIET_WARM_UP + i],
    )
    return {
      p50Ms: percentile(latencies, 0.5),
      p99Ms: percentile(latencies, 0.99),
      maxMs: percentile(latencies, 1),
      ...(isFlooded && { acceptRate, rate }),
      peakMb,
      faults: [
        ...faultsOfClient(client),
        ...faultsOfEndpoint(own, client.accepted),
        ...(isLimited && flooding.refusals.size === 0 ? ['the quota refused nothing'] : []),
        ...(isShort ? ['the flood ended too early'] : []),
      ],
    }
  } finally {
    isOver = true
    await client.close()
    await flooding.close()
  }
}
