// Measures what filters cost per call: deciding where a call goes, beside making the body of the call. The rules take turns,
// and every ratio is of the same run.
//
//   node bench/destination/filter-cost.js [DIST] [--calls 200000] [--runs 15]
//
// DIST is the compiled destination.
import { fileURLToPath, pathToFileURL } from 'node:url'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { buildEvent } from '../event.js'
import { destination } from './libraries.js'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    calls: { type: 'string', default: '200000' },
    runs: { type: 'string', default: '15' },
  },
})
const [count, runs] = [flags.calls, flags.runs].map(Number)
const dist = resolve(positionals[0] ?? fileURLToPath(new URL('dist', destination)))
const load = (path) => import(pathToFileURL(`${dist}/${path}.js`).href)
const { route, routesOf } = await load('enqueue/route')
const { webhookBody } = await load('enqueue/webhook-body')

/** Calls as the collector makes them: each is an object of its own, from JSON. */
const calls = Array.from({ length: 5_000 }, (_, i) => {
  const { context, ...event } = JSON.parse(JSON.stringify(buildEvent(i)))
  const app = { name: i % 2 === 0 ? 'shop' : 'office' }
  const properties = { ...event.properties, total: i % 200, currency: i % 3 === 0 ? 'USD' : 'EUR' }
  return {
    ...{
      type: 'track',
      messageId: `m${i}`,
      timestamp: '2026-01-02T03:04:05.678Z',
      userId: `u${i}`,
    },
    ...{ event: `Order ${i % 50}`, properties, context: { ...context, app } },
  }
})

const deny = Array.from({ length: 1_000 }, (_, i) => `Page ${i}`)
const where = {
  'properties.total': { $gte: 100 },
  'context.app.name': { $in: ['shop', 'store'] },
  $or: [{ 'properties.currency': 'EUR' }, { 'properties.vip': true }],
}
/** The filters of a destination. All calls pass those that only have patterns. */
const arms = {
  'no filters': undefined,
  'a type, and one pattern to allow': [{ types: ['track'], events: { allow: ['Order *'] } }],
  '1,000 names to deny': [{ events: { deny } }],
  'one condition': [{ where: { 'properties.total': { $gte: 100 } } }],
  'three conditions, one with $or': [{ where }],
}

const work = {}
for (const [name, filters] of Object.entries(arms)) {
  const one = { name: 'crm', sources: ['web'], enabled: true, filters, webhooks: [] }
  const routes = await routesOf({ sources: [{ name: 'web' }], destinations: [one] })
  work[name] = (call) => route('web', call, routes).to.length
}
work['the body of the call'] = (call) => webhookBody(call).length

/** @returns the ns of CPU of this process per call. */
function measure(act) {
  let sum = 0
  const from = process.cpuUsage().user
  for (let i = 0; i < count; i++) sum += act(calls[i % calls.length])
  const ns = ((process.cpuUsage().user - from) * 1_000) / count
  if (sum < 0) throw new Error('never: the sum only keeps the work from being optimized away')
  return ns
}

const costs = Object.fromEntries(Object.keys(work).map((name) => [name, []]))
for (let run = -3; run < runs; run++) {
  for (const [name, act] of Object.entries(work)) {
    const ns = measure(act)
    if (run >= 0) costs[name].push(ns)
  }
}
const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]
const bodies = costs['the body of the call']
for (const [name, all] of Object.entries(costs)) {
  const ratio = median(all.map((ns, run) => ns / bodies[run]))
  console.log(`${name.padEnd(34)} ${median(all).toFixed(0).padStart(6)} ns   × ${ratio.toFixed(2)}`)
}
