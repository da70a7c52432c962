import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { createResolver, type ResolverOptions } from '../../src/post/resolver.js'

/** What a DNS server answers: addresses, an error, no answer, or an answer that is cut off and has to be asked for by TCP. */
export type DnsAnswer = Found | 'none' | 'servfail' | 'refused' | 'silence'

interface Found {
  /** The addresses of the family that was asked for. */
  addresses?: readonly string[]
  /** In seconds. */
  ttl?: number
  isCutOff?: boolean
}

/** RFC 1035 section 4.1.1: the codes of answers. */
const CODES = { servfail: 2, none: 3, refused: 5 }

/**
 * Starts a DNS server on a free port of 127.0.0.1, over UDP and TCP.
 *
 * @returns Its address, and the names of the A records that it was asked for. A question that was sent again counts once.
 */
export async function startDnsServer(answer: (name: string, family: 4 | 6) => DnsAnswer) {
  const names: string[] = []
  const seen = new Set<string>()
  const answerTo = (query: Buffer, isTcp: boolean): Buffer | undefined => {
    const { name, family } = questionIn(query)
    const question = `${query.readUInt16BE(0)} ${name}`
    if (family === 4 && !seen.has(question)) names.push(name)
    seen.add(question)
    const found = answer(name, family)
    return found === 'silence' ? undefined : reply(query, found, isTcp)
  }

  const server = createSocket('udp4')
  server.on('message', (query, from) => {
    const bytes = answerTo(query, false)
    if (bytes !== undefined) server.send(bytes, from.port, from.address)
  })

  const sockets = new Set<Socket>()
  const tcp = createServer((socket) => {
    sockets.add(socket)
    // RFC 1035 section 4.2.2: over TCP, the length precedes each message. Queries are short, and arrive in one piece.
    socket.on('data', (bytes) => {
      for (let at = 0; at < bytes.length; at += 2 + bytes.readUInt16BE(at)) {
        const query = bytes.subarray(at + 2, at + 2 + bytes.readUInt16BE(at))
        const found = answerTo(query, true) ?? Buffer.alloc(0)
        socket.write(Buffer.concat([Buffer.from([found.length >> 8, found.length & 255]), found]))
      }
    })
    socket.on('error', () => undefined)
  })
  const port = await listenBoth(server, tcp)
  onTestFinished(() => {
    server.close()
    tcp.close()
    for (const socket of sockets) socket.destroy()
  })
  return { address: `127.0.0.1:${port}`, names }
}

/** A port that is free for TCP may be taken for UDP. Then another one is tried. */
async function listenBoth(udp: UdpSocket, tcp: Server): Promise<number> {
  for (;;) {
    tcp.listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    const { port } = tcp.address() as AddressInfo
    try {
      udp.bind(port, '127.0.0.1')
      await once(udp, 'listening')
      return port
    } catch {
      tcp.close()
      await once(tcp, 'close')
    }
  }
}

/**
 * RFC 1035 section 4.1.2: the question follows the header of 12 bytes. A name is a list of labels with their lengths. The
 * type follows it: 1 for A, 28 for AAAA.
 */
function questionIn(query: Buffer): { name: string; family: 4 | 6 } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), family: query.readUInt16BE(at + 1) === 1 ? 4 : 6 }
}

function reply(query: Buffer, answer: Exclude<DnsAnswer, 'silence'>, isTcp: boolean): Buffer {
  const found = typeof answer === 'string' ? {} : answer
  const code = typeof answer === 'string' ? CODES[answer] : 0
  const isCutOff = found.isCutOff === true && !isTcp
  const addresses = isCutOff ? [] : (found.addresses ?? [])
  const head = Buffer.from(query.subarray(0, 12))
  head.writeUInt16BE(0x8180 | code | (isCutOff ? 0x0200 : 0), 2)
  head.writeUInt16BE(addresses.length, 6)
  head.writeUInt32BE(0, 8)
  const question = query.subarray(12, query.indexOf(0, 12) + 5)
  return Buffer.concat([head, question, ...addresses.map((one) => recordOf(one, found.ttl ?? 0))])
}

/** An answer record: a pointer to the name of the question, type, class IN, time to live, the bytes of the address. */
function recordOf(address: string, ttl: number): Buffer {
  const bytes = bytesOf(address)
  const record = Buffer.from([
    0xc0,
    12,
    0,
    bytes.length === 4 ? 1 : 28,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    bytes.length,
  ])
  record.writeUInt32BE(ttl, 6)
  return Buffer.concat([record, Buffer.from(bytes)])
}

/** The bytes of an IPv4 address, or of an IPv6 address that is written with all of its 8 groups. */
function bytesOf(address: string): number[] {
  if (address.includes('.')) return address.split('.').map(Number)
  return address
    .split(':')
    .flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
}

/** Makes a resolver with a clock that stands still. It reads no file of this machine, and no name is known to the system. */
export function resolverWith(options: Partial<ResolverOptions> = {}) {
  const clock = { now: 0 }
  const asked: string[] = []
  const lookup = createResolver({
    lateMs: 10_000,
    hostsFile: '/nowhere/hosts',
    resolvConf: '/nowhere/resolv.conf',
    systemLookup: (hostname) => {
      asked.push(hostname)
      return Promise.reject(new Error('unknown'))
    },
    now: () => clock.now,
    ...options,
  })
  /** Resolves with the addresses in their order, or with the code of the error. */
  const resolve = (hostname: string) =>
    new Promise<string[] | string>((done) => {
      lookup(hostname, (error, addresses) => {
        done(
          error === null
            ? addresses.map(({ address }) => address)
            : ((error as NodeJS.ErrnoException).code ?? error.message),
        )
      })
    })
  /** @param asked - The names that the system was asked for. */
  return { lookup, resolve, clock, asked }
}
