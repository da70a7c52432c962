// docs/openapi.yaml is valid, and has exactly the routes that there are.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance, RouteOptions } from 'fastify'
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
  test('is valid OpenAPI 3.1, and an error in it would be found', { tags: 'long' }, async () => {
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
