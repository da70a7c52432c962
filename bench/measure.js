// The measuring instruments. CPU is that of the whole process, user and system, with its garbage
// collection and compiler threads.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const MB = 1024 * 1024

/** The time in ms on a clock that all processes and threads of the machine share. */
export function sharedNow() {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1e3 + nanoseconds / 1e6
}

/** Waits for one turn of the event loop. */
export const turn = () => new Promise(setImmediate)

/** Starts a stopwatch of the process's CPU time; reading it gives microseconds. */
export function startCpu() {
  const start = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(start)
    return user + system
  }
}

/**
 * Highest resident memory of this process so far, in MB. The kernel's own mark needs no sampling and
 * misses no peak; `maxRSS`, the way to it elsewhere, may still hold the parent's from before exec.
 */
export function peakRssMb() {
  try {
    const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))
    return Number(kilobytes) / 1024
  } catch {
    return process.resourceUsage().maxRSS / 1024
  }
}

export const rssMb = () => process.memoryUsage.rss() / MB

/** Bytes that the process retains: V8's heap and buffers after a full collection. */
export async function heldBytes() {
  // Buffers are freed one turn later than the objects that owned them.
  for (let pass = 0; pass < 2; pass += 1) {
    globalThis.gc()
    await sleep(20)
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const ascending = (values) => values.slice().sort((a, b) => a - b)

/** The quantile: the value that this share (0 to 1) of the values does not exceed. */
export function percentile(values, share) {
  const sorted = ascending(values)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)]
}

export function median(values) {
  const sorted = ascending(values)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
