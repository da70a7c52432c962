// An empty folder in which a packed package is installed and used, as customers do.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** Where packages are packed into, and where they are installed. */
export const folder = mkdtempSync(join(tmpdir(), 'hookline-package-'))
export const app = join(folder, 'app')
mkdirSync(app)
process.on('exit', () => {
  rmSync(folder, { recursive: true })
})

/**
 * Packs what `npm publish` would publish.
 *
 * @param published - the files that may be in it
 */
export function pack(from, published) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [{ filename, files, size }] = JSON.parse(read('npm', args, from))
  const unneeded = files.map(({ path }) => path).filter((path) => !published.test(path))
  check(unneeded.length === 0, `The tarball has files that nobody needs: ${unneeded.join(', ')}`)
  return { tarball: join(folder, filename), size, files: files.length }
}

/** Installs tarballs, and nothing else. */
export function install(...tarballs) {
  write('package.json', { private: true })
  read('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline', ...tarballs])
}

/** What is installed takes so many KB. */
export function installedKb() {
  return Number.parseInt(read('du', ['-sk', 'node_modules']))
}

export function check(isRight, problem) {
  if (!isRight) throw new Error(problem)
}

export function write(file, content) {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  writeFileSync(join(app, file), text)
}

export function run(command, args, cwd = root) {
  execFileSync(command, args, { cwd, stdio: 'inherit' })
}

export function read(command, args, cwd = app) {
  return execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}
