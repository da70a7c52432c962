import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { version } from '../src/version.js'

test('the version is the one of the package', () => {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  expect(version).toBe((JSON.parse(manifest) as { version: string }).version)
})
