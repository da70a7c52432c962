// Builds the page for whoever runs the destination into dist/page/: index.html, and what it loads in assets/, each file
// named after what is in it, so that browsers may keep it for ever. `npm run build` runs it.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const destination = fileURLToPath(new URL('..', import.meta.url))
const source = join(destination, 'page')
const out = join(destination, 'dist/page')

/** Three lines that become one point: what the tab shows. In the page itself, as it is too small for a request. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2251c4"/><path d="M7 9h5c6 0 6 7 11 7M7 23h5c6 0 6-7 11-7M7 16h15" fill="none" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/><circle cx="24" cy="16" r="3.5" fill="#fff"/></svg>`

/** The tests call it too, once for all of them. */
export default async function buildPage() {
  rmSync(out, { recursive: true, force: true })
  const { metafile } = await build({
    absWorkingDir: source,
    entryPoints: ['main.tsx', 'style.css'],
    outdir: join(out, 'assets'),
    entryNames: 'hookline-[hash]',
    bundle: true,
    minify: true,
    format: 'esm',
    // Browsers that know light-dark(), which the style sheet needs, know all of this.
    target: 'es2023',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    metafile: true,
    // Names are made of paths too: those of the packages are as they are written, wherever they lie.
    preserveSymlinks: true,
    logLevel: 'warning',
  })
  const names = Object.keys(metafile.outputs).map((path) => basename(path))
  const asset = (extension) => `/assets/${names.find((name) => name.endsWith(extension))}`
  const html = readFileSync(join(source, 'index.html'), 'utf8')
    .replace('ICON', `data:image/svg+xml,${encodeURIComponent(ICON)}`)
    .replace('STYLE', asset('.css'))
    .replace('SCRIPT', asset('.js'))
  writeFileSync(join(out, 'index.html'), html)
  writeFileSync(join(out, 'LICENSES.txt'), licenses(Object.keys(metafile.inputs)))
}

/** What is bundled is distributed: its licences want to be, too. */
function licenses(inputs) {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [])
  return Array.from(new Set(folders), (folder) => {
    const { name, version } = JSON.parse(readFileSync(join(source, folder, 'package.json'), 'utf8'))
    const text = readFileSync(join(source, folder, 'LICENSE'), 'utf8')
    return `${name} ${version}\n\n${text}`
  }).join('\n\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildPage()
