// What the documents say is so: they name what there is, no more and no less. Their code is tested by code.docs.test.ts.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import * as hookline from '../src/index.js'
import { checkOptions } from '../src/options.js'
import {
  anchorsOf,
  linksOf,
  readDocuments,
  relativeLinksOf,
  ROOT,
  rowsOf,
  type Document,
} from './documents.js'

const documents = readDocuments()
const readme = find('README.md')
const options = find('docs/options.md')

function find(path: string): Document {
  const document = documents.find((each) => each.path === path)
  if (!document) throw new Error(`there is no ${path}`)
  return document
}

describe('links', () => {
  const links = documents.flatMap((document) => linksOf(document).map((to) => ({ document, to })))

  test('between documents lead to a file that is there, and to a heading of it', () => {
    expect(links.length).toBeGreaterThan(40)
    const broken = links.filter(({ document, to }) => {
      const [file = '', anchor] = to.split('#')
      const path = file === '' ? document.path : join(dirname(document.path), file)
      if (!existsSync(join(ROOT, path))) return true
      // Of a folder there is nothing to show on npm or in the reference.
      if (!statSync(join(ROOT, path)).isFile()) return true
      if (anchor === undefined) return false
      const target = documents.find((each) => each.path === path)
      return !target || !anchorsOf(target).has(anchor)
    })
    expect(broken.map(({ document, to }) => `${document.path}: ${to}`)).toEqual([])
  })

  test('of what the packages carry lead to files that the package has, or to the web', () => {
    expect(relativeLinksOf(readme)).toEqual([])
    const { files } = JSON.parse(readFileSync(join(ROOT, 'destination/package.json'), 'utf8')) as {
      files: string[]
    }
    const outside = relativeLinksOf(find('destination/README.md')).filter(
      (to) => !files.some((file) => to === file || to.startsWith(`${file}/`)),
    )
    expect(outside).toEqual([])
  })

  test('of the index, or its words, lead to every document in docs', () => {
    const index = find('docs/README.md')
    const own = documents.map(({ path }) => path).filter((path) => path.startsWith('docs/'))
    const isNamed = (path: string) =>
      index.text.includes(path) || linksOf(index).includes(basename(path))
    expect(own.filter((path) => path !== index.path && !isNamed(path))).toEqual([])
  })
})

describe('options', () => {
  /** What the constructor says of an option. */
  function refusalOf(name: string): string {
    try {
      new hookline.Analytics('k', { [name]: true })
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }

  const named = (document: Document) =>
    rowsOf(document, 'Option').map(([name = '', byDefault = '']) => ({
      name: name.replaceAll('`', ''),
      byDefault: /^`([^`]+)`/.exec(byDefault)?.[1],
    }))

  test('that there are have a row each in docs/options.md, and no other has', () => {
    const [, list = ''] = /The options are (.+)\.$/.exec(refusalOf('nonsense')) ?? []
    expect(list.split(', ').length).toBeGreaterThan(16)
    expect(named(options).map(({ name }) => name)).toEqual(list.split(', '))
  })

  test.each([readme, options])('of $path have the defaults that they have', (document) => {
    const { flushAfterMs, timeoutMs, endpoint, ...others } = checkOptions('k', {})
    const defaults: Record<string, unknown> = {
      ...others,
      flushAfter: flushAfterMs,
      timeout: timeoutMs,
    }
    const rows = named(document)
    expect(rows.length).toBeGreaterThan(5)
    for (const { name, byDefault } of rows) {
      // Not a value but where it comes from; what it is in the end, another test holds.
      if (name === 'endpoint' || name === 'fetch' || name === 'size') continue
      const text = byDefault === undefined ? 'undefined' : byDefault.replaceAll("'", '')
      expect(`${name}: ${text}`).toBe(`${name}: ${String(defaults[name])}`)
    }
    const row = rowsOf(document, 'Option').find(([name]) => name === '`endpoint`')
    expect(row?.[1]).toContain(`\`${endpoint.origin}\``)
  })

  test.each([
    ['docs/from-segment-and-rudderstack.md', 'Search', 19],
    ['docs/from-go.md', 'Go', 8],
  ])('that other clients have are refused with what %s says of them', (path, heading, atLeast) => {
    const names = [...named(options).map(({ name }) => name), 'DEBUG=analytics']
    const codesIn = (cell: string) =>
      Array.from(cell.matchAll(/`([^`]+)`/g), ([, code = '']) => code)
    const rows = rowsOf(find(path), heading).map(([old = '', here = '']) => {
      const codes = codesIn(here).map((code) => code.replace(/: .*/, ''))
      return {
        old,
        removed: here.startsWith('remove'),
        meant: names.filter((name) => codes.includes(name)),
      }
    })
    const advised = rows.flatMap(({ old, removed, meant }) => {
      if (!removed && meant.length === 0) return []
      const olds = codesIn(old).map((code) => /^(?:client\.)?(\w+)(?:: .*)?$/.exec(code)?.[1] ?? '')
      return olds
        .filter((name) => name !== '' && !names.includes(name))
        .map((name) => {
          const [, advice = ''] = /^There is no option "\w+"\. (.*)$/.exec(refusalOf(name)) ?? []
          const given = advice.split(/[ ,?.]+/).filter((word) => names.includes(word))
          return { name, removed, meant, isRemoved: advice.startsWith('Remove it'), given }
        })
    })
    expect(advised.length).toBeGreaterThanOrEqual(atLeast)
    for (const { name, removed, meant, isRemoved, given } of advised) {
      expect({ name, isRemoved, given }).toEqual({
        name,
        isRemoved: removed,
        given: expect.toSatisfy(
          (words: string[]) => words.length > 0 && words.every((word) => meant.includes(word)),
        ) as string[],
      })
    }
  })

  test('of the spool have the rows and the defaults that they have', () => {
    const { spool } = checkOptions('k', { spool: { directory: '/d' } })
    const rows = rowsOf(find('docs/spool.md'), 'Option of `spool`')
    const defaults = rows.map(([name = '', byDefault = '']) => [
      name.replaceAll('`', ''),
      /^`([^`]+)`/.exec(byDefault)?.[1]?.replaceAll("'", '') ?? '/d',
    ])
    const expected = Object.entries(spool ?? {}).map(([name, value]) => [name, String(value)])
    expect(defaults).toEqual(expected)
  })
})

test('codes in the README are those of the errors that docs/errors.md has of the client', () => {
  const ofClient = rowsOf(find('docs/errors.md'), 'Code')
    .filter(([, name = '']) => name.replaceAll('`', '') in hookline)
    .map(([code]) => code)
  const [, section = ''] = /\n## Errors\n([^]*?)\n## /.exec(readme.text) ?? []
  const named = Array.from(
    section.matchAll(/`[a-z]+(?:_[a-z]+)+`|`(?:rejected|disabled|closed|spooled)`/g),
  )
  expect(ofClient.length).toBeGreaterThan(10)
  expect([...new Set(named.map(([code]) => code))].sort()).toEqual(ofClient.sort())
})

test('every entry of the package is named in the README or in docs', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, unknown>
  }
  const entries = Object.keys(exports).filter((path) => path !== './package.json')
  const text = documents.map((document) => document.text).join('\n')
  expect(entries.length).toBeGreaterThan(8)
  for (const entry of entries) expect(text).toContain(`hookline${entry.slice(1)}`)
})

test('the README that the package carries is at most 14 KB', () => {
  expect(Buffer.byteLength(readme.text)).toBeLessThanOrEqual(14_000)
})

describe('the figures of the README are those of bench/results.md', () => {
  const results = readFileSync(join(ROOT, 'bench/results.md'), 'utf8')
  const clients = ['hookline', 'segment', 'rudderstack', 'posthog', 'amplitude']

  /** The results of the clients that the README compares, by the names of the columns. */
  function measured(section: string, variant?: string): Record<string, string>[] {
    const prose = results.split('\n## ').find((each) => each.startsWith(section)) ?? ''
    const [, heads = ''] = /^\| (subject .*) \|$/m.exec(prose) ?? []
    const columns = heads.split('|').map((head) => head.trim())
    const rows = rowsOf({ ...readme, prose }, 'subject').map((cells) =>
      Object.fromEntries(columns.map((column, i) => [column, cells[i] ?? ''])),
    )
    return clients.map((client) => {
      const row = rows.find((one) => one['subject'] === client && one['variant'] === variant)
      if (!row) throw new Error(`${section} has no ${client}`)
      return row
    })
  }

  test.each([
    ['CPU of a call', 'A call in a loop', 'CPU x'],
    ['CPU of an event delivered, by default', '200,000 events', 'CPU x', 'flushAt 20'],
    ['CPU added at 500 events/s', '500 events a second', 'added CPU x'],
    ['loop blocked after 100,000 calls', '100,000 calls', 'loop blocked afterwards ms'],
    [`memory in an outage, to the events' JSON`, 'Outage', 'held / JSON bytes', 'port closed'],
    ['of 500,000 in an outage, lost silently', 'Outage', 'silently lost', 'port closed'],
    ['installed with dependencies', 'An install', 'KB on disk'],
  ])('%s', (name, section, column, variant?: string) => {
    const [, ...shown] = rowsOf(readme, '').find(([first]) => first === name) ?? []
    const expected = measured(section, variant).map(({ [column]: figure, note }, i) => {
      if (note && (shown[i] === '–' || figure === '–')) return '–'
      const rounded = shown[i]?.endsWith(' ms') ? figure?.replace(/\.\d+/, '') : figure
      return `${rounded}${note ? '*' : ''}`
    })
    expect(shown.map((cell) => cell.replace(/ (?:×|ms|KB)/, ''))).toEqual(expected)
  })

  test('in its sentences, too', () => {
    const [, date, node, cores] =
      /(\d+-\d+-\d+), Node (\d+\.\d+)\.\d+, (\d+) cores/.exec(results) ?? []
    expect(readme.text).toContain(`on ${cores} cores with Node ${node}, ${date}`)
    const [own, segment, rudderstack] = measured('Outage', 'port closed')
    expect(readme.text.replaceAll('\n', ' ')).toContain(
      `Segment made ${segment?.['made']} calls and RudderStack ${rudderstack?.['made']}, ` +
        `and hookline reported the ${own?.['reported lost']} events`,
    )
  })
})
