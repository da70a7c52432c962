import { createHook } from 'node:async_hooks'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startDestination } from '../src/destination.js'
import { settingsFor, silent } from './run.js'

test('a destination that cannot listen leaves no timer that runs on', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const timers = new Map<number, string>()
  const hook = createHook({
    init: (id, type) => {
      if (type === 'Timeout') timers.set(id, String(new Error('set').stack))
    },
    destroy: (id) => void timers.delete(id),
  }).enable()
  onTestFinished(() => void hook.disable())
  const settings = settingsFor([], { listen: { host: '127.0.0.1', port } })
  await expect(startDestination(settings, silent)).rejects.toThrow(/EADDRINUSE/)
  // The timer of the assertion itself is one of them.
  const left = () => [...timers.values()].filter((stack) => stack.includes('destination/src'))
  await expect.poll(left).toEqual([])
})
