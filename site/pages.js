// Where each document of the repository is on the site, and where the links between them lead there.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Links to the repository, for readers of a tarball or of npmjs.com, and of images, which GitHub serves from there. */
const OWN_FILE =
  /^https:\/\/(?:github\.com\/hookline\/hookline\/blob|raw\.githubusercontent\.com\/hookline\/hookline)\/main\//

/** A site that is not at the root of its host says where it is: `DOCS_BASE=/hookline/ npm run docs`. */
export const BASE = process.env.DOCS_BASE ?? '/'

/** The copies of the documents and the pages of the reference, from which VitePress builds the site. */
export const PAGES = `${ROOT}/site/build/pages`

export const REPOSITORY = 'https://github.com/hookline/hookline'

/** The documents outside of `docs/`, and their pages. Each document in `docs/` is a page of the same name. */
const OTHERS = {
  'README.md': 'hookline.md',
  'destination/README.md': 'hookline-destination.md',
  'CHANGELOG.md': 'changelog.md',
  'CONTRIBUTING.md': 'contributing.md',
  'SECURITY.md': 'security.md',
  'bench/README.md': 'benchmarks.md',
  'bench/results.md': 'benchmark-results.md',
  'bench/results-destination.md': 'benchmark-results-destination.md',
  'docs/README.md': 'documents.md',
}

/** The page of each document, by its path in the repository. */
export function pagesByDocument() {
  const docs = readdirSync(`${ROOT}/docs`).filter((name) => name.endsWith('.md'))
  const guides = docs.filter((name) => name !== 'README.md').map((name) => [`docs/${name}`, name])
  return new Map([...Object.entries(OTHERS), ...guides])
}

/**
 * Where a link of a document leads on the site.
 *
 * @param document - the path of the document in the repository
 * @param link - as the document has it: relative, or an address on GitHub
 * @throws Error if it leads to a file that does not exist
 */
export function linkOnSite(pages, document, link) {
  if (!OWN_FILE.test(link) && (link.startsWith('#') || /^[a-z]+:/.test(link))) return link
  const [target, anchor] = link.split('#')
  const path = OWN_FILE.test(target)
    ? target.replace(OWN_FILE, '')
    : posix.normalize(posix.join(posix.dirname(document), target))
  const hash = anchor === undefined ? '' : `#${anchor}`
  const page = pages.get(path)
  if (page !== undefined) return `./${page}${hash}`
  if (!existsSync(`${ROOT}/${path}`)) throw new Error(`${document} has a dead link: ${link}`)
  const isServed = path.startsWith('docs/images/') || downloads().includes(path)
  if (isServed) return `./${path.slice('docs/'.length)}`
  return `${REPOSITORY}/blob/main/${path}${hash}`
}

/** Files beside the documents that programs read, such as an OpenAPI document. The site serves them as they are. */
export function downloads() {
  const names = readdirSync(`${ROOT}/docs`).filter((name) => /\.(?:json|ya?ml)$/.test(name))
  return names.map((name) => `docs/${name}`)
}

/** The navigation: the sections of docs/README.md, and in each the first link of every item. */
export function readIndex(pages) {
  const index = readFileSync(`${ROOT}/docs/README.md`, 'utf8')
  return index
    .split(/^\*\*(?=.+\*\*$)/m)
    .slice(1)
    .map((section) => {
      const [title = ''] = section.split('**')
      const links = Array.from(section.matchAll(/^- \[([^\]]+)\]\(([^)]+)\)/gm))
      const items = links.map(([, text, link]) => ({
        text,
        link: linkOnSite(pages, 'docs/README.md', link).replace(/^\.\//, '/'),
      }))
      return { text: title, items }
    })
}

/** The public entries of both packages: the names that a program imports. */
export function publicEntries() {
  const exportsOf = (folder) => {
    const { name, exports } = JSON.parse(readFileSync(`${ROOT}/${folder}/package.json`, 'utf8'))
    const paths = Object.keys(exports).filter((path) => path !== './package.json')
    return paths.map((path) => posix.join(name, path))
  }
  return [...exportsOf('.'), ...exportsOf('destination')].sort((a, b) => (a < b ? -1 : 1))
}

/** The classes, functions and types of a public entry, which have a page each. TypeDoc has written these pages. */
export function membersOf(entry) {
  const folder = `${PAGES}/reference/${entry}`
  const kinds = existsSync(folder) ? readdirSync(folder).filter((kind) => KINDS.has(kind)) : []
  const members = kinds.flatMap((kind) =>
    readdirSync(`${folder}/${kind}`).map((file) => ({
      text: file.replace(/\.md$/, ''),
      link: `/reference/${entry}/${kind}/${file}`,
    })),
  )
  return members.sort((a, b) => (a.text < b.text ? -1 : 1))
}

/** The folders of TypeDoc. A folder with another name belongs to another entry: `hookline/express`. */
const KINDS = new Set([
  'classes',
  'enumerations',
  'functions',
  'interfaces',
  'type-aliases',
  'variables',
])

/** The anchors that GitHub gives to headings, so that a link works there and here. */
export function slugOf(heading) {
  const words = heading.trim().toLowerCase()
  return words.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-')
}
