import { describe, expect, test } from 'vitest'
import type { ResolverOptions } from '../../src/post/resolver.js'
import { resolverWith, startDnsServer, type DnsAnswer } from './dns-server.js'
import { answering, DEADLINE_MS, listenTcp, OK, onRequest, post, posterTo } from './sockets.js'

/**
 * Starts a DNS server and makes a lookup that asks it.
 *
 * @param answer - Returns the IPv4 addresses of a name, `'none'` if the name does not exist, or `'silence'` for no
 * answer.
 */
async function serveDns(
  answer: (name: string) => string[] | 'none' | 'silence',
  options: Partial<ResolverOptions> = {},
) {
  const { address, names } = await startDnsServer(alike(answer))
  const { lookup, clock } = resolverWith({ servers: [address], ...options })
  return { lookup, names, clock }
}

/** The question for IPv6 follows the one for IPv4. It gets the same error, or no address. */
function alike(answer: (name: string) => string[] | 'none' | 'silence') {
  const errors = new Map<string, 'none' | 'silence'>()
  return (name: string, family: 4 | 6): DnsAnswer => {
    if (family === 6) return errors.get(name) ?? { addresses: [] }
    const found = answer(name)
    errors.delete(name)
    if (typeof found !== 'string') return { addresses: found }
    errors.set(name, found)
    return found
  }
}

describe('a name', () => {
  test('whose DNS changes to an address that is refused gets nothing', async () => {
    // 127.0.0.2 represents a public address, 127.0.0.1 a service of this machine.
    const open = await answering(OK)
    const { port, seen } = await listenTcp(
      onRequest((socket) => socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n')),
      '127.0.0.2',
      open.port,
    )
    const answers = [['127.0.0.2'], ['127.0.0.1'], ['127.0.0.2']]
    const { lookup, names, clock } = await serveDns(() => answers.shift() ?? 'none')
    const poster = posterTo(
      `http://hook.test:${port}/`,
      { lookup, allowNetworks: ['127.0.0.2/32'] },
      { concurrency: 1 },
    )

    expect((await post(poster)).code).toBe('delivered')
    // The name was looked up once, so the connection went to the address that was checked.
    expect(names).toEqual(['hook.test'])
    clock.now += 1_000
    const refused = await post(poster)
    expect(refused).toMatchObject({ code: 'address_refused', verdict: 'retry' })
    expect(refused.error).toContain('hook.test resolves to 127.0.0.1, which is private or reserved')
    expect(refused.error).toContain('the setting allowNetworks')
    clock.now += 1_000
    expect((await post(poster)).code).toBe('delivered')
    expect([open.seen.connections, seen.connections]).toEqual([0, 2])
  })

  test('whose address is kept is judged by the settings of each connection', async () => {
    const { port, seen } = await answering(OK)
    const { lookup, names } = await serveDns(() => ['127.0.0.1'])
    const allowed = posterTo(`http://hook.test:${port}/`, { lookup })
    expect((await post(allowed)).code).toBe('delivered')
    const refusing = posterTo(`http://hook.test:${port}/`, { lookup, allowNetworks: [] })
    expect(await post(refusing)).toMatchObject({ code: 'address_refused', verdict: 'retry' })
    expect([names, seen.connections]).toEqual([['hook.test'], 1])
  })

  test('with several addresses is reached at those that are allowed', async () => {
    const refused = await answering(OK)
    const { port, seen } = await listenTcp(
      onRequest((socket) => socket.write(OK)),
      '127.0.0.2',
      refused.port,
    )
    const { lookup } = await serveDns(() => ['127.0.0.1', '10.0.0.1', '127.0.0.2'])
    const poster = posterTo(`http://hook.test:${port}/`, {
      lookup,
      allowNetworks: ['127.0.0.2/32'],
    })
    expect((await post(poster)).code).toBe('delivered')
    expect([refused.seen.connections, seen.connections]).toEqual([0, 1])
  })

  test('of which the first address is dead is reached at the next', async () => {
    const { port } = await answering(OK)
    const { lookup } = await serveDns(() => ['127.0.0.3', '127.0.0.1'])
    const poster = posterTo(`http://hook.test:${port}/`, { lookup })
    expect((await post(poster)).code).toBe('delivered')
  })

  test('that does not exist is a DNS error, and looked up again after a second', async () => {
    const { lookup, names, clock } = await serveDns(() => 'none')
    const poster = posterTo('http://gone.test/', { lookup })
    const outcome = await post(poster)
    expect(outcome).toMatchObject({ code: 'dns_error', verdict: 'retry' })
    expect(outcome.error).toContain('The name gone.test could not be resolved (ENOTFOUND)')
    expect((await post(poster)).code).toBe('dns_error')
    expect(names).toHaveLength(1)
    clock.now += 1_000
    expect((await post(poster)).code).toBe('dns_error')
    expect(names).toHaveLength(2)
  })

  test('without an address is a DNS error', async () => {
    const { lookup } = await serveDns(() => [])
    const outcome = await post(posterTo('http://empty.test/', { lookup }))
    expect(outcome).toMatchObject({ code: 'dns_error', verdict: 'retry' })
  })

  test('that nobody answers for runs out of time, holds one lookup, and delays no other', async () => {
    const { port } = await answering(OK)
    const { lookup, names } = await serveDns((name) =>
      name === 'dead.test' ? 'silence' : ['127.0.0.1'],
    )
    const dead = posterTo('http://dead.test/', { lookup, deadlineMs: DEADLINE_MS })
    const first = Array.from({ length: 20 }, () => post(dead))
    const healthy = posterTo(`http://hook.test:${port}/`, { lookup })
    expect((await post(healthy)).code).toBe('delivered')
    for (const outcome of await Promise.all(first)) {
      expect(outcome).toMatchObject({ code: 'timeout', verdict: 'retry' })
      expect(outcome.error).toContain('nothing was sent')
    }
    expect((await post(dead)).code).toBe('timeout')
    expect(names.filter((name) => name === 'dead.test')).toHaveLength(1)
  })
})

describe("by the system's own resolver", () => {
  test('localhost is refused', async () => {
    const { port, seen } = await answering(OK)
    for (const host of ['localhost', 'LOCALHOST']) {
      const poster = posterTo(`http://${host}:${port}/`, { allowNetworks: [] })
      const outcome = await post(poster)
      expect(outcome).toMatchObject({ code: 'address_refused', verdict: 'retry' })
    }
    // Some resolvers do not resolve it with the final dot.
    const dotted = await post(posterTo(`http://localhost.:${port}/`, { allowNetworks: [] }))
    expect(dotted.code).toMatch(/^(address_refused|dns_error)$/)
    expect(seen.connections).toBe(0)
  })

  test('localhost is reached if its networks are allowed', async () => {
    const { port } = await answering(OK)
    expect((await post(posterTo(`http://localhost:${port}/`))).code).toBe('delivered')
  })
})

test('twenty connections at once to one name are one lookup', async () => {
  const { port, seen } = await listenTcp(onRequest((socket) => socket.write(OK)))
  const { lookup, names } = await serveDns(() => ['127.0.0.1'])
  const poster = posterTo(`http://hook.test:${port}/`, { lookup }, { concurrency: 20 })
  await Promise.all(Array.from({ length: 20 }, () => post(poster)))
  expect(seen.connections).toBe(20)
  expect(names).toEqual(['hook.test'])
})
