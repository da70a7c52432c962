// Builds dist/: every entry as ESM and CommonJS. The types of both are in the `.d.cts` files.
//
// tsc checks and emits plain modules into build/, rollup joins them: few files load faster and take
// less room on disk than one file a module. What entries share lands in chunks, so that a class is
// the same class whichever entry it comes from.
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { nodeResolve } from '@rollup/plugin-node-resolve'
import { rollup } from 'rollup'
import { dts } from 'rollup-plugin-dts'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'))
const { dependencies, peerDependencies } = readJson('package.json')

/** The `paths` in tsconfig.json are the one list of the entries and their sources. */
const entries = Object.entries(readJson('tsconfig.json').compilerOptions.paths).map(
  ([specifier, [source]]) => ({
    name: specifier.split('/')[1] ?? 'index',
    module: source.replace(/^\.\/src\//, '').replace(/\.ts$/, ''),
  }),
)

const packages = Object.keys({ ...dependencies, ...peerDependencies })
const isPackage = (id, names) => names.some((name) => id === name || id.startsWith(`${name}/`))

const inputs = (extension) =>
  Object.fromEntries(entries.map(({ name, module }) => [name, `build/${module}${extension}`]))

/** Names entries after themselves, and chunks after the module that they are made of. */
const names = (extension) => ({
  entryFileNames: `[name]${extension}`,
  chunkFileNames: (chunk) => `${chunk.name.replace(/\.d$/, '')}${extension}`,
})

async function bundle(input, output) {
  const build = await rollup({
    ...input,
    onwarn: (warning) => {
      throw new Error(warning.message)
    },
  })
  await build.write({ dir: 'dist', ...output })
  await build.close()
}

rmSync('build', { recursive: true, force: true })
rmSync('dist', { recursive: true, force: true })
const tsc = (...flags) =>
  execFileSync(
    process.execPath,
    ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', ...flags],
    { stdio: 'inherit' },
  )
// Comments are for readers of the types; in the code they would be half of the package.
tsc('--declaration', 'false', '--removeComments')
tsc('--emitDeclarationOnly')

/** A tab for four spaces makes the package smaller by a tenth. */
const withTabs = (code) =>
  code.replaceAll(/^(?: {4})+/gm, (spaces) => '\t'.repeat(spaces.length / 4))

/** A template literal of several lines would change with the tabs. */
const tabs = {
  name: 'tabs',
  renderChunk: (code) => {
    const isWhole = (line) => line.split('`').length % 2 === 1
    const broken = code.split('\n').find((line) => !isWhole(line))
    if (broken !== undefined) {
      throw new Error(`a template literal has several lines, or a backtick is no \\x60: ${broken}`)
    }
    return withTabs(code)
  },
}

const external = (id) => id.startsWith('node:') || isPackage(id, packages)
await bundle({ input: inputs('.js'), external, plugins: [tabs] }, { format: 'es', ...names('.js') })

// uuid is published as ES modules only, which Jest's CommonJS projects can't require on Node 20 and 22:
// the CommonJS build carries the few lines of it that it uses.
await bundle(
  {
    input: inputs('.js'),
    external: (id) => external(id) && !isPackage(id, ['uuid']),
    plugins: [nodeResolve({ exportConditions: ['node'] }), tabs],
  },
  // What joins the modules is written short: the code of the modules stays as it is.
  { format: 'cjs', compact: true, interop: 'auto', ...names('.cjs') },
)

/**
 * Where an entry uses a type that it does not export, the plugin has it import the type from an entry that does, so that
 * customers' own declarations can name it. Entries that are made for a peer are no such source: who imports another one
 * need not have that peer.
 */
function declarations() {
  const plugin = dts()
  const isForPeer = (file) =>
    isPackage(file.replace(/\.d\.c?ts$/, ''), Object.keys(peerDependencies))
  return {
    ...plugin,
    generateBundle(options, files) {
      const others = Object.entries(files).filter(([file]) => !isForPeer(file))
      return plugin.generateBundle.call(this, options, Object.fromEntries(others))
    },
  }
}

/**
 * TypeScript declares private members as `#private`, which makes a class nominal: the class of the other build and a
 * fake in a test are then refused, though they have every public member.
 */
const structural = {
  name: 'structural',
  renderChunk: (code) => withTabs(code.replaceAll(/^\s*#private;\n/gm, '')),
}

await bundle(
  { input: inputs('.d.ts'), external, plugins: [declarations(), structural] },
  // Readers of the types, and of a report of them, meet the names that things have.
  { format: 'es', minifyInternalExports: false, ...names('.d.cts') },
)
// Both builds have the same types. An ES module may import CommonJS, but not the other way around.
for (const { name } of entries) {
  writeFileSync(`dist/${name}.d.ts`, `export * from './${name}.cjs';\n`)
}
