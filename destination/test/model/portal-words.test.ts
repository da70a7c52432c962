import type { LookupAddress } from 'node:dns'
import { describe, expect, test } from 'vitest'
import { causeOf } from '../../src/model/cause.js'
import { portalWords } from '../../src/model/portal-words.js'
import { judgeError } from '../../src/post/classify.js'
import { describeDnsError } from '../../src/post/dns-errors.js'
import { createGuard } from '../../src/post/guard.js'

const NO_ADDRESS = 'The endpoint has no public address: nothing was sent.'

/** The error of an attempt at a host whose name has some addresses. */
function errorAt(host: string, ...addresses: string[]): string {
  const found = addresses.map((address): LookupAddress => ({ address, family: 4 }))
  const guard = createGuard([], (_name, callback) => {
    callback(null, found)
  })
  let error: unknown = guard.refusal(host)
  if (error === undefined) guard.lookup(host, {}, (refused) => (error = refused))
  return judgeError(error, host).error ?? ''
}

const dnsError = (code: string) => {
  const { found, fix } = describeDnsError('vm', Object.assign(new Error(code), { code }))
  return { found, whole: `${found} ${fix}` }
}

const connectError = (code: string, message: string) =>
  judgeError(Object.assign(new Error(message), { code }), 'vm:22').error ?? ''

describe('the words for a tenant', () => {
  test.each([
    ['an address', errorAt('10.1.2.3')],
    ['a name', errorAt('vm', '10.1.2.3')],
    ['a name with several addresses', errorAt('vm', '10.1.2.3', 'fd00::1', '127.0.0.1')],
    ['the cause of a dead letter, which is cut off', causeOf(errorAt('vm', '10.1.2.3'), '')],
    [
      'one that is cut off in its addresses',
      causeOf(errorAt('vm', ...Array<string>(20).fill('10.1.2.3')), ''),
    ],
  ])('say neither which address is refused nor how to allow it: %s', (_, error) => {
    expect(error).toMatch(/10\.1\.2\.3/)
    expect(portalWords(error)).toBe(NO_ADDRESS)
    expect(portalWords(NO_ADDRESS)).toBe(NO_ADDRESS)
    const reason = `every endpoint refused it: ${error}`
    expect(portalWords(reason)).toBe(`every endpoint refused it: ${NO_ADDRESS}`)
  })

  test.each(['ENOTFOUND', 'ENODATA', 'ETIMEOUT', 'ESERVFAIL', 'EREFUSED', 'ECONNREFUSED', 'X'])(
    'say why a name could not be resolved, and not what to check on the machine: %s',
    (code) => {
      const { found, whole } = dnsError(code)
      expect(portalWords(whole)).toBe(found)
      expect(portalWords(found)).toBe(found)
    },
  )

  test.each<[code: string, message: string, words: string]>([
    ['ECONNREFUSED', 'connect ECONNREFUSED 10.1.2.3:22', 'vm:22 refused the connection'],
    [
      'EHOSTUNREACH',
      'connect EHOSTUNREACH 10.1.2.3:22 - Local (10.9.9.9:40000)',
      'vm:22 could not be reached',
    ],
    [
      'UND_ERR_CONNECT_TIMEOUT',
      'Connect Timeout Error (attempted address: 10.1.2.3:22)',
      'vm:22 could not be reached in time: nothing was sent',
    ],
  ])('say that no connection was made, and not to which address: %s', (code, message, words) => {
    const error = connectError(code, message)
    expect(error).toContain('10.1.2.3')
    expect(portalWords(error)).toBe(`${words} (${code}).`)
    expect(portalWords(portalWords(error))).toBe(portalWords(error))
  })

  test.each([
    'The endpoint answered 503.',
    'vm:22 closed the connection before it answered (ECONNRESET: read ECONNRESET).',
    'no: the address of the customer is private',
  ])('are those of any other error: %s', (error) => {
    expect(portalWords(error)).toBe(error)
  })
})
