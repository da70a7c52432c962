// 200,000 events to the collector: CPU and memory of all of it, each event exactly once.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { faultsOf } from '../decode.js'
import { peakRssMb, rssMb, startCpu } from '../measure.js'
import { CAP_MS, finish, produce } from '../produce.js'
import { LIMIT } from '../subjects/index.js'

const NS_A_MS = 1e6

export default {
  name: 'e2e',
  title: '200,000 events delivered exactly once',
  runs: 3,
  subjects: ['limit', 'hookline', 'segment', 'rudderstack', 'posthog', 'amplitude'],
  variants: [
    { name: 'flushAt 20', flushAt: 20 },
    { name: 'flushAt 500', flushAt: 500 },
  ],
  size: 200_000,
  quickSize: 100_000,
  requires: [LIMIT],
  ratios: ['cpuUs'],
  columns: [
    { head: 'CPU x', ratio: 'cpuUs' },
    { head: 'CPU µs/event', value: 'cpuUs' },
    { head: 'peak MB', value: 'peakMb' },
    { head: '(start)', value: 'startMb' },
    { head: 'events/s', value: 'rate' },
    { head: 'requests', value: 'requests' },
    { head: 'bytes/event', value: 'bytes' },
    { head: 'sockets', value: 'sockets' },
    { head: 'loop max ms', value: 'loopMaxMs' },
    { head: 'arrived', value: 'arrived' },
  ],
  targets: [
    {
      variant: 'flushAt 20',
      what: 'CPU per event delivered, default settings',
      ratio: 'cpuUs',
      atMost: 1.3,
    },
    {
      variant: 'flushAt 20',
      what: 'peak memory, default settings, MB',
      value: 'peakMb',
      atMost: 115,
    },
    {
      variant: 'flushAt 500',
      what: 'CPU per event delivered, flushAt 500',
      ratio: 'cpuUs',
      atMost: 1.1,
    },
    { variant: 'flushAt 500', what: 'peak memory, flushAt 500, MB', value: 'peakMb', atMost: 115 },
  ],

  async measure({ create, variant, size, ask }) {
    const subject = await create({ flushAt: variant.flushAt, raisedCaps: true })
    const startMb = rssMb()
    const loop = monitorEventLoopDelay({ resolution: 10 })
    loop.enable()

    const start = performance.now()
    const deadline = start + CAP_MS
    const readCpu = startCpu()
    const { made } = await produce(subject, { count: size, deadline })
    const isFinished = await finish(subject.flush(), deadline)
    const cpuUs = readCpu()
    const seconds = (performance.now() - start) / 1000
    loop.disable()
    const peakMb = peakRssMb()

    const isCapped = !isFinished || made < size
    const found = await ask('report', { expected: made })
    return {
      cpuUs: cpuUs / found.arrived,
      peakMb,
      startMb,
      rate: found.arrived / seconds,
      requests: found.requests,
      bytes: found.bytes / found.arrived,
      sockets: found.sockets,
      loopMaxMs: loop.max / NS_A_MS,
      arrived: found.arrived,
      isCapped,
      faults: isCapped ? [] : faultsOf(found, size),
    }
  },
}
