// Writes what an installation of each package consists of (CycloneDX, into sbom/), and checks that all of it may be used
// by anyone: `npm run licences`. Packages are resolved as a customer's npm does, so the ranges decide, not our lock file.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, pack, project, root } from './workbench.js'

/** Licences that ask for no more than their text and a notice (SPDX). */
const PERMISSIVE = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Python-2.0',
  'Unlicense',
])

const sdk = pack(root, /./).tarball
const destination = pack(join(root, 'destination'), /./).tarball
mkdirSync(join(root, 'sbom'), { recursive: true })
examine('hookline', 'package.json', sdk)
examine('hookline-destination', 'destination/package.json', sdk, destination)

function examine(name, manifest, ...tarballs) {
  const { version } = JSON.parse(readFileSync(join(root, manifest), 'utf8'))
  const app = project(name, { name: `${name}-installation`, version })
  app.install('--package-lock-only', ...tarballs)
  const args = ['sbom', '--silent', '--package-lock-only', '--sbom-format', 'cyclonedx']
  const bom = JSON.parse(app.read('npm', args))
  const components = bom.components.map(withoutLocalPaths)
  check(
    components.some((component) => component.name === name),
    `The SBOM lacks ${name} itself.`,
  )
  const refused = components.filter((component) => !isPermissive(component.licenses))
  const named = refused.map(({ name, licenses }) => `${name}: ${JSON.stringify(licenses)}`)
  check(refused.length === 0, `Not known to be permissive:\n${named.join('\n')}`)
  const file = join('sbom', `${name}-${version}.cdx.json`)
  writeFileSync(join(root, file), `${JSON.stringify({ ...bom, components }, null, 2)}\n`)
  console.log(`${name} ${version}: ${components.length} packages, all permissive; ${file}`)
}

/** Our own tarballs lay in a temporary folder. */
function withoutLocalPaths(component) {
  const externalReferences = component.externalReferences?.filter(
    ({ url }) => !url.startsWith('file:'),
  )
  return { ...component, externalReferences }
}

/** An SPDX expression offers alternatives, each of which may join several licences. */
function isPermissive(licences = []) {
  const expressions = licences.map(({ license, expression }) => expression ?? license?.id ?? '')
  const isAllowed = (id) => PERMISSIVE.has(id.replace(/[()]/g, '').trim())
  const isFine = (expression) =>
    expression.split(' OR ').some((joined) => joined.split(' AND ').every(isAllowed))
  return expressions.length > 0 && expressions.every(isFine)
}
