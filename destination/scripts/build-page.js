// Builds the operator's page into dist/page/: index.html, and its scripts and styles in assets/. The name of each asset
// contains a hash of its content, so that browsers may cache it for ever. `npm run build` runs this script.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const destination = fileURLToPath(new URL('..', import.meta.url))
const source = join(destination, 'page')
const out = join(destination, 'dist/page')

/** The icon of the browser tab. It is embedded in the page, because it is too small for a request of its own. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2251c4"/><path d="M7 9h5c6 0 6 7 11 7M7 23h5c6 0 6-7 11-7M7 16h15" fill="none" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/><circle cx="24" cy="16" r="3.5" fill="#fff"/></svg>`

/** Builds the page. The setup of the tests calls this function, too. */
export default async function buildPage() {
  rmSync(out, { recursive: true, force: true })
  const { metafile } = await build({
    absWorkingDir: source,
    entryPoints: ['main.tsx', 'style.css'],
    outdir: join(out, 'assets'),
    entryNames: 'hookline-[hash]',
    chunkNames: 'hookline-[hash]',
    bundle: true,
    // What is loaded later has a file of its own, and another one has what both need.
    splitting: true,
    minify: true,
    format: 'esm',
    // The style sheet needs light-dark(). All browsers that support it also support ES2023.
    target: 'es2023',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    metafile: true,
    // The hashes in the names include paths. Without this, a symlinked node_modules folder would change the names.
    preserveSymlinks: true,
    logLevel: 'warning',
  })
  const outputs = Object.entries(metafile.outputs)
  // Addresses are relative, so that a proxy may publish the page below a path.
  const asset = (entry) =>
    `assets/${basename(outputs.find(([, { entryPoint }]) => entryPoint === entry)[0])}`
  const html = readFileSync(join(source, 'index.html'), 'utf8')
    .replace('ICON', `data:image/svg+xml,${encodeURIComponent(ICON)}`)
    .replace('STYLE', asset('style.css'))
    .replace('SCRIPT', asset('main.tsx'))
  writeFileSync(join(out, 'index.html'), html)
  writeFileSync(join(out, 'LICENSES.txt'), licenses(Object.keys(metafile.inputs)))
}

/** The licences of the bundled packages. They must be distributed together with the bundle. */
function licenses(inputs) {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [])
  return Array.from(new Set(folders), (folder) => {
    const { name, version } = JSON.parse(readFileSync(join(source, folder, 'package.json'), 'utf8'))
    const text = readFileSync(join(source, folder, 'LICENSE'), 'utf8')
    return `${name} ${version}\n\n${text}`
  }).join('\n\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildPage()
