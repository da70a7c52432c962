// Checks what `npm publish` would publish: packs it, installs it in an empty folder, and uses it there as
// customers do. What there is to use comes from the exports map, so new entries need no change here.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Our own promises to those who install it. */
const MAX_PACKED_BYTES = 80_000
const MAX_INSTALLED_KB = 1_800

const PUBLISHED = /^(dist\/.+\.(js|cjs|d\.ts|d\.cts)|package\.json|(README|CHANGELOG)\.md|LICENSE)$/

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'hookline-package-'))
const { name, version, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const specifiers = Object.keys(exports)
  .filter((subpath) => subpath !== './package.json')
  .map((subpath) => name + subpath.slice(1))

try {
  run('npm', ['run', '--silent', 'build'])
  const { tarball, packed } = pack()
  run('npx', ['publint', 'run', '--strict', tarball])
  run('npx', ['attw', '--no-definitely-typed', '--no-color', tarball])
  const installed = install(tarball)
  useAtRuntime()
  useTypes()
  const checked = `${specifiers.join(', ')} can be imported, required and type-checked`
  console.log(`${name} ${version}: ${packed}, ${installed}; ${checked}.`)
} finally {
  rmSync(folder, { recursive: true })
}

function pack() {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [{ filename, files, size }] = JSON.parse(read('npm', args, root))
  const unneeded = files.map(({ path }) => path).filter((path) => !PUBLISHED.test(path))
  check(unneeded.length === 0, `The tarball has files that nobody needs: ${unneeded.join(', ')}`)
  check(size < MAX_PACKED_BYTES, `The tarball has ${size} bytes, ${MAX_PACKED_BYTES} are too many.`)
  return { tarball: join(folder, filename), packed: `${files.length} files, ${size} bytes packed` }
}

function install(tarball) {
  mkdirSync(join(folder, 'app'))
  write('package.json', { private: true })
  read('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline', tarball])
  const kilobytes = Number.parseInt(read('du', ['-sk', 'node_modules']))
  check(
    kilobytes < MAX_INSTALLED_KB,
    `Installed it takes ${kilobytes} KB, ${MAX_INSTALLED_KB} are too many.`,
  )
  return `${kilobytes} KB installed`
}

/** Optional peers are absent here: entries that are made for one must load without it. */
function useAtRuntime() {
  write(
    'use.mjs',
    `
    import assert from 'node:assert/strict'
    import { createRequire } from 'node:module'

    const require = createRequire(import.meta.url)
    for (const specifier of ${JSON.stringify(specifiers)}) {
      const imported = await import(specifier)
      const required = require(specifier)
      assert.deepEqual(Object.keys(required).sort(), Object.keys(imported).sort(), specifier)
    }
    for (const { Analytics } of [await import('${name}'), require('${name}')]) {
      await new Analytics('k').close()
    }
    `,
  )
  run(process.execPath, ['use.mjs'], join(folder, 'app'))
}

function useTypes() {
  const calls = `
    import { Analytics } from '${name}'
    const analytics: Analytics = new Analytics('k')
    analytics.track({ userId: 'u1', event: 'Order Completed', properties: { total: 42 } })
    // @ts-expect-error: types that resolve to any would let this pass
    analytics.track({ userId: 1 })
  `
  const everyEntry = specifiers.map((specifier, i) => `import * as entry${i} from '${specifier}'`)
  const source = `
    ${everyEntry.join('\n')}
    ${calls}
    export const used = [${specifiers.map((_, i) => `entry${i}`).join(', ')}]
  `
  compile('esm.mts', source, { module: 'nodenext' })
  compile('bundled.ts', source, { module: 'preserve' })
  const node10 = { moduleResolution: 'node10', ignoreDeprecations: '6.0', esModuleInterop: true }
  compile('commonjs.ts', source, { module: 'commonjs', ...node10 })

  // The declarations themselves, as customers without skipLibCheck have them checked.
  const typeRoots = [join(root, 'node_modules/@types')]
  compile('strict.mts', calls, {
    module: 'nodenext',
    skipLibCheck: false,
    types: ['node'],
    typeRoots,
  })
}

function compile(file, source, options) {
  write(file, source)
  // With libraries checked, what an entry imports of a peer that is not installed would be an error.
  const always = { target: 'es2023', strict: true, noEmit: true, types: [], skipLibCheck: true }
  write('tsconfig.json', { compilerOptions: { ...always, ...options }, files: [file] })
  run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(folder, 'app')])
}

function check(isRight, problem) {
  if (!isRight) throw new Error(problem)
}

function write(file, content) {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  writeFileSync(join(folder, 'app', file), text)
}

function run(command, args, cwd = root) {
  execFileSync(command, args, { cwd, stdio: 'inherit' })
}

function read(command, args, cwd = join(folder, 'app')) {
  return execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}
