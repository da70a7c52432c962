// The endpoint goes away while 500,000 events are produced, and comes back.
//
// Before: warm-up with the collector up, which also gives the calls' usual latency. Outage: 20 calls
// a loop turn; when 60,000 events are queued, what they hold in memory after a full collection. Then
// the endpoint is back, close() is called, and the clock runs until the last event of the backlog.
// Every event has to be accounted for: arrived or reported lost.
import { setTimeout as sleep } from 'node:timers/promises'
import { faultsOf } from '../decode.js'
import { buildEvent } from '../event.js'
import { heldBytes, peakRssMb, percentile, rssMb, turn } from '../measure.js'
import { CAP_MS, finish, produce } from '../produce.js'

const CALLS_A_TURN = 20
const COUNTED_MS = 5_000
const MB = 1024 * 1024
/** hookline's default `maxQueueBytes`. */
const CAP_MB = 64

const meanEventBytes = () => {
  const envelope = JSON.stringify({
    type: 'track',
    messageId: '00000000-0000-4000-8000-000000000000',
    timestamp: new Date(0).toISOString(),
    context: { library: { name: 'hookline', version: '1.0.0' } },
  }).length
  const SAMPLE = 10_000
  let bytes = 0
  for (let index = 0; index < SAMPLE; index += 1) {
    bytes += JSON.stringify(buildEvent(20_000 + index * 6)).length
  }
  // The braces of one of the two fall away and a comma joins them.
  return envelope - 1 + bytes / SAMPLE
}

async function produceInOutage(subject, { from, count, weighAt, base, deadline }) {
  const latenciesUs = new Float64Array(count)
  const weighed = {}
  let maxPendingBytes = 0
  let made = 0
  while (made < count && performance.now() < deadline) {
    const turnEnd = Math.min(made + CALLS_A_TURN, count)
    for (; made < turnEnd; made += 1) {
      const event = buildEvent(from + made)
      const callStart = performance.now()
      subject.track(event)
      latenciesUs[made] = (performance.now() - callStart) * 1000
    }
    await turn()
    maxPendingBytes = Math.max(maxPendingBytes, subject.pendingBytes?.() ?? 0)
    if (made >= weighAt && !weighed.queued) {
      weighed.queued = subject.pending()
      weighed.rssMb = rssMb() - base.rssMb
      weighed.held = (await heldBytes()) - base.held - latenciesUs.byteLength
    }
  }
  return { made, latenciesUs: latenciesUs.subarray(0, made), weighed, maxPendingBytes }
}

export default {
  name: 'outage',
  title: 'Outage while 500,000 events are produced, then back',
  runs: 3,
  peerRuns: 1,
  subjects: ['hookline', 'segment', 'rudderstack', 'posthog', 'amplitude'],
  variants: [
    { name: 'port closed', command: 'refuse' },
    { name: 'every connection reset', command: 'reset' },
  ],
  execArgv: ['--expose-gc'],
  size: { warmUp: 20_000, events: 500_000, weighAt: 60_000 },
  quickSize: { warmUp: 20_000, events: 200_000, weighAt: 60_000 },
  columns: [
    { head: 'queued at weighing', value: 'queued' },
    { head: 'held / JSON bytes', value: 'heldRatio' },
    { head: 'RSS grown MB', value: 'grownMb' },
    { head: 'peak MB', value: 'peakMb' },
    { head: 'held at end MB', value: 'heldEndMb' },
    { head: 'call p50 µs before', value: 'p50BeforeUs' },
    { head: 'p50 in outage', value: 'p50Us' },
    { head: 'p99 µs before', value: 'p99BeforeUs' },
    { head: 'p99 in outage', value: 'p99Us' },
    { head: 'connections in 5 s', value: 'attempts' },
    { head: 'made', value: 'made' },
    { head: 'arrived', value: 'arrived' },
    { head: 'reported lost', value: 'reported' },
    { head: 'silently lost', value: 'silent' },
    { head: 'twice', value: 'duplicated' },
    { head: 'backlog out s', value: 'backlogS' },
  ],
  targets: ['port closed', 'every connection reset'].flatMap((variant) => [
    { variant, what: 'memory of queued events, x their JSON', value: 'heldRatio', atMost: 1.6 },
    {
      variant,
      what: 'memory held at the end, x the cap of 64 MiB',
      value: 'heldOfCap',
      atMost: 1.6,
    },
    { variant, what: 'p50 of a call, x that before', value: 'p50Ratio', atMost: 1.2 },
    { variant, what: 'p99 of a call in the outage, µs', value: 'p99Us', atMost: 40 },
    ...(variant === 'port closed'
      ? []
      : [{ variant, what: 'requests in 5 s', value: 'attempts', atMost: 5 }]),
    { variant, what: 'backlog out after the return, s', value: 'backlogS', atMost: 5 },
    { variant, what: 'events lost without a report', value: 'silent', atMost: 0 },
  ]),

  async measure({ create, variant, size, ask }) {
    const subject = await create()
    const before = new Float64Array(size.warmUp / 2)
    await produce(subject, { count: size.warmUp / 2 })
    const timed = {
      ...subject,
      track(event) {
        const callStart = performance.now()
        subject.track(event)
        before[event.properties.seq - size.warmUp / 2] = (performance.now() - callStart) * 1000
      },
    }
    await produce(timed, { from: size.warmUp / 2, count: size.warmUp / 2 })
    await finish(subject.flush(), performance.now() + CAP_MS)

    const base = { held: await heldBytes(), rssMb: rssMb() }
    await ask(variant.command)
    const downAt = Date.now()
    const outage = await produceInOutage(subject, {
      from: size.warmUp,
      count: size.events,
      weighAt: size.weighAt,
      base,
      deadline: performance.now() + CAP_MS,
    })
    await sleep(Math.max(0, downAt + COUNTED_MS - Date.now()))
    const peakMb = peakRssMb()
    const heldEnd = (await heldBytes()) - base.held - size.events * Float64Array.BYTES_PER_ELEMENT

    await ask('up')
    const upAt = Date.now()
    const isClosed = await finish(subject.close(), performance.now() + CAP_MS)
    const closedAt = Date.now()

    const produced = size.warmUp + outage.made
    const found = await ask('report', { expected: produced })
    const reported = subject.reportedLost()
    const silent = produced - found.arrived - reported
    const eventBytes = meanEventBytes()
    const { queued, rssMb: grownMb, held } = outage.weighed
    const p50BeforeUs = percentile(before, 0.5)
    const p50Us = percentile(outage.latenciesUs, 0.5)
    return {
      queued,
      heldRatio: queued > 0 ? held / (queued * eventBytes) : undefined,
      grownMb,
      peakMb,
      heldEndMb: heldEnd / MB,
      heldOfCap: heldEnd / MB / CAP_MB,
      p50BeforeUs,
      p50Us,
      p50Ratio: p50Us / p50BeforeUs,
      p99BeforeUs: percentile(before, 0.99),
      p99Us: percentile(outage.latenciesUs, 0.99),
      attempts:
        variant.command === 'reset'
          ? found.attemptsAt.filter((at) => at < downAt + COUNTED_MS).length
          : undefined,
      made: produced,
      arrived: found.arrived,
      reported,
      silent,
      duplicated: found.duplicated,
      maxPendingMb: outage.maxPendingBytes / MB,
      backlogS: (Math.max(found.lastArrivalAt, closedAt) - upAt) / 1000,
      isCapped: outage.made < size.events || !isClosed,
      // Missing events are this scenario's figures, not a fault of the run.
      faults: [
        ...faultsOf({ ...found, arrived: produced, duplicated: 0 }, produced),
        ...(silent < 0 ? [`${-silent} events both arrived and reported lost`] : []),
      ],
    }
  },
}
