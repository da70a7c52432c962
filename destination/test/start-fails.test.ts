import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { startDestination } from '../src/destination.js'
import { watchLeftovers } from './leftovers.js'
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
    const left = watchLeftovers()
    const starting = startDestination(settingsFor([], changes), silent)
    await expect(starting).rejects.toThrow(message)
    await expect.poll(left).toEqual([])
  },
)
