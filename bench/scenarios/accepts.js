// What the destination can take in while nothing goes out: its endpoint refuses connections, so that every
// message is stored whole, for later. The process is then killed, and what is stored is counted.
import { faultsOfClient } from '../destination/faults.js'
import { buildLoad, Client, flood, refusedUrl } from '../destination/load.js'
import { settingsOf, start } from '../destination/process.js'
import { runArms } from '../destination/rounds.js'
import { countUndelivered } from '../destination/store.js'
import { CAP_MS } from '../produce.js'
import { OURS } from '../subjects/index.js'

const CONNECTIONS = 16
const BATCH_SIZE = 20
const WARM_UP = 20_000
const EVENTS = 120_000
const QUICK_EVENTS = 60_000

const scenario = {
  name: 'accepts',
  title: `The destination: ${EVENTS.toLocaleString('en-US')} messages accepted in batches of ${BATCH_SIZE} while the endpoint is down, then kill -9`,
  runs: 3,
  subjects: [OURS],
  columns: [
    { head: 'accepted/s', value: 'rate' },
    { head: 'CPU µs/message', value: 'cpuUs' },
    { head: 'peak MB', value: 'peakMb' },
    { head: 'accepted', value: 'accepted' },
    { head: 'stored', value: 'stored' },
  ],
  targets: [
    { what: 'messages/s durably accepted', value: 'rate', atLeast: 20_000 },
    { what: 'accepted, but not stored', value: 'lost', atMost: 0 },
  ],

  async collect(options) {
    const { subjects, isQuick } = options
    const events = isQuick ? QUICK_EVENTS : EVENTS
    const load = await buildLoad({ count: WARM_UP + events, batchSize: BATCH_SIZE })
    const arms = subjects.map((subject) => ({ variant: '', subject }))
    return runArms(scenario, arms, options, ({ subject }, folder) =>
      measure({ subject, folder, load, events }),
    )
  },
}

export default scenario

async function measure({ subject, folder, load, events }) {
  const path = `${folder}/store.db`
  const settings = settingsOf(path, [{ name: 'crm', urls: [await refusedUrl()] }])
  const running = await start(subject, settings, { folder })
  const client = new Client(running.url, { connections: CONNECTIONS })
  const deadline = performance.now() + CAP_MS
  const post = (from, to) => flood(client, load, { from, to, connections: CONNECTIONS, deadline })

  const figures = {}
  try {
    await post(0, WARM_UP / BATCH_SIZE)
    const begin = performance.now()
    const cpuBefore = running.cpuUs()
    const acceptedBefore = client.accepted
    await post(WARM_UP / BATCH_SIZE, load.bodies.length)
    figures.rate = (client.accepted - acceptedBefore) / ((performance.now() - begin) / 1000)
    figures.cpuUs = (running.cpuUs() - cpuBefore) / events
    figures.peakMb = running.peakRssMb()
  } finally {
    await running.kill()
    await client.close()
  }
  const stored = await countUndelivered(path)
  const { accepted } = client
  return {
    ...figures,
    accepted,
    stored,
    isCapped: client.sentAt.length < load.bodies.length,
    lost: Math.max(0, accepted - stored),
    faults: [
      ...faultsOfClient(client),
      ...(stored > accepted ? [`${stored - accepted} stored twice`] : []),
    ],
  }
}
