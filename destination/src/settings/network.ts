import { BlockList, isIP } from 'node:net'

/**
 * Reads "host:port", "[::1]:3300" or a port alone. A port alone means 127.0.0.1.
 *
 * @returns `undefined` if the value has none of these forms.
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

/** Formats an address so that {@link parseListen} can read it. */
export function formatListen({ host, port }: { host: string; port: number }): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/**
 * The URL of a listening address for clients on this machine. A server on all interfaces is reached over the loopback.
 */
export function localUrl({ host, port }: { host: string; port: number }): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${formatListen({ host: reached, port })}`
}

/**
 * Reads a network in CIDR notation, or a single address, which becomes a network of one address.
 *
 * @returns The network in CIDR notation; `undefined` if the value is not a network.
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
