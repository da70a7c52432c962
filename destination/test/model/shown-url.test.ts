import { expect, test } from 'vitest'
import { withoutPassword } from '../../src/model/shown-url.js'

test.each([
  ['postgres://hookline:hush@db:5432/app', 'postgres://hookline:***@db:5432/app'],
  ['postgres://app@server:hush@db/app', 'postgres://app@server:***@db/app'],
  ['postgres://user:hu sh@db/app', 'postgres://user:***@db/app'],
  ['postgres://us\ner:hu\tsh@db/app', 'postgres://us\ner:***@db/app'],
  ['postgres://user:hu@s:h@[::1]:5432/app', 'postgres://user:***@[::1]:5432/app'],
  ['https:/user:hush@example.com/', 'https:/user:***@example.com/'],
])('%j is shown as %j', (url, shown) => {
  // What `URL` takes for the password is what is hidden.
  expect(new URL(url).password).not.toBe('')
  expect(withoutPassword(url)).toBe(shown)
})

test.each([
  'postgres://app@db:5432/app?host=/cloudsql/a:b:c',
  'postgres://[::1]:5432/app',
  'sqlite:./data/a:b@c.db',
  'https://example.com/hook?to=a:b@c',
])('%s has no password, and is shown as it is', (url) => {
  expect(withoutPassword(url)).toBe(url)
})
