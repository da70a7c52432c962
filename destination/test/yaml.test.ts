// Every YAML file of the repository, and every YAML block of the documents, is what its readers expect.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseAllDocuments, parseDocument } from 'yaml'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const list = (...patterns: string[]) =>
  execFileSync('git', ['ls-files', ...patterns], { cwd: ROOT, encoding: 'utf8' })
    .trim()
    .split('\n')

const files = list('*.yaml', '*.yml').map((path) => [path, read(path)])
const blocks = list('*.md').flatMap((path) =>
  Array.from(read(path).matchAll(/^```ya?ml\n([^]*?)^```/gm), ([, text = '']) => [path, text]),
)

test.each([...files, ...blocks])('%s has no errors in its YAML', (_path, text = '') => {
  const problems = parseAllDocuments(text).flatMap(({ errors, warnings }) => [
    ...errors,
    ...warnings,
  ])
  expect(problems).toEqual([])
})

type Fields = Record<string, unknown>

interface Service extends Fields {
  healthcheck?: { test?: unknown }
}

describe.each(files.filter(([path = '']) => path.includes('compose')))('%s', (_path, text = '') => {
  const document = parseDocument(text, { merge: true }).toJS() as { services: Fields }

  test('has only texts in its commands, ports and volumes, as Compose demands', () => {
    const services = Object.values(document.services) as Service[]
    expect(services.length).toBeGreaterThan(0)
    for (const { command, entrypoint, ports, volumes, healthcheck } of services) {
      const texts = [command, entrypoint, ports, volumes, healthcheck?.test].flat()
      expect(texts.filter((item) => item !== undefined && typeof item !== 'string')).toEqual([])
    }
  })
})
