// One clock for all processes of a round: it does not jump, and each process reads the same one.

/** Milliseconds of the machine's monotonic clock. */
export const clock = () => Number(process.hrtime.bigint() / 1_000n) / 1_000

const TICK_MS = 20
const STALL_MS = 50

/** Tells of each time in which this process did not get its turn: a busy machine, or a freeze. */
export function watchStalls(tell) {
  let last = clock()
  setInterval(() => {
    const now = clock()
    const lateMs = now - last - TICK_MS
    if (lateMs > STALL_MS) tell({ kind: 'stall', from: last, until: now })
    last = now
  }, TICK_MS).unref()
}
