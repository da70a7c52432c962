// Checks what `npm publish` would publish of the destination: packs it with the SDK, installs both in an empty folder, on
// Node 20 with the SQLite that `serve` asks for there, and goes the way of its README: serve, listen, send.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { check, pack, project, root, run, typeRoots, typescript } from './workbench.js'

const PUBLISHED =
  /^(bin\/.+\.js|grafana\/.+\.json|dist\/.+\.(js|d\.ts)|dist\/page\/.+|package\.json|(README|CHANGELOG)\.md|LICENSE|Dockerfile|(compose(\.postgres)?|openapi)\.yaml|.+\.service)$/
const source = join(root, 'destination')
const { name, version } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))

run('npm', ['run', '--silent', 'build'])
run('npm', ['run', '--silent', 'build', '--workspace', name])
const sdk = pack(root, /./)
const { tarball, size, files } = pack(source, PUBLISHED)
run('npx', ['publint', 'run', '--strict', tarball])
const app = project('app')
// Customers do not have our overrides, so a dependency that refuses this Node shows only here.
app.install('--engine-strict', sdk.tarball, tarball)
if (!process.getBuiltinModule('node:sqlite')) installSqlite()
useTypes()
await goTheWay()
console.log(`${name} ${version}: ${files} files, ${size} bytes packed; a call went the whole way.`)

/** Goes by what `serve` says, because a customer does so too. */
function installSqlite() {
  const { status, stderr } = spawnSync('npx', [name, 'serve', '--init'], {
    cwd: app.at,
    encoding: 'utf8',
  })
  const [, command] = /`npm install ([^`]+)`/.exec(stderr) ?? []
  check(status === 1 && command, `Without SQLite, serve ended with ${status}: ${stderr}`)
  app.install('--engine-strict', command)
  rmSync(join(app.at, 'hookline.config.json'))
}

function useTypes() {
  app.write(
    'use.mts',
    `import { startDestination, type RunningDestination, type Settings } from '${name}'
     export const start: (settings: Settings) => Promise<RunningDestination> = (settings) =>
       startDestination(settings, { debug() {}, info() {}, warn() {}, error() {} })
     // @ts-expect-error: types that resolve to any would let this pass
     export const wrong: Settings = { listen: 1 }`,
  )
  const options = { module: 'nodenext', target: 'es2023', strict: true, noEmit: true }
  app.write('tsconfig.json', {
    compilerOptions: { ...options, types: ['node'], typeRoots },
    files: ['use.mts'],
  })
  app.run(process.execPath, [typescript, '-p', '.'])
}

async function goTheWay() {
  const { url, stop } = await serve()
  const listen = command('listen', '--count', '1', '--json')
  await firstLine(listen.stderr) // it says that it listens
  const sent = app.read('npx', [
    name,
    'send',
    'track',
    '--event',
    'Packed',
    '--user',
    'u1',
    '--json',
  ])
  const line = await firstLine(listen.stdout)
  check(line.includes('Packed'), `listen printed ${line} after send printed ${sent}, at ${url}.`)
  await stop()
}

/** Settings that go from one free port to another, and the process that runs by them. */
async function serve() {
  const serving = command('serve', '--init')
  const lines = createInterface(serving.stdout)[Symbol.asyncIterator]()
  let url
  while (!url) {
    const { value, done } = await lines.next()
    check(!done, 'serve ended before it listened.')
    url = JSON.parse(value).url
  }
  const stop = async () => {
    serving.kill('SIGTERM')
    const [code] = await once(serving, 'exit')
    check(code === 0, `serve ended with ${code} after SIGTERM.`)
  }
  return { url, stop }
}

function command(...args) {
  const child = spawn(
    process.execPath,
    [join('node_modules', name, 'bin', `${name}.js`), ...args],
    {
      cwd: app.at,
      stdio: ['ignore', 'pipe', args[0] === 'listen' ? 'pipe' : 'inherit'],
    },
  )
  process.on('exit', () => child.kill('SIGKILL'))
  return child
}

async function firstLine(stream) {
  for await (const line of createInterface(stream)) return line
  throw new Error('It ended without a word.')
}
