import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { STATUSES } from '../../src/webhook/receive.js'

test('docs/errors.md has every code of a refusal with its status, and no other', () => {
  const text = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
  const rows = text.matchAll(/^\| `([a-z]+_[a-z_]+)` +\| (\d{3}) /gm)
  const documented = Array.from(rows, ([, code, status]) => [code, Number(status)])
  expect(Object.fromEntries(documented)).toEqual(STATUSES)
})
