import { describe, expect, test } from 'vitest'
import { basicUser, createCredentials } from '../../src/collect/credentials.js'

const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`

test.each([
  [basic('KEY:'), 'KEY'],
  [basic('KEY'), 'KEY'],
  [basic('KEY:password'), 'KEY'],
  [basic('KEY:a:b'), 'KEY'],
  [basic('schlüssel:'), 'schlüssel'],
  [`basic   ${Buffer.from('KEY:').toString('base64')}`, 'KEY'],
  [basic(':'), ''],
  ['Basic ', ''],
  ['Basic %%%', ''],
  ['Basic', undefined],
  ['Bearer KEY', undefined],
  ['KEY', undefined],
  ['', undefined],
  [undefined, undefined],
])('the user in %j is %j', (authorization, user) => {
  expect(basicUser(authorization)).toBe(user)
})

describe('a write key', async () => {
  const sourceOf = await createCredentials()([
    { name: 'web', writeKey: 'WEB' },
    { name: 'app', writeKey: 'APP', otherWriteKey: 'OLD' },
  ])

  test.each([
    ['WEB', 'web'],
    ['APP', 'app'],
    ['OLD', 'app'],
    ['web', undefined],
    ['WEB ', undefined],
    ['WE', undefined],
    ['', undefined],
    ['__proto__', undefined],
  ])('%j is that of %j', (key, source) => {
    expect(sourceOf(key)).toBe(source)
  })
})
