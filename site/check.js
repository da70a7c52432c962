// What a reader needs of the built site: each page is in its navigation, and each link and anchor leads somewhere.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { BASE, pagesByDocument, publicEntries } from './pages.js'

/**
 * Throws one error with everything that is wrong with a built site.
 *
 * @param folder - the folder with the built site
 */
export function checkSite(folder) {
  const pages = readPages(folder)
  const problems = [
    ...missingInNavigation(pages),
    ...pages.flatMap((page) => [...wrongTitles(page), ...deadLinks(page, pages, folder)]),
    ...missingInSearch(folder),
  ]
  if (problems.length > 0) throw new Error(`The site is wrong:\n${problems.join('\n')}`)
  const links = pages.reduce((sum, page) => sum + page.links.length, 0)
  return { pages: pages.length, links }
}

function readPages(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const names = files.map((file) => file.replaceAll('\\', '/')).filter((file) => isPage(file))
  return names.map((name) => {
    const html = readFileSync(join(folder, name), 'utf8')
    const [, navigation = ''] = /<aside class="VPSidebar"([^]*?)<\/aside>/.exec(html) ?? []
    const anchors = Array.from(html.matchAll(/\sid="([^"]+)"/g), ([, id]) => decode(id))
    return {
      name,
      html,
      titles: html.match(/<h1[\s>]/g)?.length ?? 0,
      anchors: new Set(anchors),
      links: linksOf(html),
      navigation: new Set(linksOf(navigation).map((link) => targetOf(name, link).name)),
    }
  })
}

const isPage = (file) => file.endsWith('.html') && file !== '404.html'

const linksOf = (html) =>
  Array.from(html.matchAll(/<(?:a|img)\s[^>]*?(?:href|src)="([^"]*)"/g), ([, link]) => decode(link))

/** Of the entities of HTML, these are in addresses. */
const decode = (text) =>
  text.replaceAll('&amp;', '&').replaceAll('&#39;', "'").replaceAll('&quot;', '"')

/** The file of the site and the anchor that a link of a page leads to. */
function targetOf(page, link) {
  const [path = '', anchor] = link.split('#')
  const inSite = path.startsWith(BASE)
    ? path.slice(BASE.length)
    : posix.join(posix.dirname(page), path)
  const name = path === '' ? page : posix.normalize(decodeURI(inSite))
  const file = name === '.' || name.endsWith('/') ? posix.join(name, 'index.html') : name
  return { name: file, anchor: anchor === undefined ? undefined : decodeURIComponent(anchor) }
}

function deadLinks(page, pages, folder) {
  const byName = new Map(pages.map((each) => [each.name, each]))
  const own = page.links.filter((link) => !/^(?:[a-z]+:|\/\/)/.test(link))
  return own.flatMap((link) => {
    const { name, anchor } = targetOf(page.name, link)
    if (!existsSync(join(folder, name))) return [`${page.name}: ${link} leads to no file`]
    if (anchor === undefined || anchor === '') return []
    const isThere = byName.get(name)?.anchors.has(anchor)
    return isThere ? [] : [`${page.name}: ${link} leads to no heading`]
  })
}

/** The navigation is made from this page. */
const INDEX = 'documents.html'

/** The home page has the name of the project as its title, and no navigation at its side. */
const hasNavigation = ({ name }) => name !== 'index.html'

function missingInNavigation(pages) {
  const documents = [...pagesByDocument().values()].map((page) => page.replace(/\.md$/, '.html'))
  const entries = publicEntries().map((entry) => `reference/${entry}/index.html`)
  const expected = [...documents, ...entries].filter((page) => page !== INDEX)
  return pages.filter(hasNavigation).flatMap(({ name, navigation }) => {
    const missing = expected.filter((page) => !navigation.has(page))
    return missing.map((page) => `the navigation of ${name} lacks ${page}`)
  })
}

const wrongTitles = ({ name, titles }) =>
  titles === 1 ? [] : [`${name} has ${titles} titles instead of one`]

/** The index of the local search is a script of its own, which has the titles of all pages. */
function missingInSearch(folder) {
  const chunks = join(folder, 'assets/chunks')
  const name = readdirSync(chunks).find((file) => file.startsWith('@localSearchIndexroot'))
  if (name === undefined) return ['the site has no index of its search']
  const index = readFileSync(join(chunks, name), 'utf8')
  const expected = [
    ...[...pagesByDocument().values()].map((page) => page.replace(/\.md$/, '.html')),
    ...publicEntries().map((entry) => `reference/${entry}/`),
  ]
  const missing = expected.filter((page) => !index.includes(`${BASE}${page}`))
  return missing.map((page) => `the search does not know ${page}`)
}
