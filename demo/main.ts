// A real application, real requests, and an endpoint that goes away: `npm run demo` shows that nothing is
// lost, and exits 0 only if both ends' books say so. `npm run demo -- --forget 50` shows it fail.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { styleText } from 'node:util'
import { Analytics, type DeliveredReport } from 'hookline'
import { createApp, type Plan } from './app.js'
import { startCollector } from './collector-process.js'
import { compare } from './compare.js'
import { startLive } from './live.js'
import { REQUESTS, runLoad, type LoadBooks } from './load.js'
import { comparisonTable, formatCount, latencyTable } from './table.js'
import { Witness } from './witness.js'

const collector = await startCollector(process.argv.slice(2))
const reports: DeliveredReport[] = []
const analytics = new Analytics<Plan>('DEMO_WRITE_KEY', {
  endpoint: collector.endpoint,
  onDelivered: (report) => reports.push(report),
})
const witness = new Witness(analytics, reports)
const server = createApp(witness).listen(0, '127.0.0.1')
await once(server, 'listening')
const appUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

console.log(
  `${formatCount(REQUESTS)} requests to an Express app that records its users with hookline. The\n` +
    'endpoint answers 500 for 2 s, then closes its port for 2 s: the app must not\n' +
    'notice, and nothing may be lost.\n',
)
const load: LoadBooks = { answered: 0, failed: 0, stretches: [] }
const stopLive = startLive(() => ({
  state: collector.state(),
  answered: load.answered,
  stats: analytics.stats(),
}))
collector.startOutageScript()
await runLoad(appUrl, collector.state, load)
server.close()
await analytics.close()
stopLive()

const lines = compare(witness.books(), await collector.close())
console.log(`\n${latencyTable(load)}\n${comparisonTable(lines)}\n`)
const wrong = lines.filter(({ isRight }) => isRight === false)
for (const { about, what, app = '–', collector = '–' } of wrong) {
  console.log(
    styleText('red', `✗ ${about}, ${what}: ${app} at the app, ${collector} at the collector`),
  )
}
if (load.failed > 0) console.log(styleText('red', `✗ ${load.failed} requests to the app failed`))
if (wrong.length > 0 || load.failed > 0) process.exitCode = 1
else console.log(styleText('green', '✓ Both ends agree, and nothing was lost.'))
