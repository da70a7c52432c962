/** What the other side may mean, and what to do, by the words of OpenSSL. Source: RFC 8446, 6.2, for the alerts of a server. */
const HANDSHAKE_ERRORS: readonly (readonly [reason: RegExp, fix: string])[] = [
  [
    /wrong version number|packet length too long/,
    'What it sent is not TLS: the endpoint seems to speak plain HTTP. Check the scheme and the port of its URL.',
  ],
  [
    /protocol version|unsupported protocol/,
    'The endpoint must support TLS 1.2 or 1.3: it seems to have only older versions.',
  ],
  [
    /no application protocol/,
    'The endpoint must support HTTP/1.1: it seems to have only other protocols, such as HTTP/2.',
  ],
  [/unrecognized name/, 'The endpoint does not know this host name. Check the host of its URL.'],
  [
    /alert handshake failure|alert insufficient security/,
    'The endpoint gives no reason. It may have no certificate for this host name, support no cipher that this machine has, or ask for ' +
      'a client certificate, which is never sent. Its own log may say which.',
  ],
]

/** The alerts with which a server refuses a client without a certificate. It has no other reason for them: none is sent. */
const CLIENT_CERTIFICATE =
  /alert (?:certificate required|bad certificate|no certificate|certificate unknown|unknown ca|access denied)/

/**
 * Describes a failed TLS handshake. It is retried, because it may be a temporary fault during a rollout of the
 * endpoint.
 *
 * @param detail - The error message of OpenSSL, such as `…:error:0A000410:SSL routines:ssl3_read_bytes:sslv3 alert handshake failure:…`.
 */
export function describeHandshake(host: string, detail: string): string {
  const reason = /:SSL routines:[^:]*:([^:]*)/.exec(detail)?.[1] ?? detail
  if (CLIENT_CERTIFICATE.test(reason))
    return (
      `${host} asks for a client certificate (${reason}), which is never sent. ` +
      'Let the endpoint accept requests without one: it can verify their signature instead.'
    )
  const fix =
    HANDSHAKE_ERRORS.find(([words]) => words.test(reason))?.[1] ??
    'Check the TLS versions and ciphers of the endpoint.'
  return `The TLS handshake with ${host} failed (${reason}): nothing was sent. ${fix}`
}
