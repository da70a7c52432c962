import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
const readme = read('../README.md')

describe('the table of the specification', () => {
  const rows = readme
    .slice(readme.indexOf('## The specification'))
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| line'))
    .map((line) => line.split('|').map((cell) => cell.trim()))

  test('names sources that are there', () => {
    const files = rows.flatMap(([, , done = '']) => Array.from(done.matchAll(/`([\w/-]+\.ts)`/g)))
    expect(files.length).toBeGreaterThan(20)
    for (const [, file = ''] of files) {
      expect(existsSync(new URL(`../src/${file}`, import.meta.url)), file).toBe(true)
    }
  })

  test('names tests that are there', () => {
    const tests = rows.flatMap(([, , , held = '']) =>
      Array.from(held.matchAll(/`([\w/-]+\.test\.ts)`: "(.+?)"/g)),
    )
    expect(tests.length).toBeGreaterThan(15)
    for (const [, file = '', name = ''] of tests) {
      const quoted = [`'${name}'`, `"${name}"`]
      expect(
        quoted.some((text) => read(file).includes(text)),
        `${file}: ${name}`,
      ).toBe(true)
    }
  })
})
