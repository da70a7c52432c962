// Builds the site from the documents and from the doc comments, and checks it: `npm run docs`.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { build } from 'vitepress'
import { checkSite } from './check.js'
import { downloads, PAGES, pagesByDocument, ROOT } from './pages.js'

const site = join(ROOT, 'site')

rmSync(join(site, 'build'), { recursive: true, force: true })
copy('site/home.md', 'index.md')
copy('site/icon.svg', 'public/icon.svg')
copy('docs/images', 'images')
for (const file of downloads()) copy(file, file.replace('docs/', 'public/'))
for (const [document, page] of pagesByDocument()) copy(document, page)

try {
  // It fails for a public name without a description, and for a link in a doc comment that leads nowhere.
  const typedoc = join(site, 'node_modules/typedoc/bin/typedoc')
  execFileSync(process.execPath, [typedoc, '--logLevel', 'Warn'], { cwd: site, stdio: 'inherit' })

  await build(site) // It fails for a link to a page that does not exist.
  const { pages: count, links } = checkSite(join(site, 'build/site'))
  console.log(`site/build/site: ${count} pages, ${links} links and anchors checked`)
} catch (error) {
  console.error(error.message) // Errors of VitePress carry a list of every file.
  process.exitCode = 1
}

function copy(from, to) {
  const target = join(PAGES, to)
  mkdirSync(dirname(target), { recursive: true })
  cpSync(join(ROOT, from), target, { recursive: true })
}
