// A burst: 100,000 calls in one synchronous loop, then how long the event loop is
// blocked while all of it goes out to the collector. The longest single block counts, measured from
// the loop's end and then between one turn of the event loop and the next.
import { faultsOf } from '../decode.js'
import { buildEvent } from '../event.js'
import { turn } from '../measure.js'
import { CAP_MS, finish } from '../produce.js'

/** The synchronous part; one of the peers needs minutes for the whole of it. */
const LOOP_CAP_MS = 10_000
const CALLS_BETWEEN_LOOKS = 100

export default {
  name: 'tight',
  title: '100,000 calls in one synchronous loop, delivered',
  runs: 5,
  subjects: ['limit', 'hookline', 'segment', 'rudderstack', 'posthog', 'amplitude'],
  size: 100_000,
  quickSize: 100_000,
  ratios: ['callUs'],
  columns: [
    { head: 'loop blocked afterwards ms', value: 'blockedMs' },
    { head: 'first block ms', value: 'firstBlockMs' },
    { head: 'a call µs', value: 'callUs' },
    { head: 'a call x', ratio: 'callUs' },
    { head: 'calls made', value: 'made' },
    { head: 'delivered after ms', value: 'deliveredMs' },
  ],
  targets: [{ what: 'event loop blocked after 100,000 calls, ms', value: 'blockedMs', atMost: 20 }],

  async measure({ create, size, ask }) {
    const subject = await create({ raisedCaps: true })

    const start = performance.now()
    let made = 0
    while (made < size) {
      subject.track(buildEvent(made))
      made += 1
      if (made % CALLS_BETWEEN_LOOKS === 0 && performance.now() - start > LOOP_CAP_MS) break
    }
    const loopEnd = performance.now()

    const deadline = loopEnd + CAP_MS
    let last = loopEnd
    let firstBlockMs
    let blockedMs = 0
    do {
      await turn()
      const now = performance.now()
      firstBlockMs ??= now - last
      blockedMs = Math.max(blockedMs, now - last)
      last = now
    } while (subject.pending() > 0 && last < deadline)
    const isFinished = await finish(subject.flush(), deadline)

    const isCapped = made < size || !isFinished
    const found = await ask('report', { expected: made })
    return {
      blockedMs,
      firstBlockMs,
      callUs: ((loopEnd - start) * 1000) / made,
      made,
      deliveredMs: last - loopEnd,
      isCapped,
      faults: isCapped ? [] : faultsOf(found, made),
    }
  },
}
