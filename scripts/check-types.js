// Compiles what applications write against the packed SDK, under each version of TypeScript that it supports and with
// its declarations checked (no skipLibCheck). Then it runs what the types promise: both builds in one process, and each
// fetch. Everything is installed in an empty folder.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { check, pack, project, root, run, typeRoots } from './workbench.js'

const VERSIONS = ['5.4', '5.5', '5.6', '5.7', '5.9', '6.0']

/** Two versions of node-fetch need two names. The older one has its types in a package of its own. */
const FETCHES = [
  'cross-fetch@4',
  'undici@7',
  'node-fetch@3',
  'node-fetch-2@npm:node-fetch@2',
  '@types/node-fetch-2@npm:@types/node-fetch@2',
]

/** What the declarations of the adapters import. */
const PEERS = ['@types/express@5', 'fastify@5', 'hono@4', '@types/koa@3']

const { name, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

run('npm', ['run', '--silent', 'build'])
const app = project('types')
app.install(
  pack(root, /./).tarball,
  ...FETCHES,
  ...PEERS,
  ...VERSIONS.map((version) => `typescript-${version}@npm:typescript@${version}`),
)
writeSources()
const load = createRequire(join(app.at, 'package.json'))
for (const each of VERSIONS.flatMap(settings)) compile(each)
for (const program of ['builds.mjs', 'fetches.mjs']) app.run(process.execPath, [program])
console.log(`${name}: its types hold under TypeScript ${VERSIONS.join(', ')}, and at run time.`)

/** The sets of options that found what the others did not. */
function settings(version) {
  const both = (...names) => names.flatMap((file) => [`${file}.mts`, `${file}.cts`])
  return [
    {
      version,
      files: [
        ...both('consumer', 'entries', 'inferred'),
        'builds.mts',
        'required.cts',
        'fetches.mts',
      ],
      options: {
        module: 'nodenext',
        lib: ['es2022'],
        types: ['node'],
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        noPropertyAccessFromIndexSignature: true,
      },
    },
    {
      version,
      files: both('consumer', 'entries', 'inferred'),
      options: { module: 'node16', lib: ['es2022', 'dom'], types: [] },
    },
    {
      version,
      files: ['consumer.ts', 'entries.ts'],
      options: {
        module: 'esnext',
        moduleResolution: 'bundler',
        lib: ['esnext', 'dom'],
        types: ['node'],
        verbatimModuleSyntax: true,
        isolatedModules: true,
        ...(version === '5.4' ? {} : { isolatedDeclarations: true }),
      },
    },
  ]
}

/** Compiles as `tsc` does without skipLibCheck, but reports on our files only: libraries that we do not make take longest. */
function compile({ version, files, options }) {
  const ts = load(`typescript-${version}`)
  const always = { target: 'es2022', strict: true, declaration: true, noEmit: true, typeRoots }
  const { options: parsed, errors } = ts.convertCompilerOptionsFromJson(
    { ...always, ...options },
    app.at,
  )
  const program = ts.createProgram(
    files.map((file) => join(app.at, file)),
    parsed,
  )
  const ours = program.getSourceFiles().filter(({ fileName }) => isOurs(fileName))
  const found = [
    ...errors,
    ...program.getGlobalDiagnostics(),
    ...ours.flatMap((file) => program.getSemanticDiagnostics(file)),
    ...ours
      .filter(({ isDeclarationFile }) => !isDeclarationFile)
      .flatMap((file) => program.getDeclarationDiagnostics(file)),
  ]
  check(
    ours.some(({ isDeclarationFile }) => isDeclarationFile),
    'No declarations of ours were read.',
  )
  check(
    found.length === 0,
    `TypeScript ${version} with ${JSON.stringify(options)}:\n${said(ts, found)}`,
  )
}

function isOurs(file) {
  return !file.includes('/node_modules/') || file.includes(`/node_modules/${name}/`)
}

function said(ts, diagnostics) {
  const host = {
    getCanonicalFileName: (file) => file,
    getCurrentDirectory: () => app.at,
    getNewLine: () => '\n',
  }
  return ts.formatDiagnostics(diagnostics, host)
}

function writeSources() {
  const entries = Object.keys(exports)
    .filter((subpath) => subpath !== './package.json')
    .map((subpath, i) => `export * as entry${i} from '${name}${subpath.slice(1)}'`)
    .join('\n')
  const consumer = readFileSync(join(root, 'scripts/types/consumer.ts'), 'utf8')
  for (const extension of ['mts', 'cts', 'ts']) {
    app.write(`consumer.${extension}`, consumer)
    app.write(`entries.${extension}`, entries)
    app.write(`inferred.${extension}`, inferred())
  }
  app.write('required.cts', `export { Analytics, RejectedError } from '${name}'`)
  app.write('builds.mts', builds())
  app.write('builds.mjs', buildsAtRunTime())
  app.write('fetches.mts', fetches())
  app.write('fetches.mjs', fetchesAtRunTime())
}

/** Exports without annotations: the compiler must be able to name what it infers in declarations of its own. */
function inferred() {
  return `
    import { Analytics, parseWebhook } from '${name}'
    import { webhook } from '${name}/fetch'
    import { createTestAnalytics, signedRequest } from '${name}/testing'

    export const analytics = new Analytics<{ 'Signed Up': { plan?: string } }>('k')
    export const flushed = analytics.flush()
    export const fake = createTestAnalytics()
    export const request = signedRequest('track', { userId: 'u', event: 'e', properties: {} }, 's')
    export const event = parseWebhook('s', request.body, request.headers['X-Signature'])
    export const POST = webhook({ secret: 's' }, () => undefined)
  `
}

/** The classes of the two builds are one type: an application may have both, one of them through a dependency. */
function builds() {
  return `
    import { Analytics, RejectedError, type AnalyticsClient, type HooklineError } from '${name}'
    import * as required from './required.cjs'

    interface Plan { 'Signed Up': { plan?: string } }
    export const imported: Analytics<Plan> = new required.Analytics<Plan>('k', { disabled: true })
    export const asRequired: required.Analytics<Plan> = new Analytics<Plan>('k', { disabled: true })
    export const client: AnalyticsClient<Plan> = new required.Analytics<Plan>('k', { disabled: true })
    export const error: RejectedError = new required.RejectedError('m', 400, 'd')
    export const statusOf = (error: HooklineError): number | undefined =>
      error instanceof required.RejectedError ? error.status : undefined

    declare const members: Omit<AnalyticsClient, 'stats'>
    // @ts-expect-error: a fake must have every public member
    export const incomplete: Analytics = members
    export const fake: Analytics = { ...members, stats: () => new Analytics('k').stats() }
  `
}

function buildsAtRunTime() {
  return `
    import assert from 'node:assert/strict'
    import { createRequire } from 'node:module'
    import * as imported from '${name}'

    const required = createRequire(import.meta.url)('${name}')
    assert.notEqual(imported.Analytics, required.Analytics)
    for (const [one, other] of [[imported, required], [required, imported]]) {
      const analytics = new one.Analytics('k', { disabled: true })
      const rejected = new one.RejectedError('m', 400, 'd')
      const refused = new one.WebhookVerificationError('invalid_json', 'm')
      assert(analytics instanceof other.Analytics)
      assert(!(analytics instanceof other.HooklineError))
      assert(rejected instanceof other.RejectedError && rejected instanceof other.HooklineError)
      assert(!(rejected instanceof other.ClosedError) && !(rejected instanceof other.Analytics))
      assert(refused instanceof other.WebhookVerificationError)
      for (const value of [undefined, null, 1, 'RejectedError', {}, new Error('m')]) {
        assert(!(value instanceof other.HooklineError))
      }
      class Own extends other.RejectedError {}
      assert(!(rejected instanceof Own) && new Own('m', 400, 'd') instanceof one.RejectedError)
    }
  `
}

function fetches() {
  return `
    import { Analytics } from '${name}'
    import crossFetch, { fetch as namedCrossFetch } from 'cross-fetch'
    import nodeFetch, { type RequestInit } from 'node-fetch'
    import nodeFetch2 from 'node-fetch-2'
    import { Agent, fetch as undiciFetch } from 'undici'

    new Analytics('k', { fetch })
    new Analytics('k', { fetch: globalThis.fetch })
    new Analytics('k', { fetch: crossFetch })
    new Analytics('k', { fetch: namedCrossFetch })
    new Analytics('k', { fetch: undiciFetch })
    new Analytics('k', { fetch: nodeFetch })
    new Analytics('k', { fetch: nodeFetch2 })
    const dispatcher = new Agent()
    new Analytics('k', { fetch: (url, init) => fetch(url, init) })
    new Analytics('k', { fetch: (url, init) => undiciFetch(url, { ...init, dispatcher }) })
    new Analytics('k', { fetch: (url, init) => nodeFetch(url, { ...init, agent: false }) })
    // @ts-expect-error: it takes a request, not a URL
    new Analytics('k', { fetch: (request: Request) => fetch(request) })
    export type Used = RequestInit
  `
}

function fetchesAtRunTime() {
  return `
    import assert from 'node:assert/strict'
    import { once } from 'node:events'
    import { createServer } from 'node:http'
    import { Analytics } from '${name}'
    import crossFetch from 'cross-fetch'
    import nodeFetch from 'node-fetch'
    import nodeFetch2 from 'node-fetch-2'
    import { fetch as undiciFetch } from 'undici'

    const server = createServer((request, response) => request.resume().on('end', () => response.end()))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const endpoint = 'http://127.0.0.1:' + server.address().port
    const fetches = { fetch, crossFetch, undiciFetch, nodeFetch, nodeFetch2 }
    for (const [name, fetch] of Object.entries(fetches)) {
      const analytics = new Analytics('k', { endpoint, fetch, maxRetries: 0 })
      analytics.track({ userId: 'u', event: 'Fetched' })
      assert.deepEqual(await analytics.close(), { delivered: 1, failed: 0 }, name)
    }
    server.close()
    server.closeAllConnections()
  `
}
