// docs/openapi.yaml is valid, has exactly the routes that there are, and agrees with the types of the answers.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance, RouteOptions } from 'fastify'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { version } from '../../src/version.js'
import { destination, endpoint, settingsFor, start } from '../run.js'
import {
  document,
  errorsOf,
  PATH,
  places,
  schemaNames,
  strictErrorsOf,
  type Schema,
} from './document.js'

describe('the document', () => {
  test('is valid OpenAPI 3.1, and an error in it would be found', async () => {
    const text = readFileSync(PATH, 'utf8')
    const validator = new Validator()
    expect(await validator.validate(text)).toMatchObject({ valid: true })
    expect(validator.version).toBe('3.1')
    const wrong = text.replace('operationId: sendBatch', 'operationID: sendBatch')
    expect(await new Validator().validate(wrong)).toMatchObject({ valid: false })
  })

  test('has only keywords of JSON Schema in its schemas', () => {
    // A description with a comma may be cut into several keywords by YAML, which OpenAPI allows.
    const { schemas } = document.components
    for (const name of schemaNames) errorsOf(schemas[name] ?? {}, undefined)
    const wrong = { type: 'object', 'or so': null } as Schema
    expect(() => errorsOf(wrong, undefined)).toThrow('unknown keyword: "or so"')
  })

  test('has the version of the package', () => {
    expect(document.info.version).toBe(version)
  })

  test('has no name twice, and a parameter for each part of a path', () => {
    const ids = places.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { path, operation } of places) {
      const inPath = (operation.parameters ?? []).filter((one) => one.in === 'path')
      const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
      expect(inPath.map(({ name }) => name)).toEqual(names)
    }
  })

  test('has examples that agree with their schemas', () => {
    const media = places.flatMap(({ operation: { requestBody, responses } }) => [
      ...Object.values(requestBody?.content ?? {}).map((one) => ({ ...one, find: errorsOf })),
      ...Object.values(responses).flatMap(({ content }) =>
        Object.values(content).map((one) => ({ ...one, find: strictErrorsOf })),
      ),
    ])
    const examples = media.flatMap(({ schema, find, examples = {} }) =>
      Object.values(examples).map(({ value }) => ({ value, errors: find(schema, value) })),
    )
    expect(examples.length).toBeGreaterThan(20)
    expect(examples.filter(({ errors }) => errors.length > 0)).toEqual([])
  })

  test('uses all of its parts', () => {
    const text = readFileSync(PATH, 'utf8')
    // The data of the events of the stream: OpenAPI 3.1 cannot describe it at the route.
    const inProse = ['CallEvent', 'AttemptEvent', 'SkippedEvent']
    const unused = schemaNames.filter(
      (name) => !text.includes(`#/components/schemas/${name}'`) && !inProse.includes(name),
    )
    expect(unused).toEqual([])
  })
})

describe('the routes', () => {
  test('of a running destination are exactly those of the document', async () => {
    const routes = await routesOf(async () => {
      const adminListen = { host: '127.0.0.1', port: 0 }
      await start(settingsFor([destination([await endpoint()])], { adminListen }))
    })
    const documented = places.map(({ method, path }) => `${method} ${path}`)
    const registered = [...new Set(routes)].filter((route) => !route.startsWith('HEAD '))
    expect(registered.filter((route) => !isOfPage(route)).sort()).toEqual(documented.sort())
  })

  test('answer HEAD wherever they answer GET, but for the stream', async () => {
    const routes = await routesOf(async () => {
      await start(settingsFor([]))
    })
    const pathsOf = (method: string) =>
      routes.filter((route) => route.startsWith(`${method} `)).map((route) => route.split(' ')[1])
    expect(pathsOf('HEAD').sort()).toEqual(
      pathsOf('GET')
        .filter((path) => path?.endsWith('/stream') === false)
        .sort(),
    )
  })

  /** The page is for browsers, and its files change with each version. */
  const isOfPage = (route: string) => /^GET \/(portal|assets\/.+)?$/.test(route)

  /** Every route that is added while a function runs: `GET /v1/admin/deliveries/{id}`. */
  async function routesOf(run: () => Promise<void>): Promise<string[]> {
    const routes: string[] = []
    const listen = (message: unknown) => {
      const { fastify } = message as { fastify: FastifyInstance }
      fastify.addHook('onRoute', ({ method, url }: RouteOptions) => {
        const path = url.replaceAll(/:(\w+)/g, '{$1}')
        for (const one of [method].flat()) routes.push(`${one} ${path}`)
      })
    }
    subscribe('fastify.initialization', listen)
    try {
      await run()
    } finally {
      unsubscribe('fastify.initialization', listen)
    }
    return routes
  }
})

describe('the types', { timeout: 60_000 }, () => {
  const ROOT = join(dirname(PATH), '..')

  /** Where the types of the answers are. Their schemas have the same names. */
  const FILES: Record<string, string[]> = {
    'model/answers': exportsOf('model/answers', [
      'NO_MESSAGES', // a value
      'ReplayRequest', // what the page sends; the document says all that a client may send
    ]),
    'model/delivery': ['DeadGroup', 'State', 'Summary'],
    'model/call': ['CallType', 'EventType'],
    'model/health': ['Health'],
    'model/history': ['HistorySpan'],
    'model/outcome': ['OutcomeCode'],
    'http/refusal': ['RefusalCode', 'RejectionCode', 'Rejected', 'SettingProblem'],
    'observe/readiness': ['NotReady'],
    'collect/warnings': ['Warning'],
  }

  test('of the answers are those of the document, and a renamed field would be found', async () => {
    const generated = astToString(await openapiTS(pathToFileURL(PATH)))
    const names = Object.values(FILES).flat()
    expect(names.length).toBeGreaterThan(35)
    const renamed = generated.replace('failuresInARow:', 'failuresInRow:')
    const optional = generated.replace('headers?: string', 'header?: string')
    const found = differing([
      { generated, names },
      { generated: renamed, names: ['EndpointTotals', 'EndpointStatus', 'Failure'] },
      { generated: optional, names: ['ShownAttempt'] },
    ])
    expect(found).toEqual([[], ['EndpointTotals', 'EndpointStatus'], ['ShownAttempt']])
  })

  /** For each of several versions of the generated types: the types whose schema says something else. */
  function differing(versions: { generated: string; names: readonly string[] }[]): string[][] {
    const imports = Object.entries(FILES).map(
      ([file, own]) => `import type { ${own.join(', ')} } from '../../src/${file}.js'`,
    )
    const heads = versions.map(({ generated }) =>
      [generated, EQUAL, ...imports].join('\n').split('\n'),
    )
    const sources = versions.map(({ names }, version) => {
      const lines = names.map(
        (name) =>
          `export const is${name}: Equal<Plain<${name}>, Plain<components['schemas']['${name}']>> = true`,
      )
      return [...(heads[version] ?? []), ...lines].join('\n')
    })
    return typeErrors(sources).map((errors, version) => {
      const before = heads[version]?.length ?? 0
      const { names = [] } = versions[version] ?? {}
      return errors.map((line) => names[line - before] ?? `line ${line} of the generated types`)
    })
  }

  /** Types are equal after everything is written out: an intersection, an extension and a literal are the same. */
  const EQUAL = `
    type Plain<T> = T extends readonly (infer E)[]
      ? number extends T['length'] ? Plain<E>[] : { -readonly [K in keyof T]: Plain<T[K]> }
      : T extends object ? { -readonly [K in keyof T]: Plain<T[K]> } : T
    type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false`

  const OPTIONS: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2023,
    // Without those of browsers, which take a second to read.
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.NodeNext,
    types: ['node'],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  }

  /** The lines with type errors of each source, from 0. One program checks all of them, because it reads the libraries once. */
  function typeErrors(sources: string[]): number[][] {
    const files = sources.map((_, version) => join(import.meta.dirname, `generated-${version}.ts`))
    const host = ts.createCompilerHost(OPTIONS)
    const getSourceFile = host.getSourceFile.bind(host)
    host.getSourceFile = (path, ...rest) => {
      const source = sources[files.indexOf(path)]
      return source === undefined
        ? getSourceFile(path, ...rest)
        : ts.createSourceFile(path, source, rest[0])
    }
    const program = ts.createProgram(files, OPTIONS, host)
    return files.map((path) => {
      const file = program.getSourceFile(path)
      const errors = [
        ...program.getSyntacticDiagnostics(file),
        ...program.getSemanticDiagnostics(file),
      ]
      return errors.map(
        ({ start = 0 }) => (file?.text ?? '').slice(0, start).split('\n').length - 1,
      )
    })
  }

  /** What a source exports, apart from some names. A new type of an answer has to be in the document as well. */
  function exportsOf(file: string, but: readonly string[]): string[] {
    const text = readFileSync(join(ROOT, `destination/src/${file}.ts`), 'utf8')
    const names = text.matchAll(/^export (?:interface|type|const) (?:\{ )?(\w+)/gm)
    return Array.from(names, ([, name = '']) => name).filter((name) => !but.includes(name))
  }
})
