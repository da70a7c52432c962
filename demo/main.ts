// An end-to-end demo with real processes and real failures: an Express app, the destination and two receivers.
// `npm run demo` shows that nothing is lost. It exits with 0 only if the books of all parts agree.
// `npm run demo -- --forget 50` shows how the demo fails if a receiver loses messages.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs, styleText } from 'node:util'
import { Analytics, type DeliveredReport } from 'hookline'
import { createApp, type Plan } from './app.js'
import { compare, type AppBooks, type ReceiverBooks } from './compare.js'
import { startDestination } from './destination-process.js'
import { startLive } from './live.js'
import { REQUESTS, runLoad, type LoadBooks } from './load.js'
import { runOutages } from './outages.js'
import { startReceiver } from './receiver-process.js'
import { splitByStretch, type Stretch, type Timing } from './stretches.js'
import { comparisonTable, formatCount, formatStretch, latencyTable } from './table.js'
import { witness } from './witness.js'

const WRITE_KEY = 'demo-write-key'
const SHARED_SECRET = 'demo-shared-secret'

/** The demo stops waiting when nothing has arrived for this time, in ms. It is longer than the first retry delays: 2, 5 and 15 s. */
const PATIENCE_MS = 20_000

/** How often the destination may be stopped and started again until all deliveries are done: about half a minute. */
const MAX_ROUNDS = 20

const { forget } = parseArgs({ options: { forget: { type: 'string' } } }).values
if (forget !== undefined && !/^[1-9]\d*$/.test(forget)) {
  throw new TypeError(`--forget: expected a whole number from 1, got ${JSON.stringify(forget)}.`)
}

console.log(
  `${formatCount(REQUESTS)} requests go to an Express app that records its users with hookline. The\n` +
    'destination stores each call, signs it, and forwards it to two receivers: the crm and\n' +
    'the warehouse. The crm answers 503 for 1 s, then closes its port for 2 s. Later the\n' +
    'destination is killed with -9, and started again. The app must not notice this, and\n' +
    'nothing may be lost.\n',
)
const folder = mkdtempSync(join(tmpdir(), 'hookline-demo-'))
const [crm, warehouse] = await Promise.all([
  startReceiver(SHARED_SECRET, []),
  startReceiver(SHARED_SECRET, forget === undefined ? [] : ['--forget', forget]),
])
const settings = {
  sources: [{ name: 'app', writeKey: WRITE_KEY }],
  destinations: Object.entries({ crm, warehouse }).map(([name, { url }]) => ({
    name,
    sources: ['app'],
    sharedSecret: SHARED_SECRET,
    webhooks: [{ url }],
  })),
  allowNetworks: ['127.0.0.0/8'], // the receivers are on this machine
}
const destination = await startDestination(folder, settings)

const app: AppBooks = { called: new Map(), stored: [] }
const reports: DeliveredReport[] = []
const analytics = new Analytics<Plan>(WRITE_KEY, {
  endpoint: destination.url,
  onDelivered: (report) => reports.push(report),
})
const server = createApp(witness(analytics, app)).listen(0, '127.0.0.1')
await once(server, 'listening')
const appUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const load: LoadBooks = { answered: [], failed: 0 }
const stretches: Stretch[] = []
const stopLive = startLive(() => {
  const { accepted, delivered } = analytics.stats()
  return {
    state: formatStretch(stretches.at(-1)?.name ?? 'warming up'),
    counts: {
      requests: load.answered.length,
      calls: accepted,
      stored: delivered,
      crm: crm.answered(),
      warehouse: warehouse.answered(),
    },
  }
})
await Promise.all([
  runLoad(appUrl, load),
  runOutages(crm, destination, (name) => stretches.push({ name, fromMs: Date.now() })),
])
server.close()
await analytics.close()
await untilArrived(app.called.size)
stopLive()

const { exitCode, deliveries } = await stopDestination()
const receivers = { crm: await crm.close(), warehouse: await warehouse.close() }
const lines = compare(app, { stats: analytics.stats(), reports }, deliveries, receivers)

const timesOfApp = splitByStretch(stretches, load.answered)
const timesTo = (books: ReceiverBooks) => splitByStretch(stretches, timingsOf(app, books))
const columns = [
  { title: 'app p50', part: 0.5, split: timesOfApp },
  { title: 'app p99', part: 0.99, split: timesOfApp },
  { title: 'crm p99', part: 0.99, split: timesTo(receivers.crm) },
  { title: 'warehouse p99', part: 0.99, split: timesTo(receivers.warehouse) },
]
console.log(
  '\nHow long the app took to answer, and how long its calls took to the crm and the\n' +
    `warehouse, by the state at their start:\n${latencyTable(stretches, columns)}\n\n` +
    `${comparisonTable(lines)}\n`,
)

const faults = lines
  .filter(({ isRight }) => isRight === false)
  .map(({ about, what }) => `${about}: ${what}`)
if (load.failed > 0) faults.push(`${load.failed} requests to the app failed`)
if (exitCode !== 0) faults.push(`the destination did not stop cleanly: exit code ${exitCode}`)
if (faults.length === 0) {
  rmSync(folder, { recursive: true })
  console.log(styleText('green', '✓ All parts agree, and nothing was lost.'))
} else {
  for (const fault of faults) console.log(styleText('red', `✗ ${fault}`))
  console.log(`\nThe destination's log, settings and store are in ${folder}.`)
  process.exitCode = 1
}

/** Resolves when both receivers have this number of messages, or when no more messages arrive. */
async function untilArrived(messages: number): Promise<void> {
  let before = -1
  let lastMs = performance.now()
  while (performance.now() - lastMs < PATIENCE_MS) {
    const [atCrm, atWarehouse] = [crm.answered(), warehouse.answered()]
    if (Math.min(atCrm, atWarehouse) >= messages) return
    if (atCrm + atWarehouse > before) lastMs = performance.now()
    before = atCrm + atWarehouse
    await setTimeout(100)
  }
}

/**
 * Stops the destination, and reads its store. Messages that were in flight at the kill may still be in the backlog,
 * behind the messages that waited for the crm. Then the destination is started again to send them.
 */
async function stopDestination() {
  for (let round = 1; ; round++) {
    const exitCode = await destination.end('SIGTERM')
    const deliveries = await destination.read(app.called.keys())
    const isWaiting = deliveries.some(({ state }) => state === 'fresh' || state === 'backlog')
    if (!isWaiting || exitCode !== 0 || round === MAX_ROUNDS) return { exitCode, deliveries }
    await destination.start()
    await setTimeout(1_000)
  }
}

/** The time from each call to the first arrival of its message. */
function timingsOf({ called }: AppBooks, { received }: ReceiverBooks): Timing[] {
  const firsts = new Map(received.toReversed().map(({ id, atMs }) => [id, atMs]))
  return [...called].flatMap(([id, { atMs }]) => {
    const arrivedMs = firsts.get(id)
    return arrivedMs === undefined ? [] : [{ atMs, tookMs: arrivedMs - atMs }]
  })
}
