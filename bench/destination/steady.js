// A steady load, and how long messages take from their post to their arrival at the healthy endpoints.
import { percentile } from '../measure.js'
import { CAP_MS } from '../produce.js'
import { faultsOfClient, faultsOfEndpoint } from './faults.js'
import { arrival, Client, flood, pace } from './load.js'
import { start } from './process.js'

const CONNECTIONS = 32
const WARM_UP_CONNECTIONS = 4

/**
 * @param {{ settings: object, folder: string, isProfiled: boolean, receiver: object, load: object,
 *   eventsPerSecond: number, warmUp: number, endpoints: number }} order `warmUp` is a number of messages that
 *   are sent at full speed first, `endpoints` are those that answer
 * @returns a flat record of figures, with faults
 */
export async function measureSteady(order) {
  const { settings, folder, isProfiled, receiver, load, eventsPerSecond, warmUp, endpoints } = order
  const running = await start('hookline', settings, { folder, isProfiled })
  const client = new Client(running.url, { connections: CONNECTIONS })
  try {
    await client.post(load, 0)
    const readyMs = performance.now() - running.startedAt

    const deadline = performance.now() + CAP_MS
    const from = warmUp / load.batchSize
    await flood(client, load, { from: 1, to: from, connections: WARM_UP_CONNECTIONS, deadline })
    await arrival(receiver, client.accepted * endpoints)

    const cpuBefore = running.cpuUs()
    await pace(client, load, { from, eventsPerSecond })
    await arrival(receiver, client.accepted * endpoints)
    const cpuUs = (running.cpuUs() - cpuBefore) / (load.count - warmUp)
    const rssMb = running.rssMb()
    const peakMb = running.peakRssMb()
    const stopFaults = await running.stop()

    const reports = await receiver.report(load.count)
    const latencies = reports.flatMap(({ arrivedAt }) =>
      [...arrivedAt]
        .map((at, seq) => at - client.sentAt[Math.floor(seq / load.batchSize)])
        .slice(warmUp),
    )
    return {
      readyMs,
      p50Ms: percentile(latencies, 0.5),
      p99Ms: percentile(latencies, 0.99),
      maxMs: percentile(latencies, 1),
      cpuUs,
      rssMb,
      peakMb,
      isCapped: client.sentAt.length < load.bodies.length,
      faults: [
        ...faultsOfClient(client),
        ...(reports.length === endpoints
          ? []
          : [`${reports.length} of ${endpoints} endpoints got something`]),
        ...reports.flatMap((report) => faultsOfEndpoint(report, load.count)),
        ...stopFaults,
      ],
    }
  } finally {
    await client.close()
    await running.kill()
  }
}
