import { formatCount } from './table.js'

const { stdout } = process

/** Prints the counts until it is stopped: one line that changes on a terminal, else a new line each second. */
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
    // A wrapped line could not be overwritten, so the terminal is told to cut it.
    stdout.write(stdout.isTTY ? `\r\x1b[K\x1b[?7l${line}\x1b[?7h` : `${line}\n`)
  }
  const timer = setInterval(print, stdout.isTTY ? 100 : 1_000)
  return () => {
    clearInterval(timer)
    print()
    if (stdout.isTTY) stdout.write('\n')
  }
}
