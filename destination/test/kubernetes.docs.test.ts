// The manifests of examples/kubernetes: Kubernetes knows each of their fields, and the destination does what they expect.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { readSettings } from '../src/settings/read.js'
import { ROLES } from '../src/settings/role.js'
import { destination, endpoint, settingsFor, start } from './run.js'

const SECRET = 'a-secret-of-20-chars'
const FOLDER = join(import.meta.dirname, '../../examples/kubernetes')

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: {
    readonly template?: { readonly spec: PodSpec }
    readonly rules?: { http: { paths: { path: string }[] } }[]
  }
}

interface PodSpec {
  readonly terminationGracePeriodSeconds: number
  readonly containers: Container[]
}

interface Container {
  readonly args: string[]
  readonly startupProbe: Probe
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: string[] } } }
}

interface Probe {
  readonly httpGet: { readonly path: string }
}

const files = readdirSync(FOLDER).flatMap((file) =>
  parseAllDocuments(readFileSync(join(FOLDER, file), 'utf8')).map((document) => {
    expect(document.errors).toEqual([])
    return { file, manifest: document.toJS() as Manifest }
  }),
)
const manifests = files.map(({ manifest }) => manifest)
const pods = files.flatMap(({ file, manifest }) => {
  const pod = manifest.spec?.template?.spec
  return pod === undefined ? [] : [{ file, pod }]
})

/** The module of kubernetes-types for an `apiVersion`. */
const MODULES: Readonly<Record<string, string>> = {
  v1: 'core/v1',
  'apps/v1': 'apps/v1',
  'policy/v1': 'policy/v1',
  'networking.k8s.io/v1': 'networking/v1',
}

/** What the compiler has to say of manifests as values of the types that are made from the API of Kubernetes. */
function typeErrors(values: readonly object[]): string[] {
  const sources = values.map((value, index) => {
    const { apiVersion, kind } = value as Manifest
    const type = `import('kubernetes-types/${MODULES[apiVersion] ?? apiVersion}').${kind}`
    return `const manifest${index}: ${type} = ${JSON.stringify(value)}\nvoid manifest${index}\n`
  })
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    lib: ['lib.es2023.d.ts'],
    types: [],
  }
  const file = join(import.meta.dirname, 'manifests.mts')
  const host = ts.createCompilerHost(options)
  const getSourceFile = host.getSourceFile.bind(host)
  host.getSourceFile = (name, ...more) =>
    name === file
      ? ts.createSourceFile(name, sources.join(''), ts.ScriptTarget.ESNext)
      : getSourceFile(name, ...more)
  const program = ts.createProgram([file], options, host)
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

test('the manifests have fields that Kubernetes knows, and a fault would be found', () => {
  expect(manifests.length).toBeGreaterThan(8)
  const service = { apiVersion: 'v1', kind: 'Service' }
  const unknown = { ...service, spec: { replica: 1 } }
  const wrong = { ...service, spec: { ports: [{ port: '3300' }] } }
  expect(typeErrors([...manifests, unknown, wrong])).toEqual([
    expect.stringContaining(`'"replica"' does not exist`),
    expect.stringContaining("Type 'string' is not assignable to type 'number'"),
  ])
})

test.each(files.filter(({ manifest }) => manifest.kind === 'ConfigMap'))(
  'the settings of $file are right with the secrets that its first lines create',
  ({ file, manifest }) => {
    const text = readFileSync(join(FOLDER, file), 'utf8')
    const literals = text.matchAll(/--from-literal=(\w+)=(?:'(.+?)'|…)/g)
    const environment: Record<string, string> = {}
    for (const [, name = '', value = SECRET] of literals) environment[name] = value
    const folder = mkdtempSync(join(tmpdir(), 'hookline-kubernetes-'))
    onTestFinished(() => {
      rmSync(folder, { recursive: true })
    })
    const [[name, content] = ['', '']] = Object.entries(manifest.data ?? {})
    writeFileSync(join(folder, name), content)
    const settings = readSettings(join(folder, name), environment)
    expect(settings.listen).toEqual({ host: '0.0.0.0', port: 3300 })
    expect(settings.adminToken).toBe(SECRET)
  },
)

describe.each(pods)('a pod of $file', ({ pod }) => {
  const container = pod.containers[0] as Container

  test('starts a command of the destination with the mounted settings', () => {
    const [command, ...options] = container.args
    expect(command).toBe('serve')
    expect(options.slice(-2)).toEqual(['--config', '/etc/hookline/hookline.config.json'])
    const [flag = '--role', role = 'all'] = options.slice(0, -2)
    expect(flag).toBe('--role')
    expect(ROLES).toContain(role)
  })

  test('asks a running destination for what its probes need', async () => {
    const running = await start(settingsFor([destination([await endpoint()])]))
    const { startupProbe, livenessProbe, readinessProbe } = container
    for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
      expect((await fetch(running.url + httpGet.path)).status).toBe(200)
    }
  })

  test('has the 10 s that the destination needs to stop, after its pause', () => {
    const [, pause = '0'] = container.lifecycle?.preStop.exec.command ?? []
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(pause) + 12)
  })
})

test('the ingress publishes the paths of examples/proxy/nginx.conf', () => {
  const rules = manifests.flatMap(({ spec }) => spec?.rules ?? [])
  const paths = rules.flatMap(({ http }) => http.paths.map(({ path }) => path))
  const nginx = readFileSync(join(FOLDER, '../proxy/nginx.conf'), 'utf8')
  const [, names = ''] = /\^\/v1\/\((.+)\)\$/.exec(nginx) ?? []
  expect(paths).toEqual(names.split('|').map((name) => `/v1/${name}`))
})
