// How long processes waited for a CPU. On a machine that is busy with other work, everything is later by that.
import { threadTimes } from '../../bench/destination/thread-times.js'

/** How long the threads of a process have waited for a CPU, in ms; 0 where the system does not say it. */
export function waitedMs(pid) {
  let sum = 0
  try {
    for (const { waitedMs } of threadTimes(pid)) sum += waitedMs
  } catch {
    // It is not Linux, or a thread has just ended.
  }
  return sum
}
