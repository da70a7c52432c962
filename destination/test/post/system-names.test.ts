import { describe, expect, test } from 'vitest'
import { candidatesOf, parseCompletion, parseHosts } from '../../src/post/system-names.js'

test('a hosts file has addresses with their names, and comments', () => {
  const text = [
    '127.0.0.1\tlocalhost',
    '::1 localhost ip6-localhost   # loopback',
    '# 10.0.0.1 not.this',
    '10.0.0.7 Crm.Internal crm',
    'fe80::1%lo0 linklocal',
    'nonsense crm',
    '10.0.0.8',
    '',
    '10.0.0.9 crm\r',
  ].join('\n')
  expect(Object.fromEntries(parseHosts(text))).toEqual({
    localhost: [
      { address: '127.0.0.1', family: 4 },
      { address: '::1', family: 6 },
    ],
    'ip6-localhost': [{ address: '::1', family: 6 }],
    'crm.internal': [{ address: '10.0.0.7', family: 4 }],
    crm: [
      { address: '10.0.0.7', family: 4 },
      { address: '10.0.0.9', family: 4 },
    ],
    linklocal: [{ address: 'fe80::1%lo0', family: 6 }],
  })
})

test.each([
  ['', [], 1],
  ['nameserver 10.0.0.1\n', [], 1],
  ['search a.test b.test.\noptions ndots:5 timeout:2\n', ['a.test', 'b.test'], 5],
  ['domain a.test\n', ['a.test'], 1],
  ['domain a.test\nsearch b.test c.test\n', ['b.test', 'c.test'], 1],
  ['search b.test\ndomain a.test\n', ['a.test'], 1],
  ['; search no.test\n# search no.test\n  search a.test\r\noptions rotate ndots:0', ['a.test'], 0],
  ['search .\noptions ndots:99 ndots:x', [''], 15],
])('a resolv.conf with %j', (text, search, ndots) => {
  expect(parseCompletion(text)).toEqual({ search, ndots })
})

describe('a name stands for', () => {
  const search = ['x.test', 'y.test']

  test.each([
    ['crm', 1, ['crm.x.test', 'crm.y.test', 'crm']],
    ['crm.team', 1, ['crm.team', 'crm.team.x.test', 'crm.team.y.test']],
    ['crm.team', 5, ['crm.team.x.test', 'crm.team.y.test', 'crm.team']],
    ['crm', 0, ['crm', 'crm.x.test', 'crm.y.test']],
    ['crm.', 5, ['crm.']],
  ])('%s with ndots:%i', (name, ndots, expected) => {
    expect(candidatesOf(name, { search, ndots })).toEqual(expected)
  })

  test('no name that is too long', () => {
    const name = [60, 60, 60, 60, 6].map((length) => 'a'.repeat(length)).join('.')
    expect(candidatesOf(name, { search: ['x', 'yyyy'], ndots: 5 })).toEqual([`${name}.x`, name])
  })

  test('itself if the search domain is the root', () => {
    expect(candidatesOf('crm', { search: [''], ndots: 1 })).toEqual(['crm'])
  })
})
