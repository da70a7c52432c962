// A service at 500 events a second: the CPU that tracking adds to it, and how long its calls take.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { faultsOf } from '../decode.js'
import { buildEvent } from '../event.js'
import { percentile, startCpu } from '../measure.js'
import { CAP_MS, finish } from '../produce.js'
import { LIMIT, NOOP } from '../subjects/index.js'

const RATE = 500
const TICK_MS = 20
const NS_A_MS = 1e6

/** Makes the calls that are due at each tick; a tick that comes late makes those it missed. */
async function track(subject, { from, count, latenciesUs }) {
  const start = performance.now()
  let made = 0
  while (made < count) {
    await sleep(TICK_MS)
    const due = Math.min(count, Math.floor(((performance.now() - start) * RATE) / 1000))
    for (; made < due; made += 1) {
      const event = buildEvent(from + made)
      const callStart = performance.now()
      subject.track(event)
      latenciesUs[made] = (performance.now() - callStart) * 1000
    }
  }
}

export default {
  name: 'steady',
  title: '500 events a second, flushAt 20',
  runs: 3,
  subjects: ['noop', 'limit', 'hookline', 'segment', 'rudderstack', 'posthog', 'amplitude'],
  size: { warmUp: 1_000, events: 7_500 },
  quickSize: { warmUp: 1_000, events: 4_000 },
  requires: [NOOP, LIMIT],
  ratios: ['addedCpu'],
  columns: [
    { head: 'added CPU x', ratio: 'addedCpu' },
    { head: 'added CPU %', value: 'addedCpu' },
    { head: 'CPU %', value: 'cpuPercent' },
    { head: 'call p50 µs', value: 'p50Us' },
    { head: 'p99 µs', value: 'p99Us' },
    { head: 'p99.9 µs', value: 'p999Us' },
    { head: 'max µs', value: 'maxUs' },
    { head: 'loop p99 ms', value: 'loopP99Ms' },
    { head: 'requests', value: 'requests' },
    { head: 'arrived', value: 'arrived' },
  ],
  targets: [
    { what: 'CPU added at 500 events/s', ratio: 'addedCpu', atMost: 1.5 },
    { what: 'p99 of a call at 500 events/s, µs', value: 'p99Us', atMost: 40 },
  ],

  async measure({ create, size, isNoop, ask }) {
    const subject = await create()
    await track(subject, { from: 0, count: size.warmUp, latenciesUs: [] })

    const latenciesUs = new Float64Array(size.events)
    const loop = monitorEventLoopDelay({ resolution: 10 })
    loop.enable()
    const start = performance.now()
    const readCpu = startCpu()
    await track(subject, { from: size.warmUp, count: size.events, latenciesUs })
    const cpuPercent = readCpu() / (performance.now() - start) / 10
    loop.disable()

    const deadline = performance.now() + CAP_MS
    const isFinished = await finish(subject.flush(), deadline)
    const expected = size.warmUp + size.events
    const found = await ask('report', { expected })
    return {
      cpuPercent,
      p50Us: percentile(latenciesUs, 0.5),
      p99Us: percentile(latenciesUs, 0.99),
      p999Us: percentile(latenciesUs, 0.999),
      maxUs: percentile(latenciesUs, 1),
      loopP99Ms: loop.percentile(99) / NS_A_MS,
      requests: found.requests,
      arrived: found.arrived,
      isCapped: !isFinished,
      faults: isNoop ? [] : faultsOf(found, expected),
    }
  },

  /** The noop of the same round is subtracted to get the CPU that a subject adds. */
  derive(records, round) {
    const base = records.get(NOOP)?.[round]?.cpuPercent
    for (const [subject, own] of records) {
      const record = own[round]
      if (record?.cpuPercent && subject !== NOOP) record.addedCpu = record.cpuPercent - base
    }
  },
}
