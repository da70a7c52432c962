import { errors } from 'undici'
import { describe, expect, test } from 'vitest'
import { judgeError, judgeStatus, judgeTimeout } from '../../src/post/classify.js'
import { NoAddressError } from '../../src/post/guard.js'

const HOST = 'crm.example.com'
const failing = (code: string, message = 'as it says') =>
  judgeError(Object.assign(new Error(message), { code }), HOST)

function expected(status: number): [code: string, verdict: string] {
  if (status < 200) return ['connection_failed', 'retry']
  if (status < 300) return ['delivered', 'delivered']
  if (status < 400) return ['redirect', 'refused']
  if (status === 408) return ['request_timeout', 'retry']
  if (status === 429) return ['throttled', 'retry']
  if (status < 500) return ['client_error', 'refused']
  return ['server_error', 'retry']
}

test.each(Array.from({ length: 500 }, (_, i) => 100 + i))('status %i has its verdict', (status) => {
  const { code, verdict, error } = judgeStatus(status)
  expect([code, verdict]).toEqual(expected(status))
  if (verdict === 'delivered') expect(error).toBeUndefined()
  else expect(error).toContain(`The endpoint answered ${status}`)
})

test.each([0, 99, 600, 999])('status %i is none, and worth another attempt', (status) => {
  expect(judgeStatus(status)).toMatchObject({ code: 'connection_failed', verdict: 'retry' })
})

test.each([
  [
    'https://other.example.com:8443/x?token=secret',
    ' and redirects to other.example.com:8443. Redirects',
  ],
  ['//other.example.com/x', ' and redirects to other.example.com. Redirects'],
  ['http://user:secret@169.254.169.254/', ' and redirects to 169.254.169.254. Redirects'],
  ['/login?token=secret', ' and redirects to another path of the same host. Redirects'],
  ['https://crm.example.com/hook/?token=secret', ' with a slash at its end. Redirects'],
  ['', ' and redirects to the same URL. Redirects'],
  ['?token=secret', ' and redirects to the same path with another query. Redirects'],
  ['http://crm.example.com/hook', ' and redirects to the same host with http://. Redirects'],
  ['http://[', '302. Redirects'],
  [undefined, '302. Redirects'],
])('a redirect to %s says where it leads, and tells no path', (location, words) => {
  const { error } = judgeStatus(302, location, new URL('https://crm.example.com/hook'))
  expect(error).toContain(words)
  expect(error).not.toContain('secret')
})

test('an address error keeps its code, verdict and words', () => {
  const error = new NoAddressError('address_refused', 'refused', 'No way.')
  expect(judgeError(error, HOST)).toEqual({
    code: 'address_refused',
    verdict: 'refused',
    error: 'No way.',
  })
})

test.each([
  ['ECONNREFUSED', 'connection_refused'],
  ['ECONNRESET', 'connection_reset'],
  ['EPIPE', 'connection_reset'],
  ['ECONNABORTED', 'connection_reset'],
  ['UND_ERR_SOCKET', 'connection_reset'],
  ['ETIMEDOUT', 'timeout'],
  ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
  ['EHOSTUNREACH', 'connection_failed'],
  ['ENETUNREACH', 'connection_failed'],
  ['EADDRNOTAVAIL', 'connection_failed'],
  ['EMFILE', 'connection_failed'],
  ['EACCES', 'connection_failed'],
  ['UND_ERR_HEADERS_OVERFLOW', 'connection_failed'],
  ['UND_ERR_DESTROYED', 'connection_failed'],
  ['EPROTO', 'tls_error'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls_error'],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'tls_error'],
  ['ERR_TLS_INVALID_PROTOCOL_VERSION', 'tls_error'],
  ['toString', 'connection_failed'],
  ['', 'connection_failed'],
])('the error %s is %s, and tried again', (code, outcome) => {
  const judgement = failing(code)
  expect(judgement).toMatchObject({ code: outcome, verdict: 'retry' })
  expect(judgement.error).toContain('as it says')
})

test.each([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'is self-signed', 'setting ca'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'comes from an unknown authority', 'setting ca'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'incomplete chain', 'setting ca'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'comes from an unknown issuer', 'whole chain'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'without the certificate of its issuer', 'whole chain'],
  ['CERT_HAS_EXPIRED', 'has expired', 'Renew'],
  ['CERT_REVOKED', 'is revoked', 'Renew'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'another host name', 'alternative names'],
  ['HOSTNAME_MISMATCH', 'another host name', 'issued again'],
  ['CERT_SIGNATURE_FAILURE', 'wrong signature', 'issued again'],
  ['INVALID_PURPOSE', 'not meant for servers', 'issued again'],
  ['CERT_CHAIN_TOO_LONG', 'too long', 'issued again'],
  ['UNSPECIFIED', 'is not accepted', 'outdated'],
])('the certificate error %s is refused, with its cause and its fix', (code, cause, fix) => {
  const { error, ...judgement } = failing(code)
  expect(judgement).toEqual({ code: 'tls_error', verdict: 'refused' })
  expect(error).toContain(`The certificate of ${HOST}`)
  expect(error).toContain(`(${code}: as it says): nothing was sent.`)
  expect(error).toContain(cause)
  expect(error).toContain(fix)
})

test('a certificate that is not valid yet is tried again: the clock of this machine may be behind', () => {
  const { error, ...judgement } = failing('CERT_NOT_YET_VALID')
  expect(judgement).toEqual({ code: 'tls_error', verdict: 'retry' })
  expect(error).toMatch(/is not valid yet .*nothing was sent\. .*clock/)
})

test.each([
  ['EHOSTUNREACH', 'has no route to it'],
  ['EACCES', 'does not permit the connection'],
  ['EMFILE', 'raise their limit (`ulimit -n`, or LimitNOFILE'],
  ['EADDRNOTAVAIL', 'no port is free'],
  ['EIO', 'Check the host and the port'],
])('the error %s of this machine comes with its fix', (code, fix) => {
  expect(failing(code).error).toContain(`could not be reached (${code}: as it says). `)
  expect(failing(code).error).toContain(fix)
})

describe('a timeout', () => {
  test('says whether anything was sent', () => {
    expect(judgeTimeout(5_000, true)).toEqual({
      code: 'timeout',
      verdict: 'retry',
      error: 'The endpoint did not answer within 5 s.',
    })
    expect(judgeTimeout(5_000, false).error).toContain('nothing was sent')
  })
})

test('an answer that is no HTTP is tried again', () => {
  expect(judgeError(new errors.HTTPParserError('Expected HTTP/'), HOST)).toEqual({
    code: 'connection_failed',
    verdict: 'retry',
    error:
      'crm.example.com answered with data that is not HTTP/1.1. Check the port of its URL: it may belong to something else, such as TLS or HTTP/2.',
  })
})

test('a redirect that only takes a slash away says so', () => {
  const from = new URL('https://crm.example.com/hook/')
  const { error } = judgeStatus(301, 'https://crm.example.com/hook', from)
  expect(error).toContain('redirects to the same path without the slash at its end.')
})

test('what is no error is a failure all the same', () => {
  expect(judgeError('odd', HOST)).toMatchObject({
    code: 'connection_failed',
    verdict: 'retry',
    error:
      'crm.example.com could not be reached (odd). Check the host and the port of its URL, and the network of this machine.',
  })
})
