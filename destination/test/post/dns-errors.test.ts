import { expect, test } from 'vitest'
import { describeDnsError } from '../../src/post/dns-errors.js'

test.each([
  ['ENOTFOUND', 'DNS does not know it', /^Check the DNS records of the name/],
  ['ENODATA', 'it has no A or AAAA record', /^Check the DNS records of the name/],
  ['ETIMEOUT', 'no name server answered in time', /resolv\.conf.*If only this name fails/],
  ['ESERVFAIL', 'the name servers failed', /DNSSEC/],
  ['EREFUSED', 'the name servers refused the question', /resolv\.conf/],
  ['ECONNREFUSED', 'no name server is running', /resolv\.conf/],
  ['EBADNAME', 'it is not a valid host name', /URL/],
  ['EAI_AGAIN', 'the lookup failed', /^Check the DNS records of the name/],
  ['toString', 'the lookup failed', /^Check the DNS records of the name/],
])('%s is described with its fix', (code, reason, fix) => {
  const described = describeDnsError('hook.test', Object.assign(new Error('query'), { code }))
  expect(described.found).toBe(`The name hook.test could not be resolved (${code}): ${reason}.`)
  expect(described.fix).toMatch(fix)
})

test('an error without a code is described by its message', () => {
  const { found } = describeDnsError('hook.test', new Error('out of order'))
  expect(found).toBe('The name hook.test could not be resolved (out of order): the lookup failed.')
})
