import { createServer, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { listening } from './listen.js'
import type { LambdaRequest, LambdaResponse } from '../../../src/webhook/adapters/lambda.js'

type Handler = (request: LambdaRequest, context: undefined) => Promise<LambdaResponse>
type Gateway = (request: IncomingMessage, body: Buffer) => LambdaRequest

/** Joins the values of a header by a comma, as API Gateway v2 and function URLs do. */
const joined = ({ headersDistinct }: IncomingMessage) =>
  Object.fromEntries(Object.entries(headersDistinct).map(([name, all]) => [name, all?.join(',')]))

const isText = (body: Buffer) => Buffer.from(body.toString()).equals(body)

/** How each gateway turns a request into an event. */
export const gateways = {
  v2: (request, body) => ({
    version: '2.0',
    headers: joined(request),
    ...(body.length > 0 && { body: body.toString(isText(body) ? 'utf8' : 'base64') }),
    isBase64Encoded: !isText(body),
    requestContext: { http: { method: request.method, path: request.url } },
  }),
  'v2 in Base64': (request, body) => ({
    version: '2.0',
    headers: joined(request),
    body: body.toString('base64'),
    isBase64Encoded: true,
  }),
  v1: (request, body) => {
    const { rawHeaders } = request
    const names = rawHeaders.filter((_value, index) => index % 2 === 0)
    const valuesOf = (name: string) => request.headersDistinct[name.toLowerCase()] ?? []
    return {
      httpMethod: request.method,
      path: request.url,
      headers: Object.fromEntries(names.map((name) => [name, valuesOf(name).at(-1)])),
      multiValueHeaders: Object.fromEntries(names.map((name) => [name, valuesOf(name)])),
      body: body.length === 0 ? null : body.toString(isText(body) ? 'utf8' : 'base64'),
      isBase64Encoded: !isText(body),
    }
  },
} satisfies Record<string, Gateway>

/** Serves a Lambda handler as a gateway does: an invocation that fails is answered 500. */
export function serveLambda(handler: Handler, gateway: Gateway) {
  const server = createServer((request, response) => {
    buffer(request)
      .then((body) => handler(gateway(request, body), undefined))
      .then(({ statusCode, headers, body }) => response.writeHead(statusCode, headers).end(body))
      .catch(() => response.writeHead(500).end())
  })
  return listening(server.listen(0))
}
