import { createHook } from 'node:async_hooks'
import { onTestFinished } from 'vitest'

/**
 * Watches the timers and servers that are made from now on until the end of the test.
 *
 * @returns where those were made that still run: timers of the destination's code, and any server.
 */
export function watchLeftovers(): () => string[] {
  const left = new Map<number, string>()
  const hook = createHook({
    init: (id, type) => {
      if (['Timeout', 'TCPSERVERWRAP'].includes(type)) left.set(id, String(new Error(type).stack))
    },
    destroy: (id) => void left.delete(id),
  }).enable()
  onTestFinished(() => void hook.disable())
  // The timers of the test itself are among them.
  return () => [...left.values()].filter((stack) => /destination\/src|TCPSERVERWRAP/.test(stack))
}
