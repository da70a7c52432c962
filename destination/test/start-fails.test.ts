import { createHook } from 'node:async_hooks'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { startDestination } from '../src/destination.js'
import { settingsFor, silent } from './run.js'

const other = createServer().listen(0, '127.0.0.1')
afterAll(() => void other.close())
await once(other, 'listening')
const { port } = other.address() as AddressInfo

test.each([
  ['cannot listen', { listen: { host: '127.0.0.1', port } }, /EADDRINUSE/],
  ['cannot use its settings', { ca: ['nonsense'] }, /^ca\[0] must be a certificate/],
])(
  'a destination that %s leaves no timer and no server that runs on',
  async (_, changes, message) => {
    const left = new Map<number, string>()
    const hook = createHook({
      init: (id, type) => {
        if (['Timeout', 'TCPSERVERWRAP'].includes(type)) left.set(id, String(new Error(type).stack))
      },
      destroy: (id) => void left.delete(id),
    }).enable()
    onTestFinished(() => void hook.disable())
    const starting = startDestination(settingsFor([], changes), silent)
    await expect(starting).rejects.toThrow(message)
    // The timer of the assertion itself is one of them.
    const ofProduct = () =>
      [...left.values()].filter((stack) => /destination\/src|TCPSERVERWRAP/.test(stack))
    await expect.poll(ofProduct).toEqual([])
  },
)
