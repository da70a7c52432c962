// docs/openapi.yaml as data, and what a request or an answer has that the document does not say.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import { ANSWERED_BY } from '../../src/model/answered-by.js'

export const PATH = fileURLToPath(new URL('../../../docs/openapi.yaml', import.meta.url))

export interface Schema {
  $ref?: string
  type?: string | string[]
  const?: string
  properties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  items?: Schema | boolean
  prefixItems?: Schema[]
  allOf?: Schema[]
  oneOf?: Schema[]
  anyOf?: Schema[]
}

interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  schema: Schema
}

interface Header {
  required?: boolean
  schema: Schema
}

interface Media {
  schema: Schema
  examples?: Record<string, { value: unknown }>
}

export interface Answer {
  headers?: Record<string, Header>
  content: Record<string, Media>
}

export interface Operation {
  operationId: string
  security: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Answer>
}

interface Document {
  info: { version: string }
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

const raw = parse(readFileSync(PATH, 'utf8')) as Document

const targets = new Map<string, object>()

/** The document without references. No schema contains itself. */
export const document = resolved(raw) as Document

/** The names of the schemas. */
export const schemaNames = Object.keys(document.components.schemas)

function resolved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolved)
  if (typeof value !== 'object' || value === null) return value
  const { $ref, ...rest } = value as { $ref?: unknown }
  // A property of a schema may have the name "$ref" as well, but then its value is no text.
  if (typeof $ref === 'string') {
    const found = targets.get($ref) ?? (resolved(target($ref)) as object)
    // The same object each time, so that its validator is made once.
    targets.set($ref, found)
    return Object.keys(rest).length === 0 ? found : { ...found, ...rest }
  }
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, resolved(part)]))
}

function target(ref: string): unknown {
  const steps = ref.replace(/^#\//, '').split('/')
  return steps.reduce<unknown>((value, step) => (value as Record<string, unknown>)[step], raw)
}

/** One operation of the document, with its place. */
export interface Place {
  method: string
  path: string
  operation: Operation
}

export const places: readonly Place[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase(),
    path,
    operation,
  })),
)

/** The operation that a request is for. A path without parameters comes before one with parameters. */
export function placeOf(method: string, url: string): Place | undefined {
  const { pathname } = new URL(url)
  return places
    .filter((place) => place.method === method)
    .sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')))
    .find(({ path }) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(pathname))
}

const ajv = new Ajv2020({
  strict: true,
  strictTypes: false,
  strictRequired: false,
  code: { optimize: false },
})
ajv.addVocabulary(['discriminator'])
const validators = new WeakMap<Schema, ValidateFunction>()

/** What is wrong with a value; empty if it agrees with the schema. */
export function errorsOf(schema: Schema, value: unknown): string[] {
  const validate = validators.get(schema) ?? ajv.compile(schema)
  validators.set(schema, validate)
  if (validate(value)) return []
  return (validate.errors ?? []).map(({ instancePath, message = '', params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  )
}

const strictSchemas = new WeakMap<Schema, Schema>()

/** As {@link errorsOf}, and properties that the schema does not name are wrong too. */
export function strictErrorsOf(schema: Schema, value: unknown): string[] {
  const closed = strictSchemas.get(schema) ?? strict(schema)
  strictSchemas.set(schema, closed)
  return errorsOf(closed, value)
}

/**
 * The document lets clients ignore what they do not know, so its answers are open. A test has to know everything.
 *
 * @param isPart - Whether the schema is one of several that describe an object together. Only the whole can be closed.
 */
function strict(schema: Schema, isPart = false): Schema {
  const { properties, items, prefixItems, allOf, oneOf } = schema
  const isObject = schema.type === 'object' && schema.additionalProperties === undefined
  return {
    ...schema,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, strict(property)]),
      ),
    }),
    ...(typeof items === 'object' && { items: strict(items) }),
    ...(prefixItems && { prefixItems: prefixItems.map((item) => strict(item)), items: false }),
    ...(allOf && { allOf: allOf.map((part) => strict(part, true)) }),
    ...(oneOf && { oneOf: oneOf.map((part) => strict(part)) }),
    ...(!isPart && (isObject || allOf) && { unevaluatedProperties: false }),
  }
}

/** Headers that HTTP itself sets, or that the media type already says. */
const OF_HTTP = [
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
]

/** What an answer has that the document does not say, and what it lacks. */
export function errorsOfAnswer(
  { path, operation }: Place,
  { status, headers }: Pick<Response, 'status' | 'headers'>,
  text: string,
): string[] {
  const answer = operation.responses[status]
  if (!answer) return [`the status ${status} is not documented: ${text}`]
  const mediaType = (headers.get('content-type') ?? '').replace(/;.*/, '')
  const media = answer.content[mediaType]
  if (!media) return [`the content type ${mediaType} is not documented`]
  const body: unknown = mediaType === 'application/json' ? JSON.parse(text) : text
  const isNamed = path.startsWith('/v1/admin/') && status !== 408 && status !== 431
  const named = isNamed ? { ...answer.headers, [ANSWERED_BY.name]: NAME } : answer.headers
  return [...strictErrorsOf(media.schema, body), ...errorsOfHeaders(named, headers)]
}

/** What the document says of the admin API in one place: every answer has this header. */
const NAME: Header = { required: true, schema: { type: 'string', const: ANSWERED_BY.value } }

function errorsOfHeaders(documented: Answer['headers'] = {}, headers: Headers): string[] {
  const lowerCase = Object.entries(documented).map(
    ([name, header]) => [name.toLowerCase(), header] as const,
  )
  const known = new Set([...OF_HTTP, ...lowerCase.map(([name]) => name)])
  const unknown = [...headers.keys()].filter((name) => !known.has(name))
  return [
    ...unknown.map((name) => `the header ${name} is not documented`),
    ...lowerCase.flatMap(([name, { required = false, schema }]) => {
      const value = headers.get(name)
      if (value === null) return required ? [`the header ${name} is missing`] : []
      return errorsOf(schema, ofText(schema, value)).map((error) => `${name}: ${error}`)
    }),
  ]
}

/** What a request has that the document does not allow, in its URL, its headers and its body. */
export function errorsOfRequest(
  { path, operation }: Place,
  url: string,
  mediaType: string,
  body: string | undefined,
  headers: Readonly<Record<string, string>> = {},
): string[] {
  const { pathname, searchParams } = new URL(url)
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
  const inPath = new RegExp(`^${path.replaceAll(/\{\w+\}/g, '([^/]*)')}$`).exec(pathname) ?? []
  const given = {
    path: new Map(names.map((name, i) => [name, decoded(inPath[i + 1] ?? '')])),
    query: new Map(searchParams),
    header: new Map(Object.entries(headers)),
  }
  const { parameters = [], requestBody } = operation
  const known = parameters.filter((one) => one.in === 'query').map(({ name }) => name)
  const unknown = [...searchParams.keys()].filter((name) => !known.includes(name))
  return [
    ...unknown.map((name) => `the parameter ${name} is not documented`),
    ...parameters.flatMap(({ name, in: place, required = false, schema }) => {
      const value = given[place].get(name)
      if (value === undefined) return required ? [`the parameter ${name} is missing`] : []
      return errorsOf(schema, ofText(schema, value)).map((error) => `${name}: ${error}`)
    }),
    ...(requestBody ? errorsOfBody(requestBody.content[mediaType], body ?? '') : []),
  ]
}

function errorsOfBody(media: Media | undefined, text: string): string[] {
  if (!media) return ['the content type is not documented']
  if (media.schema.type === 'string') return errorsOf(media.schema, text)
  try {
    return errorsOf(media.schema, JSON.parse(text))
  } catch {
    return ['the body is not JSON']
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The value of a parameter or a header by its schema: a number if it is one. */
function ofText({ type }: Schema, text: string): unknown {
  return type === 'integer' && /^\d+$/.test(text) ? Number(text) : text
}
