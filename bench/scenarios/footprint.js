// The footprint of the package: the size of its install, and its cold import compared with bare Node.
import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { dist } from '../dist.js'
import { median } from '../measure.js'

const run = promisify(execFile)
const PACKAGES = {
  hookline: 'hookline',
  segment: '@segment/analytics-node',
  rudderstack: '@rudderstack/rudder-sdk-node',
  posthog: 'posthog-node',
  amplitude: '@amplitude/analytics-node',
  mixpanel: 'mixpanel',
}
const IMPORTS = 15
const QUICK_IMPORTS = 5

const root = fileURLToPath(new URL('../', dist))

async function specifierOf(subject, folder) {
  if (subject !== 'hookline') {
    const manifest = new URL('../package.json', import.meta.url)
    const { dependencies } = JSON.parse(await readFile(manifest, 'utf8'))
    return `${PACKAGES[subject]}@${dependencies[PACKAGES[subject]]}`
  }
  // dist/ is built already: packing must not build it again while others read it.
  const { stdout } = await run(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--pack-destination', folder],
    { cwd: root },
  )
  const packed = JSON.parse(stdout)
  const { filename } = Array.isArray(packed) ? packed[0] : Object.values(packed)[0]
  return join(folder, filename)
}

async function install(subject, folder) {
  const specifier = await specifierOf(subject, folder)
  await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  await run(
    'npm',
    ['install', '--omit=dev', '--no-audit', '--no-fund', '--prefer-offline', specifier],
    { cwd: folder },
  )
  await writeFile(join(folder, 'import.js'), `import '${PACKAGES[subject]}'\n`)
  await writeFile(join(folder, 'bare.js'), '')

  const { stdout } = await run('du', ['-sk', 'node_modules'], { cwd: folder })
  const lock = await readFile(join(folder, 'node_modules/.package-lock.json'), 'utf8')
  return {
    installKb: Number.parseInt(stdout, 10),
    packages: Object.keys(JSON.parse(lock).packages).length,
  }
}

function timeNode(folder, file) {
  const start = performance.now()
  const { status, stderr } = spawnSync(process.execPath, [file], { cwd: folder })
  if (status !== 0) throw new Error(`${file} failed: ${stderr}`)
  return performance.now() - start
}

export default {
  name: 'footprint',
  title: 'An install of the package alone, and its cold import',
  subjects: Object.keys(PACKAGES),
  columns: [
    { head: 'cold import ms', value: 'importMs' },
    { head: 'bare Node ms', value: 'bareMs' },
    { head: 'KB on disk', value: 'installKb' },
    { head: 'packages', value: 'packages' },
  ],
  targets: [
    { what: 'cold import over bare Node, ms', value: 'importMs', atMost: 45 },
    { what: 'installed with dependencies, KB', value: 'installKb', atMost: 1_800 },
  ],

  /** Installs each in turn, then times the imports round by round. */
  async collect({ subjects, isQuick, progress }) {
    const rounds = isQuick ? QUICK_IMPORTS : IMPORTS
    const rows = []
    const folders = new Map()
    try {
      for (const subject of subjects) {
        progress(`footprint install ${subject}`)
        const folder = await mkdtemp(join(tmpdir(), 'hookline-footprint-'))
        const row = { variant: '', subject, runs: rounds, faults: [], ratios: {} }
        rows.push(row)
        folders.set(subject, folder)
        try {
          Object.assign(row, await install(subject, folder))
        } catch (error) {
          row.faults.push(`install failed: ${error.message.split('\n')[0]}`)
        }
      }
      const times = new Map(rows.map(({ subject }) => [subject, { bare: [], full: [] }]))
      for (let round = 0; round < rounds; round += 1) {
        progress(`footprint import ${round + 1}`)
        for (const row of rows.filter(({ faults }) => faults.length === 0)) {
          const folder = folders.get(row.subject)
          try {
            times.get(row.subject).bare.push(timeNode(folder, 'bare.js'))
            times.get(row.subject).full.push(timeNode(folder, 'import.js'))
          } catch (error) {
            row.faults.push(error.message.split('\n')[0])
          }
        }
      }
      for (const row of rows.filter(({ faults }) => faults.length === 0)) {
        const { bare, full } = times.get(row.subject)
        row.bareMs = median(bare)
        row.importMs = median(full) - row.bareMs
      }
      return rows
    } finally {
      for (const folder of folders.values()) await rm(folder, { recursive: true, force: true })
    }
  },
}
