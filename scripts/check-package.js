// Checks what `npm publish` would publish of the SDK: packs it, installs it in an empty folder, and uses it there as
// customers do. What there is to use comes from the exports map, so new entries need no change here.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, installedKb, pack, project, root, run, typeRoots, typescript } from './workbench.js'

/** Our own promises to those who install it. The spool is 21 KB of it, and the request context 5 KB, for ESM and CommonJS together. */
const MAX_PACKED_BYTES = 134_000
const MAX_INSTALLED_KB = 1_820

const PUBLISHED = /^(dist\/.+\.(js|cjs|d\.ts|d\.cts)|package\.json|(README|CHANGELOG)\.md|LICENSE)$/

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const { name, version, exports, peerDependencies } = manifest
const specifiers = Object.keys(exports)
  .filter((subpath) => subpath !== './package.json')
  .map((subpath) => name + subpath.slice(1))

run('npm', ['run', '--silent', 'build'])
const { tarball, size, files } = pack(root, PUBLISHED)
check(size < MAX_PACKED_BYTES, `The tarball has ${size} bytes, ${MAX_PACKED_BYTES} are too many.`)
run('npx', ['publint', 'run', '--strict', tarball])
run('npx', ['attw', '--no-definitely-typed', '--no-color', tarball])
const app = project('app')
app.install('--engine-strict', tarball)
const kilobytes = installedKb(app)
check(
  kilobytes < MAX_INSTALLED_KB,
  `Installed it takes ${kilobytes} KB, ${MAX_INSTALLED_KB} are too many.`,
)
useAtRuntime()
useTypes()
const sizes = `${files} files, ${size} bytes packed, ${kilobytes} KB installed`
const checked = `${specifiers.join(', ')} can be imported, required and type-checked`
console.log(`${name} ${version}: ${sizes}; ${checked}.`)

/**
 * Optional peers are absent here: entries that are made for one must load without it. The ids of the two builds, of which
 * one carries its own copy of uuid, are of version 7, rise, and differ. One request context works with the clients of both.
 */
function useAtRuntime() {
  app.write(
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
    const { createRequestContext } = await import('${name}/request-context')
    const ids = []
    for (const { Analytics } of [await import('${name}'), require('${name}')]) {
      const sent = []
      const fetch = async (url, { body }) => {
        sent.push(...JSON.parse(new TextDecoder().decode(body)).batch)
        return new Response()
      }
      const analytics = new Analytics('k', { fetch })
      const request = createRequestContext(analytics)
      const record = async (userId) => {
        for (let i = 0; i < 500; i++) request.track({ event: userId })
        await undefined
        for (let i = 0; i < 500; i++) request.track({ event: userId })
      }
      await Promise.all(['u1', 'u2'].map((userId) => request.run({ userId }, () => record(userId))))
      await analytics.close()
      assert.ok(sent.every(({ userId, event }) => userId === event))
      const own = sent.map(({ messageId }) => messageId)
      for (const id of own) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.deepEqual(own, own.toSorted())
      ids.push(...own)
    }
    assert.equal(new Set(ids).size, 4_000)
    `,
  )
  app.run(process.execPath, ['use.mjs'])
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

  // The declarations themselves, as customers without skipLibCheck have them checked, and without the optional peers.
  const isForPeer = (specifier) => specifier.slice(name.length + 1) in peerDependencies
  const others = specifiers.filter((specifier) => !isForPeer(specifier))
  compile('strict.mts', `${others.map((other) => `import '${other}'`).join('\n')}${calls}`, {
    module: 'nodenext',
    skipLibCheck: false,
    types: ['node'],
    typeRoots,
  })
}

function compile(file, source, options) {
  app.write(file, source)
  // With libraries checked, what an entry imports of a peer that is not installed would be an error.
  const always = { target: 'es2023', strict: true, noEmit: true, types: [], skipLibCheck: true }
  app.write('tsconfig.json', { compilerOptions: { ...always, ...options }, files: [file] })
  app.run(process.execPath, [typescript, '-p', '.'])
}
