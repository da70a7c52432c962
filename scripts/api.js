// Compares what the packages' types promise with the reports in etc/, so that a review sees each change of it.
// `npm run api` fails with the difference; `npm run api -- --accept` writes the reports anew.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { rollup } from 'rollup'
import { dts } from 'rollup-plugin-dts'
import ts from 'typescript'
import { root, run } from './workbench.js'

const { accept } = parseArgs({ options: { accept: { type: 'boolean', default: false } } }).values

run('npm', ['run', '--silent', 'build'])
run('npm', ['run', '--silent', 'build', '--workspace', 'hookline-destination'])
report('hookline', sdk())
report('hookline-destination', await destination())

/** The SDK's declarations as they are published; entries share some files. */
function sdk() {
  const dist = join(root, 'dist')
  const files = readdirSync(dist).filter((file) => file.endsWith('.d.cts'))
  return files.sort().map((file) => ({ file, text: readFileSync(join(dist, file), 'utf8') }))
}

/** The destination's are published as they were compiled: what its one entry leads to, in one piece. */
async function destination() {
  const input = join(root, 'destination/dist/index.d.ts')
  const build = await rollup({ input, external: (id) => !/^[./]/.test(id), plugins: [dts()] })
  const { output } = await build.generate({ format: 'es' })
  await build.close()
  return [{ file: 'index.d.ts', text: output[0].code }]
}

function report(name, declarations) {
  const file = join('etc', `${name}.api.md`)
  const blocks = declarations.map(
    ({ file, text }) => `\n## ${file}\n\n\`\`\`ts\n${withoutComments(text).trimEnd()}\n\`\`\`\n`,
  )
  const head = `# What ${name} promises\n\nWritten by \`npm run api -- --accept\`: its declarations, without comments.\n`
  const now = head + blocks.join('')
  if (accept) writeFileSync(join(root, file), now)
  else compare(file, now)
}

function withoutComments(text) {
  const source = ts.createSourceFile('api.d.ts', text, ts.ScriptTarget.Latest)
  return ts.createPrinter({ removeComments: true }).printFile(source)
}

function compare(file, now) {
  const folder = mkdtempSync(join(tmpdir(), 'hookline-api-'))
  const built = join(folder, basename(file))
  writeFileSync(built, now)
  try {
    execFileSync('git', ['diff', '--no-index', '--', file, built], { cwd: root, stdio: 'inherit' })
    console.log(`${file} is what is built.`)
  } catch {
    process.exitCode = 1
    console.error(`\nWhat is public has changed. If that is meant: npm run api -- --accept`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
