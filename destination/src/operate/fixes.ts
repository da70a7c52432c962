import type { Outcome } from '../model/outcome.js'
import { NOTHING_SENT } from '../post/classify.js'

const SECRET =
  'check that both sides have the same secret, and that the receiver verifies the raw bytes of the body before it parses them.'

const UNSIGNED = 'The request has no signature: set sharedSecret if the receiver expects one.'

/** What the operator should do about a problem of an endpoint. */
export const FIXES = {
  connection: 'Check that the endpoint is running and that its port is open to this machine.',
  unreached:
    'Check that the endpoint is running, that its port is open to this machine and, for https, that it speaks TLS there.',
  reset:
    'The endpoint, or a proxy in front of it, closed the connection: its log may give the reason. Check also that the scheme of the URL is right: ' +
    'a port for https may close connections for http, and the other way round.',
  tls: 'The port is open, but there was no TLS handshake. Check that the endpoint speaks TLS at this port, and the scheme of the URL.',
  answer:
    'The endpoint must answer with a 2xx status when it accepts a message. Its own log may give the reason.',
  unchecked:
    'The endpoint accepts messages from anybody. Verify the signature in the receiver, for example X-Signature with verifyWebhook from hookline/webhook.',
  unknown: 'Run this again. The receiver should answer a wrong signature with 401.',
  slow: 'Answer with a 2xx status as soon as the message is stored, and process it afterwards.',
  late: 'The network, or a proxy in front of the endpoint, may be slow. Check the time limits of both for a request.',
  throttled:
    'Raise the limit of the endpoint, or set rateLimit of the endpoint in the settings to what it allows.',
  proxied:
    'Often a proxy in front of the endpoint answers this, because the endpoint is down or slow. Check that it is running. The logs of both may give the reason.',
} as const

/** What may be the reason of each status with which receivers refuse a signature, too. */
const BY_STATUS_OF_SIGNED: Readonly<Record<number, string>> = {
  400: `The answer of the endpoint or its log may name what it does not accept: the body, a header, http at a port for https, or the signature. For the signature, ${SECRET}`,
  401: `The endpoint may not accept the signature: ${SECRET} If it needs a password or a key, set it in the headers of the endpoint.`,
  403: `The endpoint, or a firewall in front of it, does not permit the request. If it does not accept the signature, ${SECRET}`,
}

const BY_STATUS_OF_UNSIGNED: Readonly<Record<number, string>> = {
  400: `The answer of the endpoint or its log may name what it does not accept, such as http at a port for https. ${UNSIGNED}`,
  401: `${UNSIGNED} If it needs a password or a key, set it in the headers of the endpoint.`,
  403: `The endpoint, or a firewall in front of it, does not permit the request. ${UNSIGNED}`,
}

const BY_STATUS: Readonly<Record<number, string>> = {
  404: 'Check the host and the path of the URL: the server has nothing there.',
  405: 'Check the path of the URL: the endpoint must accept POST there.',
  410: 'The endpoint says that it was removed for good. Ask its owner for the new URL, or remove it from the settings.',
  413: 'The endpoint must accept bodies of at least 32 KB, which a call may have.',
  415: 'The endpoint must accept bodies with the content type application/json.',
  421: 'Check the host of the URL: the server does not answer for it. A proxy in front of the endpoint may pass on another host.',
  431: 'The endpoint must accept longer headers, or needs fewer of them in the settings.',
  502: FIXES.proxied,
  503: FIXES.proxied,
  504: FIXES.proxied,
}

/**
 * What the operator should do about the outcome of a request.
 *
 * @param isSigned - Whether the request had a signature.
 * @returns `undefined` if there is nothing to do, or if the error of the outcome already says it.
 */
export function fixOf(
  { code, status = 0, error }: Pick<Outcome, 'code' | 'error'> & Partial<Pick<Outcome, 'status'>>,
  isSigned: boolean,
): string | undefined {
  switch (code) {
    case 'delivered':
    case 'redirect':
    case 'dns_error':
    case 'tls_error':
    case 'address_refused':
    case 'connection_failed':
      return undefined
    case 'timeout':
      return error?.includes(NOTHING_SENT) ? FIXES.unreached : FIXES.slow
    case 'connection_refused':
      return FIXES.connection
    case 'connection_reset':
      return FIXES.reset
    case 'throttled':
      return FIXES.throttled
    case 'request_timeout':
      return FIXES.late
    case 'client_error':
    case 'server_error': {
      const mayBeSecret = isSigned ? BY_STATUS_OF_SIGNED : BY_STATUS_OF_UNSIGNED
      return mayBeSecret[status] ?? BY_STATUS[status] ?? FIXES.answer
    }
    case 'endpoint_down':
    case 'endpoint_busy':
      return FIXES.answer
  }
}
