import { describe, expect, test } from 'vitest'
import { createAddressRule } from '../../src/model/address.js'

describe('with no network allowed', () => {
  const isAllowed = createAddressRule([])

  test.each([
    ['0.0.0.0', '0.255.255.255'],
    ['10.0.0.0', '10.255.255.255'],
    ['100.64.0.0', '100.127.255.255'],
    ['127.0.0.0', '127.255.255.255'],
    ['168.63.129.16', '168.63.129.16'],
    ['169.254.0.0', '169.254.169.254'],
    ['172.16.0.0', '172.31.255.255'],
    ['192.0.0.0', '192.0.0.192'],
    ['192.0.2.0', '192.0.2.255'],
    ['192.88.99.0', '192.88.99.255'],
    ['192.168.0.0', '192.168.255.255'],
    ['198.18.0.0', '198.19.255.255'],
    ['198.51.100.0', '198.51.100.255'],
    ['203.0.113.0', '203.0.113.255'],
    ['224.0.0.0', '239.255.255.255'],
    ['240.0.0.0', '255.255.255.255'],
    ['::', '::1'],
    ['::127.0.0.1', '::7f00:1'],
    ['::ffff:127.0.0.1', '::ffff:7f00:1'],
    ['0:0:0:0:0:ffff:a9fe:a9fe', '::ffff:10.1.2.3'],
    ['::ffff:0:127.0.0.1', '::ffff:0:0a00:1'],
    ['64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe'],
    ['64:ff9b:1::', '64:ff9b:1:ffff::1'],
    ['100::', '100::ffff:ffff:ffff:ffff'],
    ['2001::', '2001:1ff:ffff::'],
    ['2001:db8::', '2001:db8:ffff::1'],
    ['2002:7f00:1::', '2002:ffff::'],
    ['3fff::', '3fff:fff::'],
    ['5f00::', '5f00:ffff::'],
    ['fc00::', 'fd00:ec2::254'],
    ['fe80::1', 'fe80::1%eth0'],
    ['febf::1', 'fec0::1'],
    ['ff00::', 'ff02::1'],
  ])('%s and %s are refused', (first, second) => {
    expect([isAllowed(first), isAllowed(second)]).toEqual([false, false])
  })

  test.each([
    ['1.1.1.1', '9.255.255.255'],
    ['11.0.0.0', '100.63.255.255'],
    ['100.128.0.0', '126.255.255.255'],
    ['128.0.0.0', '169.253.255.255'],
    ['169.255.0.0', '172.15.255.255'],
    ['172.32.0.0', '192.0.1.0'],
    ['192.167.255.255', '192.169.0.0'],
    ['168.63.129.15', '168.63.129.17'],
    ['198.17.255.255', '198.20.0.0'],
    ['223.255.255.255', '8.8.8.8'],
    ['::ffff:8.8.8.8', '2606:4700:4700::1111'],
    ['2001:200::1', '2001:4860:4860::8888'],
    ['2003::1', '2a00:1450::1'],
  ])('%s and %s are reached', (first, second) => {
    expect([isAllowed(first), isAllowed(second)]).toEqual([true, true])
  })

  test.each(['', 'localhost', '127.1', '2130706433', '0x7f.0.0.1', '[::1]', '1.2.3.4/8'])(
    '%j is no address, and refused',
    (text) => {
      expect(isAllowed(text)).toBe(false)
    },
  )
})

test('an allowed network is reached, its neighbours are not', () => {
  const isAllowed = createAddressRule(['10.20.0.0/16', '192.168.1.7', 'fd12::/16', '::1'])
  const reached = ['10.20.3.4', '::ffff:10.20.3.4', '192.168.1.7', 'fd12:1::1', '::1']
  const refused = ['10.21.0.0', '::ffff:10.21.0.0', '192.168.1.8', 'fd13::1', '127.0.0.1']
  expect(reached.filter(isAllowed)).toEqual(reached)
  expect(refused.filter(isAllowed)).toEqual([])
})

test.each(['', 'localhost', '10.0.0.0/33', '::/129', '10.0.0.0/8/8', '10.0.0.0/', '10.0.0.0/-1'])(
  'the network %j is an error that says what is meant',
  (network) => {
    expect(() => createAddressRule([network])).toThrow(
      `allowNetworks must contain networks such as 10.20.0.0/16 or fd00::/8, got '${network}'`,
    )
  },
)

// A URL can write one address in many ways. The URL parser turns all of them into the form that the rule checks.
test.each([
  'http://2130706433/',
  'http://0x7f.1/',
  'http://0x7f000001/',
  'http://0177.0.0.1/',
  'http://017700000001/',
  'http://127.1/',
  'http://127.0.0.1./',
  'http://0/',
  'http://①②⑦.⓪.⓪.①/',
  'http://127。0。0。1/',
  'http://%31%32%37.0.0.1/',
  'http://[::ffff:127.0.0.1]/',
  'http://[0:0:0:0:0:FFFF:7F00:1]/',
  'http://[::127.0.0.1]/',
  'http://[::1]/',
  'http://[::]/',
])('the host of %s is refused', (url) => {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  expect(createAddressRule([])(host)).toBe(false)
  expect(createAddressRule(['0.0.0.0/0', '::/0'])(host)).toBe(true)
})

test('a URL has no place for a zone', () => {
  expect(URL.canParse('http://[fe80::1%25eth0]/')).toBe(false)
})
