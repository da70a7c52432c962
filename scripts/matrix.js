// Uses the built SDK wherever it promises to run: `npm run matrix`, or some cells of it: `npm run matrix -- --only node22,bun`.
// A cell whose runtime can't be had here is said to be missing; with CI set, that fails.
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { cells, Missing } from './matrix/cells.js'
import { pack, project, root, run } from './workbench.js'

const { values } = parseArgs({ options: { only: { type: 'string' } } })
const names = values.only?.split(',') ?? Object.keys(cells)
const unknown = names.filter((name) => !Object.hasOwn(cells, name))
if (unknown.length > 0) {
  console.error(`No such cell: ${unknown.join(', ')}. There are ${Object.keys(cells).join(', ')}.`)
  process.exit(2)
}

run('npm', ['run', '--silent', 'build'])
run('npm', ['run', '--silent', 'build', '--workspace', 'hookline-destination'])
const { tarball } = pack(root, /./)

const table = new Table({
  head: ['cell', 'result', 'seconds', 'what'],
  style: { head: [], border: [] },
})
const bad = []
for (const name of names) {
  const started = performance.now()
  const { result, what } = await tried(name)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  if (result === 'failed' || (result === 'missing' && process.env['CI'])) bad.push(name)
  console.log(`${name}: ${result} after ${seconds} s: ${what}`)
  table.push([name, result, seconds, what])
}
console.log(table.toString())
if (bad.length > 0) console.error(`Not as promised: ${bad.join(', ')}`)
process.exitCode = bad.length > 0 ? 1 : 0

async function tried(name) {
  try {
    const what = await cells[name]({ tarball, make: (manifest) => project(name, manifest) })
    return { result: 'ok', what }
  } catch (error) {
    if (error instanceof Missing) return { result: 'missing', what: error.message }
    const said = `${error.message}\n${error.stdout ?? ''}`.trimEnd() // the message of a failed command has its stderr
    console.error(said.split('\n').slice(-60).join('\n'))
    return { result: 'failed', what: said.split('\n', 1)[0].slice(0, 80) }
  }
}
