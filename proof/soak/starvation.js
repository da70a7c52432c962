// How long processes waited for a CPU. On a machine that is busy with other work, everything is later by that.
import { readdirSync, readFileSync } from 'node:fs'

const MS = 1e6

/** How long the threads of a process have waited for a CPU, in ms; 0 where the system does not say it. */
export function waitedMs(pid) {
  let ns = 0
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      // https://docs.kernel.org/scheduler/sched-stats.html: time on the CPU, time waiting for it, time slices
      ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[1])
    }
  } catch {
    // It is not Linux, or a thread has just ended.
  }
  return ns / MS
}
