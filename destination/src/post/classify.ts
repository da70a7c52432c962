import { errors } from 'undici'
import { describeCertificateError } from './certificate-errors.js'
import { describeHandshake } from './handshake-errors.js'
import { NoAddressError } from './guard.js'
import type { Outcome, OutcomeCode, Verdict } from '../model/outcome.js'

/** What an answer or a failed request means for the delivery. */
export type Judgement = Pick<Outcome, 'code' | 'verdict' | 'error'>

const DELIVERED: Judgement = { code: 'delivered', verdict: 'delivered', error: undefined }

/**
 * Judges the status of an answer.
 *
 * @param location - The `Location` header of a redirect.
 * @param from - The URL of the endpoint, for a redirect.
 */
export function judgeStatus(status: number, location?: string, from?: URL): Judgement {
  const answered = `The endpoint answered ${status}`
  if (status >= 200 && status < 300) return DELIVERED
  if (status === 304)
    return refused(
      'redirect',
      `${answered} (Not Modified), which is no answer to a POST. ${ANSWER_2XX}`,
    )
  if (status >= 300 && status < 400)
    return refused('redirect', `${answered}${describeRedirect(location, from)}`)
  if (status === 408)
    return retry('request_timeout', `${answered}: it did not receive the whole request in time.`)
  if (status === 429) return retry('throttled', `${answered}: it asks for fewer requests.`)
  if (status >= 400 && status < 500) return refused('client_error', `${answered}.`)
  if (status >= 500 && status < 600) return retry('server_error', `${answered}.`)
  return retry('connection_failed', `${answered}, which is not an HTTP status.`)
}

const ANSWER_2XX = 'An endpoint that has accepted a message must answer with a 2xx status.'

/** Only the host is named, because paths and queries may contain secrets. */
function describeRedirect(location: string | undefined, from: URL | undefined): string {
  const end = '. Redirects are not followed: set the URL of the endpoint to its final address.'
  if (location === undefined || from === undefined || !URL.canParse(location, from.href)) return end
  return ` and redirects to ${describeTarget(new URL(location, from), from)}${end}`
}

function describeTarget(to: URL, own: URL): string {
  if (to.host !== own.host) return to.host
  if (to.protocol !== own.protocol) return `the same host with ${to.protocol}//`
  if (to.pathname === `${own.pathname}/`) return 'the same path with a slash at its end'
  if (`${to.pathname}/` === own.pathname) return 'the same path without the slash at its end'
  if (to.pathname !== own.pathname) return 'another path of the same host'
  return to.search === own.search ? 'the same URL' : 'the same path with another query'
}

/** Judges a request that had no answer at the deadline. */
export function judgeTimeout(deadlineMs: number, wasSent: boolean): Judgement {
  const within = `within ${deadlineMs / 1_000} s`
  return wasSent
    ? retry('timeout', `The endpoint did not answer ${within}.`)
    : retry('timeout', `No connection to the endpoint was made ${within}: ${NOTHING_SENT}.`)
}

/** The words of each timeout that came before the request. */
export const NOTHING_SENT = 'nothing was sent'

/**
 * Judges a request that failed without an answer. Only failures that retries can't change are refused for good: a
 * certificate that will not be accepted, and an address that is not allowed. All others may be temporary and are retried.
 */
export function judgeError(error: unknown, host: string): Judgement {
  if (error instanceof NoAddressError)
    return { code: error.code, verdict: error.verdict, error: error.message }
  const code = codeOf(error)
  const detail = error instanceof Error ? error.message : String(error)
  const certificate = describeCertificateError(code, host, detail)
  if (certificate !== undefined) {
    // Only this problem passes by itself: a machine that has just started may not know the time.
    const judge = code === 'CERT_NOT_YET_VALID' ? retry : refused
    return judge('tls_error', certificate)
  }
  if (code === 'EPROTO' || code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_'))
    return retry('tls_error', describeHandshake(host, detail))
  if (error instanceof errors.HTTPParserError)
    return retry('connection_failed', `${host} answered ${describeParserError(detail)}`)
  if (error instanceof errors.SocketError && detail === 'bad response')
    return retry('connection_failed', `${host} answered ${UNREADABLE}`)
  if (error instanceof errors.SocketError && detail === 'bad upgrade')
    return retry('connection_failed', `${host} answered ${SWITCHED} ${ANSWER_2XX}`)
  // Of all that undici asserts, only the status is a matter of the answer. The text of the assertion is about its source.
  if (code === 'ERR_ASSERTION')
    return retry('connection_failed', `${host} answered with a status below 100. ${ANSWER_2XX}`)
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH')
    return retry('connection_failed', `${host} ${BAD_HEADERS}`)
  const [outcome, words, fix] = describeFailure(code)
  const what = `${host} ${words} (${[code, detail].filter(Boolean).join(': ')}).`
  return retry(outcome, fix === undefined ? what : `${what} ${fix}`)
}

function describeFailure(code: string): [OutcomeCode, words: string, fix?: string] {
  if (code === 'ECONNREFUSED') return ['connection_refused', 'refused the connection']
  if (code === 'ETIMEDOUT' || code === 'UND_ERR_CONNECT_TIMEOUT')
    return ['timeout', `could not be reached in time: ${NOTHING_SENT}`]
  if (RESETS.has(code)) return ['connection_reset', 'closed the connection before it answered']
  if (code === 'UND_ERR_HEADERS_OVERFLOW')
    return ['connection_failed', 'answered with headers of more than 16 KB', SHORTER_HEADERS]
  const fix = Object.hasOwn(UNREACHABLE, code) ? UNREACHABLE[code] : undefined
  return ['connection_failed', 'could not be reached', fix ?? CHECK_ADDRESS]
}

const NO_ROUTE =
  'This machine has no route to it: check the address, and the network of this machine.'
const NOT_PERMITTED = 'This machine does not permit the connection: check its firewall.'
const TOO_MANY_FILES =
  'This process has too many open files and connections: raise their limit (`ulimit -n`, or LimitNOFILE of systemd).'
const NO_PORT = 'This machine has too many open connections: no port is free for another one.'
const CHECK_ADDRESS = 'Check the host and the port of its URL, and the network of this machine.'
const SHORTER_HEADERS = 'It must answer with fewer or shorter headers, such as cookies.'

/** What to do about the errors of this machine and its network. */
const UNREACHABLE: Readonly<Record<string, string>> = {
  EHOSTUNREACH: NO_ROUTE,
  ENETUNREACH: NO_ROUTE,
  EACCES: NOT_PERMITTED,
  EPERM: NOT_PERMITTED,
  EMFILE: TOO_MANY_FILES,
  ENFILE: TOO_MANY_FILES,
  EADDRNOTAVAIL: NO_PORT,
}

/** @param detail - undici's text, with that of the parser in parentheses: it says what it expected, or what is wrong. */
function describeParserError(detail: string): string {
  const [, wrong = ''] = /\((?!Expected HTTP)(.+)\)$/.exec(detail) ?? []
  return wrong === ''
    ? 'with data that is not HTTP/1.1. Check the port of its URL: it may belong to something else, such as TLS or HTTP/2.'
    : `with a head or a body that is not valid HTTP/1.1: ${wrong}. Correct the endpoint, or the proxy before it. \`curl -v\` shows what it sends.`
}

/**
 * undici says that the length is wrong, whatever is wrong with headers that have a Content-Length. If only the length is wrong, the
 * status was read before and decides.
 */
const BAD_HEADERS =
  'answered with headers that are not valid HTTP. They may have one Content-Length, which must be a whole number below 2^64, or a Transfer-Encoding, and not both.'

/** undici closes the connection at such an answer, and at {@link SWITCHED}. It reads every other 1xx. */
const UNREADABLE =
  'with 100 Continue, which was not asked for and can not be read. The endpoint must send only its final answer.'

const SWITCHED = 'with 101 Switching Protocols, which was not asked for.'

/** `UND_ERR_SOCKET` is undici's code for a connection that the other side closed regularly, but without an answer. */
const RESETS = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET'])

function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return typeof code === 'string' ? code : ''
}

function retry(code: OutcomeCode, error: string): Judgement {
  return { code, verdict: 'retry', error }
}

function refused(code: OutcomeCode, error: string): Judgement {
  return { code, verdict: 'refused' satisfies Verdict, error }
}
