// What the threads of a process have done with their time, as Linux counts it.
import { readdirSync, readFileSync } from 'node:fs'

const MS = 1e6

/**
 * How long each thread has run, and has waited for a CPU, in ms. It throws where the system does not say it, or if a thread ends
 * meanwhile. `/proc/PID/stat` has the first of them too, but only in steps of 10 ms.
 *
 * Source: https://docs.kernel.org/scheduler/sched-stats.html, "/proc/<pid>/schedstat"
 */
export function* threadTimes(pid) {
  const folder = `/proc/${pid}/task`
  for (const thread of readdirSync(folder)) {
    const text = readFileSync(`${folder}/${thread}/schedstat`, 'utf8')
    const [ran, waited] = text.split(' ').map(Number)
    yield { ranMs: ran / MS, waitedMs: waited / MS }
  }
}
