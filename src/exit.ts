/** What to do for each client that has messages pending when the event loop runs dry. */
const drains = new Set<() => void>()
let isListening = false

/**
 * Runs `drain` if the script ends while it is registered. One listener serves all clients; none is ever
 * put on signals, exceptions or `exit`.
 */
export function drainAtExit(drain: () => void): void {
  drains.add(drain)
  if (isListening) return
  isListening = true
  const { process } = globalThis as { process?: Partial<NodeJS.Process> }
  process?.on?.('beforeExit', () => {
    for (const each of drains) each()
  })
}

export function noDrainAtExit(drain: () => void): void {
  drains.delete(drain)
}
