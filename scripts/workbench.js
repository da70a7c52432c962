// Empty folders in which packed packages are installed and used, as customers do.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))
export const typescript = join(root, 'node_modules/typescript/bin/tsc')

/** Where packages are packed into, and projects are made. */
export const folder = mkdtempSync(join(tmpdir(), 'hookline-package-'))

/** Node's own types and no others: the compiler would find there the types of peers that are not installed. */
export const typeRoots = [join(folder, 'types')]
mkdirSync(typeRoots[0])
symlinkSync(join(root, 'node_modules/@types/node'), join(typeRoots[0], 'node'), 'junction')

process.on('exit', () => {
  rmSync(folder, { recursive: true, maxRetries: 3 })
})

/** A folder of its own with nothing but its package.json, and what one does in it. */
export function project(name, manifest = {}) {
  const at = join(folder, name)
  mkdirSync(at, { recursive: true })
  const write = (file, content) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    writeFileSync(join(at, file), text)
  }
  write('package.json', { private: true, ...manifest })
  return {
    at,
    write,
    install: (...packages) => {
      const quiet = ['--silent', '--no-audit', '--no-fund', '--prefer-offline']
      read('npm', ['install', ...quiet, ...packages], at)
    },
    run: (command, args) => {
      run(command, args, at)
    },
    read: (command, args) => read(command, args, at),
  }
}

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

/** What is installed takes so many KB. */
export function installedKb({ read }) {
  return Number.parseInt(read('du', ['-sk', 'node_modules']))
}

export function check(isRight, problem) {
  if (!isRight) throw new Error(problem)
}

export function run(command, args, cwd = root) {
  execFileSync(command, args, { cwd, stdio: 'inherit' })
}

export function read(command, args, cwd = root) {
  return execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}
