const MACHINE = 'the name servers of this machine (/etc/resolv.conf)'

/**
 * The reason and the fix for each code with which c-ares and the system's resolver fail. Source: Node's documentation,
 * "DNS: Error codes".
 */
const DNS_ERRORS: Record<string, readonly [reason: string, fix: string]> = {
  ENOTFOUND: [
    'DNS does not know it',
    'Check the DNS records of the name, and the DNS settings of this machine.',
  ],
  ENODATA: ['it has no A or AAAA record', 'Check the DNS records of the name.'],
  ETIMEOUT: [
    'no name server answered in time',
    `Check that ${MACHINE} can be reached. If only this name fails, the name servers of its domain are silent.`,
  ],
  ESERVFAIL: [
    'the name servers failed',
    `Check the name servers of its domain and their DNSSEC signatures, and ${MACHINE}.`,
  ],
  EREFUSED: ['the name servers refused the question', `Check that ${MACHINE} serve this machine.`],
  ECONNREFUSED: ['no name server is running', `Check ${MACHINE}.`],
  EBADNAME: ['it is not a valid host name', 'Check the URL of the endpoint.'],
}

const OTHER = [
  'the lookup failed',
  'Check the DNS records of the name, and the DNS settings of this machine.',
] as const

/** Describes why a name could not be resolved, and the fix. */
export function describeDnsError(hostname: string, error: Error): { found: string; fix: string } {
  const code = (error as NodeJS.ErrnoException).code ?? error.message
  const known = Object.hasOwn(DNS_ERRORS, code) ? DNS_ERRORS[code] : undefined
  const [reason, fix] = known ?? OTHER
  return { found: `The name ${hostname} could not be resolved (${code}): ${reason}.`, fix }
}
