import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { drain } from './read-body.js'
import { JSON_TYPE, Refusal, toRefusal } from './refusal.js'

/** The part of a logger that a server writes to. */
export interface ServerLog {
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

/** An HTTP server that answers every error in JSON, with a code, and keeps slow clients from holding it. */
export interface Server {
  /** For its routes; they are added before it listens. */
  readonly app: FastifyInstance
  /**
   * Starts to listen; port 0 takes a free one.
   *
   * @returns the URL.
   */
  listen(host: string, port: number): Promise<string>
  /**
   * Takes no more connections and finishes the requests that are under way.
   *
   * @param withinMs - After so long, connections that are still open are cut.
   */
  close(withinMs?: number): Promise<void>
}

/** How long clients may take, in ms. */
export interface Timeouts {
  /** Until the headers of a request are there, from the connection or from the request before. */
  headersMs: number
  /** Until all of it is there. */
  requestMs: number
  /** How often both are looked at. */
  checkMs: number
}

const TIMEOUTS: Timeouts = {
  headersMs: 10_000,
  requestMs: 30_000, // a phone's 500 KB at 20 KB/s
  checkMs: 2_000,
}

/** All headers of a request, in bytes: what clients send of these has some hundred. */
const MAX_HEADER_BYTES = 16_384

/** Longer than the 60 s of usual load balancers, which must not meet a connection that is just being closed. */
const KEEP_ALIVE_MS = 72_000

/** Leaves room within the 10 s in which the process is to end. */
const CLOSE_MS = 5_000

/**
 * @param hint - What a 404 answer says about the routes that exist.
 */
export function createServer(log: ServerLog, hint: string, timeouts = TIMEOUTS): Server {
  let isClosing = false
  const app = fastify({
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkMs,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    // What arrives while it closes is still taken, and told to connect elsewhere next.
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1_000 },
    clientErrorHandler: answerBrokenHttp,
    frameworkErrors: (error, _request, reply) => {
      refuse(reply, toRefusal(error))
    },
  })
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done()
  })
  app.setErrorHandler(errorHandler(log, refuse))
  app.setNotFoundHandler((request, reply) =>
    refuse(reply, noRoute(app, request.method, request.url, hint)),
  )

  return {
    app,
    listen: (host, port) => app.listen({ host, port }),
    close: async (withinMs = CLOSE_MS) => {
      isClosing = true
      const cut = setTimeout(() => {
        app.server.closeAllConnections()
      }, withinMs)
      try {
        await app.close()
      } finally {
        clearTimeout(cut)
      }
    },
  }
}

/**
 * Answers what a request failed with, once its body has gone by; what nobody expected is logged.
 *
 * @param answer - Writes a refusal.
 */
export function errorHandler(
  log: ServerLog,
  answer: (reply: FastifyReply, refusal: Refusal) => FastifyReply,
) {
  return async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const refusal = toRefusal(error)
    if (refusal.code === 'internal_error') log.error({ err: error }, 'a request failed')
    await drain(request.raw)
    return answer(reply, refusal)
  }
}

function refuse(
  reply: FastifyReply,
  { status, code, message, headers, rejected }: Refusal,
): FastifyReply {
  return reply
    .code(status)
    .headers({ ...headers, 'content-type': JSON_TYPE })
    .send(JSON.stringify({ success: false, code, message, rejected }))
}

/** The answer for a path, or a method of a path, that no route takes. */
function noRoute(app: FastifyInstance, method: string, url: string, hint: string): Refusal {
  const [path = ''] = url.split('?', 1)
  const allowed = app.supportedMethods.filter((one) => app.hasRoute({ method: one, url: path }))
  if (allowed.length === 0) {
    return new Refusal(404, 'not_found', `There is nothing at ${path}. ${hint}`)
  }
  const allow = allowed.join(', ')
  const message = `${path} takes ${allow}; got ${method}.`
  return new Refusal(405, 'method_not_allowed', message, { Allow: allow })
}

/** Node's errors of what is no HTTP, or takes too long, before there is a request to answer. */
const BROKEN_HTTP: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
}

/** Connections whose request may take longer than others. */
const slowConnections = new WeakSet<Socket>()

/**
 * Lets a request take longer to arrive than others, as long as its client is not silent.
 *
 * @param idleMs - How long the client may be silent.
 */
export function allowSlowBody(request: IncomingMessage, idleMs: number): void {
  const { socket } = request
  slowConnections.add(socket)
  socket.setTimeout(idleMs) // without a listener, Node hangs up
  request.once('close', () => {
    slowConnections.delete(socket)
    socket.setTimeout(0)
  })
}

function answerBrokenHttp(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && slowConnections.has(socket)) return
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const status = BROKEN_HTTP[error.code ?? ''] ?? '400 Bad Request'
  const message = `The request must be whole HTTP/1.1, in time: ${error.message}.`
  const body = JSON.stringify({ success: false, code: 'bad_request', message })
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: ${JSON_TYPE}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}
