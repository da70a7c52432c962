import { defineConfig } from 'vitepress'
import {
  BASE,
  linkOnSite,
  membersOf,
  pagesByDocument,
  publicEntries,
  readIndex,
  REPOSITORY,
  slugOf,
} from '../pages.js'

const pages = pagesByDocument()
const documents = new Map(Array.from(pages, ([document, page]) => [page, document]))

const reference = publicEntries().map((entry) => ({
  text: entry,
  link: `/reference/${entry}/`,
  collapsed: true,
  items: membersOf(entry),
}))

const groups = readIndex(pages)
groups.splice(-2, 0, { text: 'API reference', items: reference }) // before "Background" and "Project"

// A group opens by itself on its own pages.
const sidebar = groups.map((group, index) => ({ ...group, collapsed: index > 0 }))

export default defineConfig({
  title: 'hookline',
  description:
    'Server-side analytics for Node, and a destination that forwards every call as a signed webhook.',
  lang: 'en',
  base: BASE,
  srcDir: 'build/pages',
  outDir: 'build/site',
  head: [['link', { rel: 'icon', href: `${BASE}icon.svg` }]],
  vite: { build: { chunkSizeWarningLimit: 4000 } }, // the index of the search is one file
  cacheDir: 'build/cache',
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => {
      md.core.ruler.push('links-of-the-repository', ({ tokens, env }) => {
        const document = documents.get(env.relativePath)
        if (document !== undefined) translateLinks(tokens, document)
      })
    },
  },
  themeConfig: {
    nav: [
      { text: 'Guides', link: '/documents', activeMatch: '^/(?!reference|changelog|$)' },
      { text: 'API reference', link: '/reference/hookline/', activeMatch: '^/reference/' },
      { text: 'Changelog', link: '/changelog' },
    ],
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    editLink: {
      text: 'Edit this page on GitHub',
      // It becomes part of the pages as text, so it can use nothing from this file.
      pattern: ({ frontmatter }) =>
        `https://github.com/hookline/hookline/edit/main/${frontmatter.document}`,
    },
  },
  transformPageData({ filePath, frontmatter }) {
    // The reference has no document: it is made from comments in many sources.
    frontmatter.document = documents.get(filePath)
    if (frontmatter.document === undefined) frontmatter.editLink = false
  },
})

/** Links of a document lead to pages of the site, or else to GitHub. */
function translateLinks(tokens, document) {
  for (const token of tokens) {
    for (const name of ['href', 'src']) {
      const link = token.attrGet(name)
      if (link) token.attrSet(name, linkOnSite(pages, document, link))
    }
    if (token.children) translateLinks(token.children, document)
  }
}
