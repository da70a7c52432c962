const RENEW = 'Renew it.'
const FULL_CHAIN = 'Serve it with its whole chain, or add its authority to the setting ca.'
const REISSUE = 'Have it issued again.'

/**
 * The reason and the fix for each code with which Node and OpenSSL refuse a certificate. Source: Node's documentation,
 * "X509 certificate error codes", and the codes of `tls.checkServerIdentity`.
 */
const CERTIFICATE_ERRORS: Record<string, readonly [reason: string, fix: string]> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: [
    'is self-signed',
    'Use a certificate of a known authority, or add this one to the setting ca.',
  ],
  SELF_SIGNED_CERT_IN_CHAIN: [
    'comes from an unknown authority',
    'Add that authority to the setting ca, or use a certificate of a known authority.',
  ],
  UNABLE_TO_GET_ISSUER_CERT: ['has an incomplete chain', FULL_CHAIN],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['comes from an unknown issuer', FULL_CHAIN],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['comes without the certificate of its issuer', FULL_CHAIN],
  CERT_UNTRUSTED: ['is not trusted', FULL_CHAIN],
  CERT_REJECTED: ['is marked as rejected', FULL_CHAIN],
  CERT_CHAIN_TOO_LONG: ['has a chain that is too long', REISSUE],
  CERT_HAS_EXPIRED: ['has expired', RENEW],
  CERT_NOT_YET_VALID: ['is not valid yet', 'Check its dates and the clock of this machine.'],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    'is for another host name',
    'Check the host of the URL, or use a certificate that lists this host in its alternative names.',
  ],
  ERR_TLS_CERT_ALTNAME_FORMAT: ['has invalid alternative names', REISSUE],
  HOSTNAME_MISMATCH: ['is for another host name', REISSUE],
  CERT_REVOKED: ['is revoked', RENEW],
  INVALID_CA: ['comes from an issuer that may not issue certificates', FULL_CHAIN],
  INVALID_PURPOSE: ['is not meant for servers', REISSUE],
  PATH_LENGTH_EXCEEDED: ['has a chain longer than its authority permits', REISSUE],
  CERT_SIGNATURE_FAILURE: ['has a wrong signature', REISSUE],
  UNABLE_TO_DECRYPT_CERT_SIGNATURE: ["has a signature that can't be decoded", REISSUE],
  UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY: ["comes from an issuer whose key can't be decoded", REISSUE],
  ERROR_IN_CERT_NOT_BEFORE_FIELD: ['has an invalid start date', REISSUE],
  ERROR_IN_CERT_NOT_AFTER_FIELD: ['has an invalid end date', REISSUE],
  // OpenSSL uses it for errors without a code, such as a key that is too small or a digest that is too weak.
  UNSPECIFIED: ['is not accepted', 'Its key or its digest may be outdated: use current ones.'],
}

/**
 * Describes why a certificate was not accepted, and the fix.
 *
 * @param detail - The error message of OpenSSL or Node.
 * @returns `undefined` if the code does not concern a certificate.
 */
export function describeCertificateError(
  code: string,
  host: string,
  detail: string,
): string | undefined {
  const found = Object.hasOwn(CERTIFICATE_ERRORS, code) ? CERTIFICATE_ERRORS[code] : undefined
  if (found === undefined) return undefined
  const [reason, fix] = found
  return `The certificate of ${host} ${reason} (${code}: ${detail}): nothing was sent. ${fix}`
}
