// Holds a process to a share of a core, as a machine of its own would: beside the server and the endpoint, several workers would
// not have a core each. It stops and continues the process, which needs no rights and works wherever /proc does.
import { readdirSync, readFileSync } from 'node:fs'

/** How often it looks, in ms. */
const LOOK_MS = 20

/** The most that a process which was idle may use at once, in ms of a core. */
const SAVED_MS = 40

/**
 * @param {number} pid
 * @param {number} share of a core
 * @returns {() => void} ends it, and lets the process go on
 */
export function hold(pid, share) {
  let usedMs = cpuMs(pid)
  let at = performance.now()
  let leftMs = 0
  const look = () => {
    const [now, nowUsedMs] = [performance.now(), cpuMs(pid)]
    leftMs = Math.min(SAVED_MS, leftMs + (now - at) * share) - (nowUsedMs - usedMs)
    ;[at, usedMs] = [now, nowUsedMs]
    signal(pid, leftMs > 0 ? 'SIGCONT' : 'SIGSTOP')
  }
  const timer = setInterval(look, LOOK_MS)
  return () => {
    clearInterval(timer)
    signal(pid, 'SIGCONT')
  }
}

/** The time that the threads of a process have run, in ms. `/proc/PID/stat` counts only in steps of 10 ms. */
function cpuMs(pid) {
  const folder = `/proc/${pid}/task`
  try {
    const times = readdirSync(folder).map((id) => readFileSync(`${folder}/${id}/schedstat`, 'utf8'))
    return times.reduce((sum, text) => sum + Number.parseInt(text, 10) / 1e6, 0)
  } catch {
    return Infinity
  }
}

function signal(pid, name) {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}
