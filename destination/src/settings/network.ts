import { BlockList, isIP } from 'node:net'

/**
 * Reads "host:port", "[::1]:3300" or a port alone, which is the loopback's.
 *
 * @returns `undefined` if it is none of them.
 */
export function parseListen(given: unknown): { host: string; port: number } | undefined {
  const match = /^(?:(?:\[([^\]]+)\]|([^:[\]\s/]+)):)?(\d{1,5})$/.exec(
    typeof given === 'number' ? String(given) : typeof given === 'string' ? given : '',
  )
  if (!match) return undefined
  const [, bracketed, plain, digits] = match
  const port = Number(digits)
  if (port > 65_535 || (bracketed !== undefined && isIP(bracketed) !== 6)) return undefined
  return { host: bracketed ?? plain ?? '127.0.0.1', port }
}

/** Writes an address as {@link parseListen} reads it. */
export function formatListen({ host, port }: { host: string; port: number }): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** The same address as somebody on this machine asks for it: what listens everywhere listens here too. */
export function localUrl({ host, port }: { host: string; port: number }): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${formatListen({ host: reached, port })}`
}

/**
 * Reads a network in CIDR notation, or a single address, which becomes a network of one.
 *
 * @returns the network in CIDR notation; `undefined` if it is none.
 */
export function parseNetwork(given: unknown): string | undefined {
  if (typeof given !== 'string') return undefined
  const [address = '', prefix, ...rest] = given.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return undefined
  const bits = version === 4 ? 32 : 128
  const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : NaN
  try {
    new BlockList().addSubnet(address, length, version === 4 ? 'ipv4' : 'ipv6')
  } catch {
    return undefined
  }
  return `${address}/${length}`
}
