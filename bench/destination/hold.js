// Holds a process to a share of a core, as a machine of its own would: beside the server and the endpoint, several workers would
// not have a core each. It stops and continues the process, which needs no rights and works wherever /proc does.
import { threadTimes } from './thread-times.js'

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
    if (nowUsedMs === undefined) return
    leftMs = Math.min(SAVED_MS, leftMs + (now - at) * share) - (nowUsedMs - (usedMs ?? nowUsedMs))
    ;[at, usedMs] = [now, nowUsedMs]
    signal(pid, leftMs > 0 ? 'SIGCONT' : 'SIGSTOP')
  }
  const timer = setInterval(look, LOOK_MS)
  return () => {
    clearInterval(timer)
    signal(pid, 'SIGCONT')
  }
}

/** The time that the threads of a process have run, in ms; `undefined` if one of them has just ended. */
function cpuMs(pid) {
  try {
    return Array.from(threadTimes(pid)).reduce((sum, { ranMs }) => sum + ranMs, 0)
  } catch {
    return undefined
  }
}

function signal(pid, name) {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}
