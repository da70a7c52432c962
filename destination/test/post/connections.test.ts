import { once } from 'node:events'
import type { Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Connections } from '../../src/post/connections.js'
import { createNetwork, type Network } from '../../src/post/network.js'
import { createPoster, type Poster } from '../../src/post/poster.js'
import { answering, listenTcp, LOOPBACK, OK, onRequest, post } from './sockets.js'

/** A network whose connections are closed after the test. */
function networkOf(maxConnections?: number): Network {
  const network = createNetwork({ allowNetworks: LOOPBACK, ca: [], maxConnections })
  onTestFinished(() => network.connections.close())
  return network
}

const to = (network: Network, port: number, path = '/', concurrency = 4): Poster =>
  createPoster({ url: `http://127.0.0.1:${port}${path}`, headers: {}, concurrency }, network)

describe('an idle connection', () => {
  test('serves every endpoint of its origin', async () => {
    const { port, seen } = await answering(OK)
    const network = networkOf()
    for (let customer = 0; customer < 50; customer++) {
      expect((await post(to(network, port, `/${customer}`))).code).toBe('delivered')
    }
    expect(seen.connections).toBe(1)
  })

  test('serves no other origin', async () => {
    const servers = [await answering(OK), await answering(OK)]
    const network = networkOf()
    for (const { port } of servers) await post(to(network, port))
    expect(servers.map(({ seen }) => seen.connections)).toEqual([1, 1])
    expect(network.connections.idle).toBe(2)
  })

  test('is forgotten once the endpoint closes it', async () => {
    const { port, open } = await answering(OK)
    const network = networkOf()
    const poster = to(network, port)
    await Promise.all(Array.from({ length: 4 }, () => post(poster)))
    expect(network.connections.idle).toBe(4)
    for (const socket of open) socket.end()
    await expect.poll(() => network.connections.idle).toBe(0)
    expect((await post(poster)).code).toBe('delivered')
  })

  test('is not kept if the endpoint announces its end', async () => {
    const { port } = await answering(OK.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
    const network = networkOf()
    const poster = to(network, port)
    for (let i = 0; i < 3; i++) expect((await post(poster)).code).toBe('delivered')
    await expect.poll(() => network.connections.idle).toBe(0)
  })
})

test('no request begins on a connection that is old, so that a name with a new address leads there', async () => {
  const before = await answering(OK)
  const after = await listenTcp(
    onRequest((socket) => socket.write(OK)),
    '127.0.0.2',
    before.port,
  )
  let [address, at] = ['127.0.0.1', 0]
  const network = createNetwork({
    ...{ allowNetworks: LOOPBACK, ca: [] },
    lookup: (_, callback) => {
      callback(null, [{ address, family: 4 }])
    },
  })
  const connections = new Connections(network.connect, 10, () => at)
  onTestFinished(() => connections.close())
  const endpoint = { url: `http://moved.test:${before.port}/`, headers: {}, concurrency: 4 }
  const poster = createPoster(endpoint, { ...network, connections })
  const served = () => [before.seen.connections, after.seen.connections]
  expect((await post(poster)).code).toBe('delivered')
  address = '127.0.0.2'
  at = 224_000 // the earliest end is after three quarters of 5 minutes
  expect((await post(poster)).code).toBe('delivered')
  expect(served()).toEqual([1, 0])
  at = 300_000
  expect((await post(poster)).code).toBe('delivered')
  expect(served()).toEqual([1, 1])
  // One that has become old during its request is not kept.
  const kept = connections.take(`http://moved.test:${before.port}`)
  at = 600_000
  connections.give(kept)
  expect(connections.idle).toBe(0)
})

describe('the connections of a process', () => {
  test('are no more than they may be: the one that is idle for longest makes room', async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, () => answering(OK)))
    const network = networkOf(3)
    for (const { port } of servers) expect((await post(to(network, port))).code).toBe('delivered')
    expect(network.connections.idle).toBe(3)
    await expect.poll(() => servers.map(({ open }) => open.size)).toEqual([0, 0, 1, 1, 1])
  })

  test('are closed when they are closed, those in use after their answer', async () => {
    const arrived: Socket[] = []
    const { port, open } = await listenTcp(onRequest((socket) => arrived.push(socket)))
    const network = networkOf()
    const poster = to(network, port)
    const outcome = post(poster)
    await expect.poll(() => arrived.length).toBe(1)
    await network.connections.close()
    expect(open.size).toBe(1)
    const [socket] = arrived as [Socket]
    const closed = once(socket, 'close')
    socket.write(OK)
    expect((await outcome).code).toBe('delivered')
    await closed
    expect(network.connections.idle).toBe(0)
  })
})
