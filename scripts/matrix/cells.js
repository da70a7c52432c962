// The cells of the matrix: each makes a project with the packed SDK, uses it, and says what it did. The ranges of what
// they install are open above: the matrix is there to see what tomorrow's versions do.
import { execFile } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { check, root, typeRoots, typescript } from '../workbench.js'
import { thereAndBack, withDestination } from './there-and-back.js'

const execute = promisify(execFile)

/** Something that a cell needs can't be had on this machine. */
export class Missing extends Error {}

export const cells = {
  node20: (ground) => suite(ground, '20.19'),
  node22: (ground) => suite(ground, '22'),
  node24: (ground) => suite(ground, '24'),
  node26: (ground) => suite(ground, '26'),
  bun,
  deno,
  workerd,
  jest,
  commonjs,
  nodenext,
  esbuild,
}

/** The SDK's own tests against the built package, on another Node. */
async function suite({ make, tarball }, version) {
  const app = make()
  install(app, tarball)
  const asked = ['--yes', '--package', `node@${version}`, 'node', '-p', 'process.execPath']
  const node = await had(`node@${version}`, execute('npx', asked, { cwd: app.at }))
  // Fewer processes side by side than by default: each has its deadline, and the machine may be busy.
  const args = ['run', '--project', 'hookline*', '--maxConcurrency=4', '--reporter=dot']
  const { stdout } = await execute(node, ['node_modules/vitest/vitest.mjs', ...args], {
    cwd: root,
    env: { ...process.env, NO_COLOR: '1', HOOKLINE_PACKAGE: join(app.at, 'node_modules/hookline') },
    maxBuffer: 64 * 1024 * 1024,
  })
  const tests = /Tests +(.+)/.exec(stdout)?.[1]
  return `${await printed(app, node, ['--version'])}, the test suite: ${tests}`
}

async function bun({ make, tarball }) {
  const app = make({ type: 'module' })
  install(app, tarball, 'bun@1', '@types/bun@1')
  take(app, 'app.ts', 'bun.js', '../types/consumer.ts')
  const command = bin(app, 'bun')
  const version = await printed(app, command, ['--version'])
  const types = { types: ['bun'], typeRoots: ['node_modules/@types'], noEmit: true }
  await compile(app, ['app.ts', 'consumer.ts'], { module: 'preserve', ...types })
  return `Bun ${version}, type-checked, ${await thereAndBack(app, command, ['bun.js'])}`
}

async function deno({ make, tarball }) {
  const app = make({ type: 'module' })
  install(app, tarball, 'deno@2')
  take(app, 'app.ts', 'deno.js', '../types/consumer.ts')
  const command = bin(app, 'deno')
  const version = await printed(app, command, ['--version'])
  await execute(command, ['check', 'app.ts', 'consumer.ts'], { cwd: app.at })
  const flags = ['--allow-net', '--allow-env', '--allow-read', '--unstable-sloppy-imports']
  return `${version.split(' (')[0]}, type-checked, ${await thereAndBack(app, command, ['run', ...flags, 'deno.js'])}`
}

/** Bundled as wrangler bundles Workers, and served by the runtime itself. */
async function workerd({ make, tarball }) {
  const app = make({ type: 'module' })
  install(app, tarball, 'workerd@1', 'esbuild@0')
  take(app, 'app.ts', 'worker.js', 'worker.capnp')
  const conditions = ['--conditions=workerd,worker,browser', '--platform=browser']
  const format = ['--format=esm', '--external:node:*', '--outfile=worker.bundled.js']
  await execute(bin(app, 'esbuild'), ['worker.js', '--bundle', ...conditions, ...format], {
    cwd: app.at,
  })
  const command = bin(app, 'workerd')
  const address = (port) => ['serve', 'worker.capnp', `--socket-addr=http=127.0.0.1:${port}`]
  return `${await printed(app, command, ['--version'])}, ${await thereAndBack(app, command, address)}`
}

async function jest({ make, tarball }) {
  const app = make()
  install(app, tarball, 'jest@30', '@jest/globals@30')
  take(app, 'hookline.test.cjs')
  await compile(app, ['hookline.test.cjs'], {
    module: 'nodenext',
    allowJs: true,
    checkJs: true,
    noEmit: true,
  })
  app.write('jest.config.cjs', 'module.exports = { testMatch: ["**/*.test.cjs"] }')
  await withDestination(app, 'http://127.0.0.1:9/webhook', (env) =>
    execute(bin(app, 'jest'), ['--ci'], { cwd: app.at, env: { ...process.env, ...env } }),
  )
  return `Jest ${await printed(app, bin(app, 'jest'), ['--version'])}, CommonJS, type-checked`
}

/**
 * A decorated class whose constructor takes the client. The compiler writes down the types of parameters, by which a
 * framework with dependency injection finds what to pass.
 */
const INJECTED = `
import 'reflect-metadata'
import { Analytics } from 'hookline'

const injectable = (): ClassDecorator => () => undefined

@injectable()
export class Signups {
  constructor(private readonly analytics: Analytics) {}

  signedUp(userId: string) {
    this.analytics.track({ userId, event: 'Signed Up' })
  }
}

const [parameter] = Reflect.getMetadata('design:paramtypes', Signups) as unknown[]
if (parameter !== Analytics) throw new Error('There is no Analytics to inject.')

const analytics = new Analytics('matrix-write-key', { disabled: true })
new Signups(analytics).signedUp('u1')
if (analytics.stats().accepted !== 1) throw new Error('The service recorded nothing.')
`

/** As NestJS projects have it: classic resolution, decorators with their metadata. */
async function commonjs({ make, tarball }) {
  const app = make()
  install(app, tarball, 'reflect-metadata@0.2')
  take(app, 'app.ts', 'main.ts')
  app.write('injected.ts', INJECTED)
  await compile(app, ['main.ts', 'injected.ts'], {
    module: 'commonjs',
    moduleResolution: 'node10',
    ignoreDeprecations: '6.0',
    esModuleInterop: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  })
  await execute(process.execPath, ['out/injected.js'], { cwd: app.at })
  return `decorators, type-checked, ${await thereAndBack(app, process.execPath, ['out/main.js'])}`
}

async function nodenext({ make, tarball }) {
  const app = make({ type: 'module' })
  install(app, tarball)
  take(app, 'app.ts', 'main.ts')
  await compile(app, ['main.ts'], { module: 'nodenext', verbatimModuleSyntax: true })
  return `type-checked, ${await thereAndBack(app, process.execPath, ['out/main.js'])}`
}

async function esbuild({ make, tarball }) {
  const app = make({ type: 'module' })
  install(app, tarball, 'esbuild@0')
  take(app, 'app.ts', 'main.ts')
  await compile(app, ['main.ts'], { module: 'preserve', noEmit: true })
  const flags = ['--bundle', '--platform=node', '--outfile=bundle.cjs', '--log-level=warning']
  const { stderr } = await execute(bin(app, 'esbuild'), ['main.ts', ...flags], { cwd: app.at })
  check(stderr === '', `esbuild warns: ${stderr}`)
  return `type-checked, ${await thereAndBack(app, process.execPath, ['bundle.cjs'])}`
}

function install(app, ...packages) {
  try {
    app.install(...packages)
  } catch (error) {
    throw new Missing(`npm install ${packages.slice(1).join(' ')}: ${error.message}`)
  }
}

async function had(what, got) {
  try {
    const { stdout } = await got
    return stdout.trim()
  } catch {
    throw new Missing(`${what} can't be had here`)
  }
}

/** The first line of what a binary prints; one that does not start can't be had for this machine. */
async function printed(app, command, args) {
  const text = await had(command, execute(command, args, { cwd: app.at }))
  return text.split('\n', 1)[0]
}

const bin = (app, name) => join(app.at, 'node_modules/.bin', name)

function take(app, ...files) {
  for (const file of files) {
    copyFileSync(join(import.meta.dirname, file), join(app.at, basename(file)))
  }
}

async function compile(app, files, options) {
  const always = { target: 'es2022', lib: ['es2023'], strict: true, skipLibCheck: true }
  const node = { types: ['node'], typeRoots, rootDir: '.', outDir: 'out' }
  app.write('tsconfig.json', { compilerOptions: { ...always, ...node, ...options }, files })
  await execute(process.execPath, [typescript, '-p', '.'], { cwd: app.at })
}
