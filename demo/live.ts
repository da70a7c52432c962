import { formatCount } from './table.js'

const { stdout } = process

/** Says how things stand until it is stopped: in one line that changes, or a line a second for logs. */
export function startLive(read: () => { state: string; counts: Record<string, number> }) {
  const startedMs = performance.now()
  const names = Object.keys(read().counts)
  stdout.write(`${['  time', ...names.map((name) => name.padStart(6))].join('  ')}\n`)

  const print = () => {
    const { state, counts } = read()
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1)
    const columns = names.map((name) =>
      formatCount(counts[name]).padStart(Math.max(6, name.length)),
    )
    const line = [`${seconds} s`.padStart(6), ...columns, state].join('  ')
    // A line that wraps could not be written over: the terminal cuts it instead.
    stdout.write(stdout.isTTY ? `\r\x1b[K\x1b[?7l${line}\x1b[?7h` : `${line}\n`)
  }
  const timer = setInterval(print, stdout.isTTY ? 100 : 1_000)
  return () => {
    clearInterval(timer)
    print()
    if (stdout.isTTY) stdout.write('\n')
  }
}
