// Checks that a commit gives one package: what is built and packed here has the same bytes as what is in a copy of the
// sources in another folder.
import { copyFileSync, existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { check, folder, read, root, run } from './workbench.js'

const packages = ['hookline', 'hookline-destination']
const copy = join(folder, 'elsewhere')

for (const file of read('git', ['ls-files', '-z', '--', ':!bench', ':!test']).split('\0')) {
  if (!file || !existsSync(join(root, file))) continue
  mkdirSync(dirname(join(copy, file)), { recursive: true })
  copyFileSync(join(root, file), join(copy, file))
}
for (const modules of ['node_modules', 'destination/node_modules']) {
  if (existsSync(join(root, modules))) symlinkSync(join(root, modules), join(copy, modules))
}

const here = packed(root)
const there = packed(copy)
for (const [i, name] of packages.entries()) {
  check(here[i] === there[i], `${name} is ${here[i]} built here, and ${there[i]} built elsewhere.`)
  console.log(`${name}: ${here[i]}, wherever it is built.`)
}

/** The digests of both tarballs. */
function packed(at) {
  run('npm', ['run', '--silent', 'build'], at)
  run('npm', ['run', '--silent', 'build', '--workspace', packages[1]], at)
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts']
  return [at, join(at, 'destination')].map(
    (from) => JSON.parse(read('npm', pack, from))[0].integrity,
  )
}
