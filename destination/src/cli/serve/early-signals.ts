/**
 * Takes the signals that come while `serve` is loaded and has not read its settings. SIGHUP would end the process, although it
 * asks for nothing more than to read them. To stop is no failure then.
 */
export function takeSignals([command, ...options]: string[]): void {
  if (command !== 'serve' || options.includes('--check')) return
  process.on('SIGHUP', ignore).on('SIGTERM', end).on('SIGINT', end)
}

/** Leaves the signals to others, who must listen already. */
export function leaveSignals(signals: readonly NodeJS.Signals[]): void {
  for (const signal of signals) process.off(signal, ignore).off(signal, end)
}

function ignore(): void {
  // The settings are read afterwards.
}

function end(): never {
  process.exit(0)
}
