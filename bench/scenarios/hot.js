// What a call costs: build, id, stringify, queue, batch. The transport is stubbed.
import { eventsIn } from '../decode.js'
import { startCpu } from '../measure.js'
import { CAP_MS, finish, produce } from '../produce.js'
import { LIMIT } from '../subjects/index.js'
import { createStub } from '../subjects/stub.js'

/**
 * Decoding every body would be most of the work, so that only the warm-up's are: after it, the bytes
 * an event have to stay what they were. Gzip does better the more events a body happens to have.
 */
const toleranceOf = (bytesAnEvent) => (bytesAnEvent < 200 ? 0.15 : 0.01)

export default {
  name: 'hot',
  title: 'A call in a loop: 20 calls a loop turn, transport stubbed',
  runs: 5,
  subjects: ['noop', 'limit', 'hookline', 'segment', 'rudderstack', 'posthog', 'amplitude'],
  size: { warmUp: 20_000, events: 100_000 },
  quickSize: { warmUp: 10_000, events: 40_000 },
  requires: [LIMIT],
  ratios: ['cpuUs', 'insideUs'],
  columns: [
    { head: 'CPU x', ratio: 'cpuUs' },
    { head: 'CPU µs/event', value: 'cpuUs' },
    { head: 'inside the call x', ratio: 'insideUs' },
    { head: 'inside the call µs', value: 'insideUs' },
    { head: 'bytes/event', value: 'bytes' },
  ],
  targets: [{ what: 'CPU of a call, transport stubbed', ratio: 'cpuUs', atMost: 1.2 }],

  async measure({ create, size, isNoop }) {
    const stub = createStub()
    const subject = await create({ stub, raisedCaps: true })

    stub.kept = []
    await produce(subject, { count: size.warmUp })
    await finish(subject.flush(), performance.now() + CAP_MS)
    const checked = stub.kept.flatMap((body) => eventsIn(body)).length
    const checkedBytes = stub.bytes / checked
    stub.kept = undefined
    stub.bytes = 0

    const deadline = performance.now() + CAP_MS
    const readCpu = startCpu()
    const { made, insideMs } = await produce(subject, {
      from: size.warmUp,
      count: size.events,
      deadline,
    })
    const isFinished = await finish(subject.flush(), deadline)
    const cpuUs = readCpu()

    const isCapped = !isFinished || made < size.events
    const bytes = stub.bytes / made
    const faults = []
    if (!isNoop) {
      if (checked !== size.warmUp) faults.push(`${checked} of ${size.warmUp} events sent`)
      if (!isCapped && Math.abs(bytes / checkedBytes - 1) > toleranceOf(checkedBytes)) {
        faults.push(
          `${Math.round(bytes)} bytes an event sent, expected ${Math.round(checkedBytes)}`,
        )
      }
    }
    return {
      cpuUs: cpuUs / made,
      insideUs: (insideMs * 1000) / made,
      bytes: isNoop ? undefined : bytes,
      isCapped,
      faults,
    }
  },
}
