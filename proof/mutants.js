// Copies of what is built, each with one property broken. The proof of that property must turn red,
// and for that reason: `says` is what it finds.
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Inside the repository, so that packages are found. */
const build = join(root, 'proof/build')

export const MUTANTS = [
  {
    name: 'a batch that failed is not tried again',
    says: /lost/,
    proof: 1,
    package: 'sdk',
    scripts: ['500'],
    file: 'analytics.js',
    find: 'this.#again = [...this.#again, batch].sort(byAge);',
    put: '',
  },
  {
    name: 'a 413 is a refusal, not split',
    says: /lost/,
    proof: 1,
    package: 'sdk',
    scripts: ['413 over 4 KB'],
    file: 'analytics.js',
    find: '(status === 413 || status === 400)',
    put: '(status === 400)',
  },
  {
    name: 'a call returns, and its record is not on disk',
    says: /calls lost/,
    proof: 2,
    package: 'sdk',
    file: 'analytics.js',
    find: 'segment.append(json);',
    put: '',
  },
  {
    name: 'what has its outcome is not noted',
    says: /came again/,
    proof: 2,
    package: 'sdk',
    file: 'analytics.js',
    find: 'segment.saveSettled();',
    put: ';',
  },
  {
    name: 'the destination answers before its commit',
    says: / lost/,
    proof: 3,
    package: 'destination',
    file: 'dist/enqueue/enqueue.js',
    find: 'ids = await store.put(placed);',
    put: 'ids = []; setTimeout(() => void store.put(placed).catch(() => undefined), 500);',
  },
  {
    name: 'what an endpoint took is not noted',
    says: /came again/,
    proof: 3,
    package: 'destination',
    file: 'dist/deliver/settler.js',
    find: 'await this.store.settle(settlements)',
    put: '0',
  },
  {
    name: 'a signature is of other bytes',
    says: /wrong signatures/,
    proof: 3,
    package: 'destination',
    file: 'dist/post/headers.js',
    find: '.update(body)',
    put: ".update(body + ' ')",
  },
  {
    name: 'commits are not synced',
    says: /before their fsync/,
    proof: 4,
    package: 'destination',
    file: 'dist/store/sqlite/engine.js',
    find: "isDurable ? 'FULL' : 'NORMAL'",
    put: "'NORMAL'",
  },
  {
    name: 'the destination answers before its commit',
    says: /before their fsync/,
    proof: 4,
    package: 'destination',
    file: 'dist/enqueue/enqueue.js',
    find: 'ids = await store.put(placed);',
    put: 'ids = []; void store.put(placed).catch(() => undefined);',
  },
]

/**
 * Makes the copy, and gives the environment in which a proof runs on it.
 *
 * @throws {Error} if the text to be replaced does not occur exactly once, because then nothing would be broken
 */
export function makeMutant({ name, package: which, file, find, put }, number) {
  const copy = join(build, `mutant-${number}`)
  rmSync(copy, { recursive: true, force: true })
  mkdirSync(copy, { recursive: true })
  if (which === 'sdk') {
    cpSync(join(root, 'dist'), copy, { recursive: true })
  } else {
    for (const part of ['bin', 'dist', 'package.json']) {
      cpSync(join(root, 'destination', part), join(copy, part), { recursive: true })
    }
    symlinkSync(join(root, 'destination/node_modules'), join(copy, 'node_modules'))
  }
  const path = join(copy, file)
  const source = readFileSync(path, 'utf8')
  const parts = source.split(find)
  if (parts.length !== 2)
    throw new Error(`“${name}”: ${file} has “${find}” ${parts.length - 1} times, not once.`)
  writeFileSync(path, parts.join(put))
  return which === 'sdk' ? { HOOKLINE_DIST: copy } : { HOOKLINE_DESTINATION: copy }
}

export function removeMutants() {
  rmSync(build, { recursive: true, force: true })
}
