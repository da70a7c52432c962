import { execFile } from 'node:child_process'
import { promises, setDefaultResultOrder } from 'node:dns'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import os, { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as immediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { canRun } from '../can-run.js'
import { resolverWith, startDnsServer, type DnsAnswer } from './dns-server.js'
import { answering, OK, post, posterTo } from './sockets.js'
import { createNetwork } from '../../src/post/network.js'

const WITHOUT_NETLINK = fileURLToPath(new URL('without-netlink.py', import.meta.url))
const canForbid = canRun('python3', WITHOUT_NETLINK, 'true')

const at = (...addresses: string[]): DnsAnswer => ({ addresses, ttl: 60 })

/** Writes a file that is removed after the test. */
function fileWith(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'resolver-'))
  onTestFinished(() => {
    rmSync(folder, { recursive: true })
  })
  const path = join(folder, 'file')
  writeFileSync(path, text)
  return path
}

/** Leaves all questions without an answer. */
function silence() {
  const never = new Promise<never>(() => undefined)
  const { prototype } = promises.Resolver
  const asks = [vi.spyOn(prototype, 'resolve4'), vi.spyOn(prototype, 'resolve6')] as const
  for (const ask of asks) {
    ask.mockReturnValue(never)
    onTestFinished(() => {
      ask.mockRestore()
    })
  }
  return asks[0]
}

describe('silent name servers', () => {
  test('of four hosts do not hold up a fifth', async () => {
    const { port, seen } = await answering(OK)
    const dns = await startDnsServer((name, family) =>
      name.startsWith('silent') ? 'silence' : family === 4 ? at('127.0.0.1') : at(),
    )
    const { lookup, asked } = resolverWith({ servers: [dns.address], lateMs: 2_000 })
    const silent = [1, 2, 3, 4].map((i) => posterTo(`http://silent${i}.test/`, { lookup }))
    const unsent = silent.flatMap((poster) => [post(poster), post(poster), post(poster)])
    const healthy = posterTo(`http://hook.test:${port}/`, { lookup })
    for (let i = 0; i < 20; i++) expect((await post(healthy)).code).toBe('delivered')
    for (const outcome of await Promise.all(unsent)) {
      expect(outcome).toMatchObject({ code: 'dns_error', verdict: 'retry' })
      expect(outcome.error).toMatch(/could not be resolved \(ETIMEOUT\): no name server answered/)
    }
    expect(seen.connections).toBeGreaterThan(0)
    // The system's resolver would wait in a thread.
    expect(asked).toEqual([])
  })

  test('of more hosts than are asked for at once do not hold up another', async () => {
    const dns = await startDnsServer((name, family) =>
      name.startsWith('silent') ? 'silence' : family === 4 ? at('127.0.0.1') : at(),
    )
    const { resolve } = resolverWith({ servers: [dns.address] })
    const silent = Array.from({ length: 150 }, (_, i) => resolve(`silent${i}.test`))
    const ended = Promise.race(silent)
    expect(await Promise.race([ended, resolve('hook.test')])).toEqual(['127.0.0.1'])
  })

  test('let the questions after the first hundred start after 250 ms', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const ask = silence()
    const { lookup } = resolverWith()
    for (let i = 0; i < 150; i++) lookup(`silent${i}.test`, () => undefined)
    vi.advanceTimersByTime(249)
    await immediate()
    expect(ask).toHaveBeenCalledTimes(100)
    vi.advanceTimersByTime(1)
    await immediate()
    expect(ask).toHaveBeenCalledTimes(150)
  })

  test('end a lookup after 4 of the 5 seconds of an attempt', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    silence()
    const { lookup, deadline } = createNetwork({ allowNetworks: [], ca: [] })
    const ended: string[] = []
    deadline.add({ startedAt: performance.now(), expire: () => ended.push('attempt') })
    lookup('silent.test', (error) => ended.push((error as NodeJS.ErrnoException).code ?? ''))
    const after = async (ms: number) => {
      vi.advanceTimersByTime(ms)
      await immediate()
      return [...ended]
    }
    expect(await after(3_999)).toEqual([])
    expect(await after(1)).toEqual(['ETIMEOUT'])
    expect(await after(999)).toEqual(['ETIMEOUT'])
    expect(await after(51)).toEqual(['ETIMEOUT', 'attempt'])
  })

  test('leave the turn to the next server', async () => {
    const silent = await startDnsServer(() => 'silence')
    const dns = await startDnsServer((_, family) => (family === 4 ? at('127.0.0.1') : at()))
    const { resolve } = resolverWith({ servers: [silent.address, dns.address] })
    expect(await resolve('hook.test')).toEqual(['127.0.0.1'])
  })

  test('for one family of addresses do not prevent the use of the other, which is not kept', async () => {
    const dns = await startDnsServer((_, family) => (family === 4 ? at('127.0.0.1') : 'silence'))
    // c-ares itself gives up after 3.5 s.
    const { resolve, clock } = resolverWith({ servers: [dns.address], lateMs: 3_000 })
    expect(await resolve('hook.test')).toEqual(['127.0.0.1'])
    clock.now += 1_000
    expect(await resolve('hook.test')).toEqual(['127.0.0.1'])
    expect(dns.names).toEqual(['hook.test', 'hook.test'])
  })
})

test('a thousand names at once all get their answers', { tags: 'long' }, async () => {
  const dns = await startDnsServer((_, family) => (family === 4 ? at('127.0.0.1') : at()))
  const { resolve } = resolverWith({ servers: [dns.address], lateMs: 25_000 })
  const names = Array.from({ length: 1_000 }, (_, i) => `host${i}.test`)
  const answers = await Promise.all(names.map(resolve))
  expect(new Set(answers.flat())).toEqual(new Set(['127.0.0.1']))
  expect(dns.names.toSorted()).toEqual(names.toSorted())
})

describe('an answer', () => {
  test('is used for its TTL', async () => {
    const dns = await startDnsServer((_, family) => (family === 4 ? at('127.0.0.1') : at()))
    const { resolve, clock } = resolverWith({ servers: [dns.address] })
    for (const now of [0, 1, 59_999, 60_000]) {
      clock.now = now
      expect(await resolve('hook.test')).toEqual(['127.0.0.1'])
    }
    expect(dns.names).toEqual(['hook.test', 'hook.test'])
  })

  test.each([
    ['ipv4first', ['127.0.0.1', '127.0.0.2', '2001:db8::1']],
    ['ipv6first', ['2001:db8::1', '127.0.0.1', '127.0.0.2']],
  ] as const)('has both families in the order that Node is set to: %s', async (order, expected) => {
    const dns = await startDnsServer((_, family) =>
      family === 4 ? at('127.0.0.1', '127.0.0.2') : at('2001:db8:0:0:0:0:0:1'),
    )
    setDefaultResultOrder(order)
    onTestFinished(() => {
      setDefaultResultOrder('verbatim')
    })
    const { resolve } = resolverWith({ servers: [dns.address] })
    const addresses = (await resolve('hook.test')) as string[]
    const [v4, v6] = [/^127/, /^2001/].map((family) => addresses.filter((one) => family.test(one)))
    expect(v4?.toSorted()).toEqual(['127.0.0.1', '127.0.0.2'])
    expect(order === 'ipv4first' ? [v4, v6].flat() : [v6, v4].flat()).toEqual(addresses)
    expect(addresses.toSorted()).toEqual(expected.toSorted())
  })

  test('has IPv4 first if the system does not tell the addresses of this machine', async () => {
    vi.spyOn(os, 'networkInterfaces').mockImplementation(() => {
      throw new Error(
        'A system error occurred: uv_interface_addresses returned Unknown system error 97',
      )
    })
    syncBuiltinESMExports()
    onTestFinished(() => {
      vi.restoreAllMocks()
      syncBuiltinESMExports()
    })
    const dns = await startDnsServer((_, family) =>
      family === 4 ? at('127.0.0.1') : at('2001:db8:0:0:0:0:0:1'),
    )
    const { resolve } = resolverWith({ servers: [dns.address] })
    expect(await resolve('hook.test')).toEqual(['127.0.0.1', '2001:db8::1'])
  })

  test.skipIf(!canForbid)('comes in a sandbox without AF_NETLINK', async () => {
    const dns = await startDnsServer((_, family) => (family === 4 ? at('127.0.0.1') : at()))
    const script = `
      import { createResolver } from '${inject('compiledDir')}/post/resolver.js'
      const none = '/nowhere/file'
      const options = { lateMs: 5_000, servers: ['${dns.address}'], hostsFile: none, resolvConf: none }
      createResolver(options)('hook.test', (error, found) => console.log(error ?? found[0].address))`
    const { stdout } = await promisify(execFile)('python3', [
      ...[WITHOUT_NETLINK, process.execPath, '--input-type=module', '--eval', script],
    ])
    expect(stdout).toBe('127.0.0.1\n')
  })

  test('that is cut off is read by TCP', async () => {
    const many = Array.from({ length: 100 }, (_, i) => `127.0.1.${i}`)
    const dns = await startDnsServer((_, family) =>
      family === 4 ? { addresses: many, ttl: 60, isCutOff: true } : at(),
    )
    const { resolve } = resolverWith({ servers: [dns.address] })
    expect(((await resolve('hook.test')) as string[]).toSorted()).toEqual(many.toSorted())
  })

  test.each(['servfail', 'refused'] as const)(
    '%s of one server is not the last word if there is another',
    async (failure) => {
      const failing = await startDnsServer(() => failure)
      const dns = await startDnsServer((_, family) => (family === 4 ? at('127.0.0.1') : at()))
      const { resolve } = resolverWith({ servers: [failing.address, dns.address] })
      expect(await resolve('hook.test')).toEqual(['127.0.0.1'])
    },
  )

  test.each([
    ['none', 'ENOTFOUND'],
    [{ addresses: [] }, 'ENODATA'],
    ['servfail', 'ESERVFAIL'],
    ['refused', 'EREFUSED'],
  ] as const)('%j is the error %s', async (answer, code) => {
    const dns = await startDnsServer(() => answer)
    expect(await resolverWith({ servers: [dns.address] }).resolve('hook.test')).toBe(code)
  })

  test('of a server that is not there is the error ECONNREFUSED', async () => {
    const { resolve } = resolverWith({ servers: ['127.0.0.1:1'] })
    expect(await resolve('hook.test')).toBe('ECONNREFUSED')
  })
})

describe('the hosts file', () => {
  test('comes before DNS, and is read again when it changes', async () => {
    const dns = await startDnsServer(() => 'none')
    const hostsFile = fileWith('10.0.0.7 Receiver receiver.internal # a comment\n::1 receiver\n')
    const { resolve, clock } = resolverWith({ servers: [dns.address], hostsFile })
    expect(await resolve('receiver')).toEqual(['10.0.0.7', '::1'])
    expect(await resolve('receiver.internal')).toEqual(['10.0.0.7'])
    writeFileSync(hostsFile, '10.0.0.123 receiver\n')
    clock.now += 1_000
    expect(await resolve('receiver')).toEqual(['10.0.0.123'])
    expect(dns.names).toEqual([])
    expect(await resolve('receiver.internal')).toBe('ENOTFOUND')
  })

  test('need not know localhost, which DNS is never asked for', async () => {
    const dns = await startDnsServer(() => at('192.0.2.1'))
    const { resolve } = resolverWith({ servers: [dns.address] })
    for (const name of ['localhost', 'localhost.', 'app.localhost'])
      expect(await resolve(name)).toEqual(['127.0.0.1', '::1'])
    expect(dns.names).toEqual([])
  })
})

describe('the search domains of resolv.conf', () => {
  const ofCluster = 'search team.svc.cluster.test svc.cluster.test\noptions ndots:5\n'

  test('complete a short name, as in Kubernetes', async () => {
    const dns = await startDnsServer((name, family) =>
      name !== 'receiver.other.svc.cluster.test' ? 'none' : family === 4 ? at('10.0.0.7') : at(),
    )
    const resolvConf = fileWith(ofCluster)
    const { resolve, asked } = resolverWith({ servers: [dns.address], resolvConf })
    expect(await resolve('receiver.other')).toEqual(['10.0.0.7'])
    expect(dns.names).toEqual([
      'receiver.other.team.svc.cluster.test',
      'receiver.other.svc.cluster.test',
    ])
    expect(asked).toEqual([])
  })

  test('are left out for a name with a final dot', async () => {
    const dns = await startDnsServer((_, family) => (family === 4 ? at('10.0.0.7') : at()))
    const { resolve } = resolverWith({ servers: [dns.address], resolvConf: fileWith(ofCluster) })
    expect(await resolve('hook.test.')).toEqual(['10.0.0.7'])
    expect(dns.names).toEqual(['hook.test'])
  })

  test('do not hide a name if the server of one of them fails', async () => {
    const dns = await startDnsServer((name, family) =>
      name.endsWith('cluster.test') ? 'servfail' : family === 4 ? at('10.0.0.7') : at(),
    )
    const resolvConf = fileWith(ofCluster)
    const { resolve } = resolverWith({ servers: [dns.address], resolvConf })
    expect(await resolve('hook.test')).toEqual(['10.0.0.7'])
  })

  test('are read again when the file changes', async () => {
    const dns = await startDnsServer((name, family) =>
      name !== 'receiver.new.test' ? 'none' : family === 4 ? at('10.0.0.7') : at(),
    )
    const resolvConf = fileWith('search old.test\n')
    const { resolve, clock } = resolverWith({ servers: [dns.address], resolvConf })
    expect(await resolve('receiver')).toBe('ENOTFOUND')
    writeFileSync(resolvConf, 'search new.test example.test\n')
    clock.now += 1_000
    expect(await resolve('receiver')).toEqual(['10.0.0.7'])
  })
})

test('the name servers of resolv.conf are read again when the file changes', async () => {
  const [first, second] = await Promise.all(
    ['10.0.0.1', '10.0.0.2'].map((address) =>
      startDnsServer((_, family) => (family === 4 ? at(address) : at())),
    ),
  )
  let server = first?.address ?? ''
  // c-ares reads them from /etc/resolv.conf for each new resolver.
  const { Resolver } = promises
  const made = vi.spyOn(promises, 'Resolver').mockImplementation(function (options) {
    const resolver = new Resolver(options)
    resolver.setServers([server])
    return resolver
  })
  onTestFinished(() => {
    made.mockRestore()
  })
  const resolvConf = fileWith('nameserver 127.0.0.1\n')
  const { resolve, clock } = resolverWith({ resolvConf })
  expect(await resolve('a.test')).toEqual(['10.0.0.1'])
  server = second?.address ?? ''
  writeFileSync(resolvConf, 'nameserver 127.0.0.53\n')
  clock.now += 1_000
  expect(await resolve('b.test')).toEqual(['10.0.0.2'])
})

describe("the system's resolver", () => {
  const local = () => Promise.resolve([{ address: '10.0.0.9', family: 4 }])

  test.each(['none', { addresses: [] }] as const)(
    'is asked for a name that DNS does not have: %j',
    async (answer) => {
      const dns = await startDnsServer(() => answer)
      const systemLookup = vi.fn(local)
      const { resolve } = resolverWith({ servers: [dns.address], systemLookup })
      expect(await resolve('printer.local')).toEqual(['10.0.0.9'])
      expect(await resolve('printer.local')).toEqual(['10.0.0.9'])
      expect(systemLookup.mock.calls).toEqual([['printer.local']])
    },
  )

  test.each(['servfail', 'refused', 'silence'] as const)(
    'is not asked if DNS says nothing of the name: %s',
    async (answer) => {
      const dns = await startDnsServer(() => answer)
      const { resolve, asked } = resolverWith({ servers: [dns.address], lateMs: 200 })
      expect(await resolve('hook.test')).toMatch(/^(ESERVFAIL|EREFUSED|ETIMEOUT)$/)
      expect(asked).toEqual([])
    },
  )

  test.each([4, 6])(
    'is not asked if DNS has no address of one family and fails for IPv%i',
    async (failing) => {
      const dns = await startDnsServer((_, family) => (family === failing ? 'servfail' : at()))
      const { resolve, asked } = resolverWith({ servers: [dns.address] })
      expect(await resolve('hook.test')).toBe('ESERVFAIL')
      expect(asked).toEqual([])
    },
  )

  test('occupies at most two threads, and holds up no name that DNS has', async () => {
    const dns = await startDnsServer((name, family) =>
      name.endsWith('.local') ? 'none' : family === 4 ? at('127.0.0.1') : at(),
    )
    const hanging: (() => void)[] = []
    const systemLookup = () =>
      new Promise<never>((_, reject) => {
        hanging.push(() => {
          reject(new Error('unknown'))
        })
      })
    const { resolve } = resolverWith({ servers: [dns.address], systemLookup })
    // Both resolvers share the threads.
    const other = resolverWith({ servers: [dns.address], systemLookup })
    const lost = [1, 2, 3].flatMap((i) => [resolve, other.resolve].map((one) => one(`${i}.local`)))
    await vi.waitUntil(() => dns.names.length === lost.length, 60_000)
    expect(await resolve('hook.test')).toEqual(['127.0.0.1'])
    let ended = 0
    while (ended < lost.length) {
      await vi.waitUntil(() => hanging.length > 0, 60_000)
      expect(hanging.length).toBeLessThanOrEqual(2)
      hanging.shift()?.()
      ended += 1
    }
    expect(await Promise.all(lost)).toEqual(lost.map(() => 'ENOTFOUND'))
  })
})
