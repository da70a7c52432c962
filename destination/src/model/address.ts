import { BlockList, isIP } from 'node:net'

/**
 * Networks that must not be reached by default. A URL in the settings may come from a customer, and must not give
 * access to services of this machine, to its private network or to the metadata service of its cloud.
 * Source: the special-purpose registries of IANA (RFC 6890), and the addresses that clouds use outside of them.
 */
const REFUSED_NETWORKS = [
  '0.0.0.0/8', // "this network"; Linux connects to itself
  '10.0.0.0/8',
  '100.64.0.0/10', // carrier-grade NAT; metadata of Alibaba Cloud, Tailscale
  '127.0.0.0/8',
  '168.63.129.16/32', // Azure's host; not registered as special
  '169.254.0.0/16', // link-local; metadata of most clouds
  '172.16.0.0/12',
  '192.0.0.0/24', // protocol assignments; metadata of Oracle Cloud
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16',
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
  '::/96', // unspecified, loopback, IPv4-compatible
  '::ffff:0:0:0/96', // IPv4-translated
  '64:ff9b::/96', // NAT64: can lead to any IPv4 address above
  '64:ff9b:1::/48', // NAT64 for local use
  '100::/64', // discard-only
  '100:0:0:1::/64', // dummy prefix
  '2001::/23', // protocol assignments; Teredo carries IPv4
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4 carries IPv4
  '3fff::/20', // documentation
  '5f00::/16', // segment routing
  'fc00::/7', // private; metadata of AWS
  'fe80::/10', // link-local
  'fec0::/10', // site-local
  'ff00::/8', // multicast
]

/** Whether an address may be connected to. */
export type AddressRule = (address: string) => boolean

/**
 * Makes the rule that decides whether an address may be connected to. An IPv4 address that is mapped into IPv6
 * (`::ffff:127.0.0.1`) is judged as the IPv4 address. A string that is not an address is refused. To make a rule takes as long
 * as to use it 15 times, so make one for many addresses.
 *
 * @param allowNetworks - Networks in CIDR notation, or addresses, that may be reached although they are private or
 * reserved.
 * @throws TypeError if `allowNetworks` contains an invalid network.
 */
export function createAddressRule(allowNetworks: readonly string[]): AddressRule {
  const refused = listOf(REFUSED_NETWORKS)
  const allowed = listOf(allowNetworks)
  return (address) => {
    const version = isIP(address)
    if (version === 0) return false
    const family = version === 4 ? 'ipv4' : 'ipv6'
    return !refused.check(address, family) || allowed.check(address, family)
  }
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const { address, prefix, family } = parseNetwork(network)
    list.addSubnet(address, prefix, family)
  }
  return list
}

function parseNetwork(network: string) {
  const [address = '', length, ...rest] = network.split('/')
  const version = isIP(address)
  const bits = version === 4 ? 32 : 128
  const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : NaN
  if (version === 0 || !(prefix <= bits) || rest.length > 0)
    throw new TypeError(
      `allowNetworks must contain networks such as 10.20.0.0/16 or fd00::/8, got '${network}'`,
    )
  return { address, prefix, family: version === 4 ? ('ipv4' as const) : ('ipv6' as const) }
}
