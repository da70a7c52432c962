// What keeps the supply chain of the repository closed.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from './documents.js'

const workflows = join(ROOT, '.github/workflows')

test.each(readdirSync(workflows))(
  '%s names every action by a hash, because tags can be moved',
  (file) => {
    const text = readFileSync(join(workflows, file), 'utf8')
    const actions = Array.from(text.matchAll(/uses: (.+)$/gm), ([, action = '']) => action)
    expect(actions.length).toBeGreaterThan(1)
    for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d/)
  },
)

test('both packages name the same repository, and where they are in it', () => {
  const manifest = (path: string) =>
    JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as {
      repository: { url: string; directory?: string }
      bugs: string
      version: string
    }
  const sdk = manifest('package.json')
  const destination = manifest('destination/package.json')
  expect(destination.repository).toEqual({ ...sdk.repository, directory: 'destination' })
  expect([destination.bugs, destination.version]).toEqual([sdk.bugs, sdk.version])
})

test.each(['package.json', 'destination/package.json'])(
  '%s has no script that an installation would run, about which pnpm asks',
  (path) => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as { scripts: object }
    expect(Object.keys(scripts)).toContain('build')
    for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) {
      expect(scripts).not.toHaveProperty(name)
    }
  },
)

test('the changelog has the form of Keep a Changelog, and says so while no version is published', () => {
  const text = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')
  const headings = (level: string) =>
    Array.from(text.matchAll(new RegExp(`^${level} (.+)$`, 'gm')), ([, heading = '']) => heading)
  const [unreleased, ...versions] = headings('##')
  expect(unreleased).toBe('Unreleased')
  for (const version of versions) expect(version).toMatch(/^\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$/)
  const kinds = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']
  expect(headings('###').filter((kind) => !kinds.includes(kind))).toEqual([])
  expect(text.includes('No version has been published yet')).toBe(versions.length === 0)
})
