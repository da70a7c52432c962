// The documents of the repository as data: their code, their headings, their links.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))

export interface CodeBlock {
  /** Where it starts, for messages: `docs/options.md:31`. */
  readonly at: string
  readonly language: string
  /** What follows the language: `run` for a program that is run. */
  readonly flags: readonly string[]
  readonly code: string
}

export interface Document {
  /** Path from the root. */
  readonly path: string
  readonly text: string
  /** The text with the code of its blocks left out. */
  readonly prose: string
  readonly blocks: readonly CodeBlock[]
}

/** Every document that is written by hand. */
export function readDocuments(): Document[] {
  const docs = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'))
  const paths = [
    ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'],
    ...['destination/README.md', 'bench/README.md'],
    ...docs.map((name) => `docs/${name}`),
  ]
  return paths.map((path) => toDocument(path, readFileSync(join(ROOT, path), 'utf8')))
}

function toDocument(path: string, text: string): Document {
  const blocks: CodeBlock[] = []
  const fence = /^( *)(`{3,})(.*)\n([^]*?)^\1\2 *$/gm
  const prose = text.replace(fence, (all, _indent, _ticks, info: string, code, offset: number) => {
    const [language = '', ...flags] = info.trim().split(/\s+/)
    const line = text.slice(0, offset).split('\n').length
    blocks.push({ at: `${path}:${line}`, language, flags, code: String(code) })
    return '\n'.repeat(all.split('\n').length - 1)
  })
  return { path, text, prose, blocks }
}

/** The `@example`s of the doc comments in a source. */
export function readExamples(path: string): CodeBlock[] {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const examples = text.matchAll(/@example\n \s*\* ```(\w+)\n([^]*?)\n \s*\* ```/g)
  return Array.from(examples, ({ 1: language = '', 2: lines = '', index }) => ({
    at: `${path}:${text.slice(0, index).split('\n').length}`,
    language,
    flags: [],
    code: lines.replaceAll(/^ *\* ?/gm, ''),
  }))
}

/** The anchors of a document's headings, as GitHub makes them. */
export function anchorsOf({ prose }: Document): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of prose.matchAll(/^#{1,6} +(.+)$/gm)) {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const anchor = words.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-')
    let unique = anchor
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`
    anchors.add(unique)
  }
  return anchors
}

/** The addresses of the files of this repository, for documents that are read elsewhere: on npm, and in a tarball. */
const OWN_FILE =
  /^https:\/\/(?:github\.com\/hookline\/hookline\/blob|raw\.githubusercontent\.com\/hookline\/hookline)\/main\//

/** Where a document's links lead, relative to its folder, but for those to other sites. */
export function linksOf({ path, prose }: Document): string[] {
  const links = [...prose.matchAll(/\]\(([^()\s]+)\)/g), ...prose.matchAll(/^\[[^\]]+\]: (\S+)/gm)]
  return links
    .map(([, to = '']) => to)
    .map((to) => (OWN_FILE.test(to) ? relative(dirname(path), to.replace(OWN_FILE, '')) : to))
    .filter((to) => !/^[a-z]+:/.test(to))
}

/** The links of a document to files beside it. They lead nowhere in a tarball that does not contain these files. */
export function relativeLinksOf({ prose }: Document): string[] {
  const links = Array.from(prose.matchAll(/\]\(([^()\s]+)\)/g), ([, to = '']) => to)
  return links.filter((to) => !/^(?:[a-z]+:|#)/.test(to))
}

/** The rows of the tables in a document whose first column is headed so, without their headings. */
export function rowsOf({ prose }: Document, heading: string): string[][] {
  const rows: string[][] = []
  let isInside = false
  for (const line of prose.split('\n')) {
    const cells = line.startsWith('|')
      ? line
          .slice(1, line.lastIndexOf('|'))
          .split('|')
          .map((cell) => cell.trim())
      : undefined
    if (!cells) isInside = false
    else if (cells[0] === heading) isInside = true
    else if (isInside && !/^:?-+:?$/.test(cells[0] ?? '')) rows.push(cells)
  }
  return rows
}
