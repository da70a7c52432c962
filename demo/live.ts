import type { Stats } from 'hookline'
import type { EndpointState } from './collector.js'
import { formatCount, formatState } from './table.js'

const { stdout } = process

/** Says how things stand until it is stopped: in one line that changes, or a line a second for logs. */
export function startLive(
  read: () => { state: EndpointState; answered: number; stats: Stats },
): () => void {
  const startedMs = performance.now()
  const print = () => {
    const { state, answered, stats } = read()
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1)
    const line = [
      `${seconds.padStart(5)} s`,
      `requests ${formatCount(answered).padStart(5)}`,
      `accepted ${formatCount(stats.accepted).padStart(5)}`,
      `pending ${formatCount(stats.pending).padStart(5)}`,
      `endpoint ${formatState(state)}`,
    ].join('  ')
    stdout.write(stdout.isTTY ? `\r\x1b[K${line}` : `${line}\n`)
  }
  const timer = setInterval(print, stdout.isTTY ? 100 : 1_000)
  return () => {
    clearInterval(timer)
    print()
    if (stdout.isTTY) stdout.write('\n')
  }
}
