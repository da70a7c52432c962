import {
  STATUS_CODES,
  type IncomingMessage,
  type Server as HttpServer,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { ANSWERED_BY } from '../model/answered-by.js'
import { StoreError } from '../store/store-error.js'
import { connectionLimit } from './connection-limit.js'
import { drain, noteBroken } from './read-body.js'
import { JSON_TYPE, Refusal, toRefusal } from './refusal.js'

/** The part of a logger that a server writes to. */
export interface ServerLog {
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

/** An HTTP server that answers every error with JSON and a code, and closes the connections of slow clients. */
export interface Server {
  /** Takes the routes. They must be added before the server listens. */
  readonly app: FastifyInstance
  /**
   * Starts to listen. Port 0 picks a free port.
   *
   * @returns the URL of the server.
   */
  listen(host: string, port: number): Promise<string>
  /**
   * Accepts no more connections, and lets requests under way finish.
   *
   * @param withinMs - Connections that are still open after this time are closed.
   * @defaultValue 5,000 ms
   */
  close(withinMs?: number): Promise<void>
}

/** How long clients may take, in ms. */
export interface Timeouts {
  /** The time in which the headers of a request must arrive, after the connection or the previous request. */
  headersMs: number
  /** The time in which the whole request must arrive. */
  requestMs: number
  /** How often both times are checked. */
  checkMs: number
}

/** What clients may take from a server. */
export interface ServerLimits {
  /** @defaultValue 10 s for the headers, 30 s for the whole request */
  timeouts?: Timeouts | undefined
  /** @defaultValue half of the files that the process may open */
  maxConnections?: number
}

const TIMEOUTS: Timeouts = {
  headersMs: 10_000,
  requestMs: 30_000, // a phone with 20 KB/s needs 25 s for 500 KB
  checkMs: 2_000,
}

/** The most bytes in all headers of a request. The headers of usual clients have a few hundred bytes. */
const MAX_HEADER_BYTES = 16_384

/**
 * Longer than the 60 s for which usual load balancers keep idle connections. The load balancer then closes first, and
 * never sends a request on a connection that this server is closing.
 */
const KEEP_ALIVE_MS = 72_000

/**
 * How long a client has to read the answer and to close, after a request that is not valid HTTP or too slow. Then the
 * connection is destroyed: a client that keeps its side open would occupy a file descriptor for ever.
 */
const LINGER_MS = 1_000

/** The log has at most one warning about refused connections in this time, in ms, and one about each answer with 503. */
const WARN_MS = 60_000

/** Half of the 10 s in which the process must end. */
const CLOSE_MS = 5_000

/** Fastify would load its own compilers of schemas, a fifth of all files of a start. No route has a schema. */
const NO_COMPILERS = { buildValidator: noCompiler, buildSerializer: noCompiler }

/**
 * Creates a server without routes. It does not listen yet.
 *
 * @param hint - What a 404 answer says about the routes that exist.
 */
export function createServer(
  log: ServerLog,
  hint: string,
  { timeouts = TIMEOUTS, maxConnections = connectionLimit() }: ServerLimits = {},
): Server {
  let isClosing = false
  const app = fastify({
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      headersTimeout: timeouts.headersMs,
      connectionsCheckingInterval: timeouts.checkMs,
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: false, // Node's own refusal has no body: requireHost refuses it
    },
    // A request that arrives while the server closes is still accepted. Its answer tells the client to reconnect.
    return503OnClosing: false,
    schemaController: { compilersFactory: NO_COMPILERS },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1_000 },
    clientErrorHandler: answerBrokenHttp,
    frameworkErrors: (error, _request, reply) => {
      refuse(reply, toRefusal(error))
    },
  })
  const routes: Route[] = []
  app.addHook('onRoute', ({ method, url }) => {
    routes.push({ methods: [method].flat(), path: matcherOf(url) })
  })
  // Without a listener, Node refuses all but 100-continue, without a body. A server may ignore it: RFC 9110, 10.1.1.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    app.server.emit('request', request, response)
  })
  app.addHook('onRequest', requireHost)
  app.addHook('onRequest', (request, _reply, done) => {
    // Before Fastify reads the body, which it would refuse for another reason.
    done(request.is404 ? noRoute(routes, request.method, request.url, hint) : undefined)
  })
  nameAnswers(app.server)
  answerHalfClosed(app.server)
  noteResponses(app.server)
  if (maxConnections !== undefined) limitConnections(app.server, maxConnections, log)
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done()
  })
  app.setErrorHandler(errorHandler(log))

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

/** Names every answer of the admin API: also to a path that Fastify cannot read, and that of the stream, for which no hooks run. */
function nameAnswers(server: HttpServer): void {
  server.prependListener('request', ({ url = '' }, response) => {
    if (NAMED.test(pathOf(url))) response.setHeader(ANSWERED_BY.name, ANSWERED_BY.value)
  })
}

/**
 * Answers a client that shuts down its sending side after a complete request, as `nc -N` does. By default, Node closes the
 * connection without the answer, while the request is still carried out. Node closes it after the answer, so a client that keeps
 * its own side open keeps no connection. A request that is cut off is refused as before.
 */
function answerHalfClosed(server: HttpServer): void {
  Object.assign(server, { httpAllowHalfOpen: true }) // its types do not have it
}

/** What ends with the client of a connection: calls of {@link endWithClient}. */
const endings = new WeakMap<Socket, Set<() => void>>()

/**
 * Disconnects a client that shuts down its sending side before its answer is complete. A client that has left looks the same until
 * something is sent to it, and work that goes on only for this client has to end.
 *
 * @param onEnd - Is called once, when the answer is complete or the client has disconnected: at once if it already has.
 * @returns whether the client has disconnected.
 */
export function endWithClient(
  response: ServerResponse,
  onEnd: () => void = () => undefined,
): () => boolean {
  const { socket } = response.req // of a pipelined request, the response has none yet
  const all = endings.get(socket) ?? endTogether(socket)
  const end = () => {
    if (all.delete(end)) onEnd()
  }
  all.add(end)
  response.once('close', end)
  if (socket.readableEnded) socket.destroy()
  if (socket.destroyed) end()
  return () => socket.destroyed
}

/** Requests that are pipelined share the listeners of their connection: the response to one may never close. */
function endTogether(socket: Socket): Set<() => void> {
  const all = new Set<() => void>()
  endings.set(socket, all)
  socket.once('end', () => {
    if (all.size > 0) socket.destroy()
  })
  socket.once('close', () => {
    for (const end of all) end()
  })
  return all
}

/** RFC 9112, 3.2: without a Host, a proxy in between may have understood the request in another way. */
function requireHost({ raw }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void) {
  const isMissing = raw.httpVersion === '1.1' && raw.headers.host === undefined
  const message = 'A request of HTTP/1.1 must have a Host header; it has none.'
  done(isMissing ? new Refusal(400, 'bad_request', message) : undefined)
}

/**
 * Refuses the connections above a limit, and makes room for the next one: the oldest connection that has not sent the
 * headers of a request is destroyed. If there is none, those between two requests are closed. Clients that keep their
 * connections and use them are therefore not affected by others that say nothing.
 */
function limitConnections(server: HttpServer, maxConnections: number, log: ServerLog): void {
  let quietUntil = 0
  const silent = new Set<Socket>()
  server.maxConnections = maxConnections
  server.on('connection', (socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  server.on('request', ({ socket }) => silent.delete(socket))
  server.on('drop', () => {
    const [oldest] = silent
    if (oldest) oldest.destroy()
    else server.closeIdleConnections()
    if (performance.now() < quietUntil) return
    quietUntil = performance.now() + WARN_MS
    log.warn(
      { maxConnections },
      'refused a connection: the other files are for deliveries. Raise the limit of open files (`ulimit -n`, or LimitNOFILE of ' +
        'systemd) if so many clients are usual',
    )
  })
}

/**
 * Makes a handler that answers the error of a request after its whole body has arrived. An unexpected error is logged, and so is why
 * requests are answered 503.
 */
function errorHandler(log: ServerLog) {
  const logUnavailable = unavailableLines(log)
  return async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const path = pathOf(request.url)
    const refusal = toRefusal(error, {
      isRead: request.method === 'GET' || request.method === 'HEAD',
      isOfOperator: OF_OPERATOR.test(path),
    })
    if (refusal.code === 'internal_error') log.error({ err: error }, 'a request failed')
    if (refusal.status === 503) logUnavailable(error, refusal, path)
    const { socket, destroyed } = request.raw
    // A request that is destroyed may have no socket any more.
    if (!destroyed) unsent.set(socket, answerOf(refusal, path))
    await drain(request.raw)
    unsent.delete(socket)
    return refuse(reply, refusal)
  }
}

/**
 * Makes what logs why requests are answered 503. Each answer is logged at most once in {@link WARN_MS}. If the store takes no calls, a
 * line of its own says so, and when it takes calls again.
 */
function unavailableLines(log: ServerLog) {
  const quietUntil = new Map<string, number>()
  return (error: unknown, { message }: Refusal, path: string) => {
    const isOfCall = !OF_OPERATOR.test(path) && !ADMIN_API.test(path)
    if (isOfCall && error instanceof StoreError) return
    if (performance.now() < (quietUntil.get(message) ?? 0)) return
    quietUntil.set(message, performance.now() + WARN_MS)
    const details = error instanceof StoreError ? { err: error } : { error: message }
    log.warn(details, 'a request was answered 503; the same answer is logged once a minute')
  }
}

/** Paths that need the token of the operator. Customers and sources are not told about the servers of the store. */
const OF_OPERATOR = /^\/v1\/(?:admin|deletions|audiences)(?![^/])/

/** Paths whose errors have a form of their own, whether there is a route or not. */
const ADMIN_API = /^\/v1\/(?:admin|portal)(?![^/])/

/** Paths whose answers say that a destination gave them, whether there is a route or not. */
const NAMED = /^\/v1\/admin(?![^/])/

/**
 * The path of a request as the router reads it: decoded, and without the query and the origin. A request to a proxy has an origin (RFC
 * 9112, 3.2.2), and a server must accept it too.
 */
function pathOf(url: string): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?#]*/i, '').split(/[?#]/, 1)
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** A whole answer. */
interface Answer {
  status: number
  headers: Readonly<Record<string, string>>
  body: string
}

/** The answers of refused requests whose bodies are still arriving, by their connections. */
const unsent = new WeakMap<Socket, Answer>()

/** @param path - See {@link pathOf}. */
function answerOf({ status, code, message, headers, details }: Refusal, path: string): Answer {
  const answer = ADMIN_API.test(path)
    ? { error: { code, message, ...details } }
    : { success: false, code, message, ...details }
  const named = NAMED.test(path) && { [ANSWERED_BY.name]: ANSWERED_BY.value }
  return {
    status,
    headers: { ...named, ...headers, 'content-type': JSON_TYPE },
    body: JSON.stringify(answer),
  }
}

function refuse(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const { status, headers, body } = answerOf(refusal, pathOf(reply.request.url))
  return reply.code(status).headers(headers).send(body)
}

/** A route of the server. Its path matches all paths that it answers. */
interface Route {
  methods: string[]
  path: RegExp
}

/** What matches the paths of a route: `:name` in its URL stands for any one part. */
function matcherOf(url: string): RegExp {
  const parts = url.split('/').map((part) => {
    return part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${parts.join('/')}/?$`)
}

/** The answer if no route has this path, or no route with this path has this method. */
function noRoute(routes: readonly Route[], method: string, url: string, hint: string): Refusal {
  const path = pathOf(url)
  const allowed = routes.filter((route) => route.path.test(path)).flatMap(({ methods }) => methods)
  if (allowed.length === 0) {
    return new Refusal(404, 'not_found', `There is no route ${path}. ${hint}`)
  }
  const allow = [...new Set(allowed)].join(', ')
  const message = `${path} accepts ${allow}; got ${method}.`
  return new Refusal(405, 'method_not_allowed', message, { Allow: allow })
}

/** The statuses for errors of Node that occur before there is a request: it is not HTTP, or it takes too long. */
const BROKEN_HTTP: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
}

/** Connections whose request may take longer than `requestMs`. */
const slowConnections = new WeakSet<Socket>()

/**
 * Lets a request take longer than `requestMs` to arrive, as long as its client keeps sending.
 *
 * @param idleMs - How long the client may send nothing, in ms.
 */
export function allowSlowBody(request: IncomingMessage, idleMs: number): void {
  const { socket } = request
  slowConnections.add(socket)
  socket.setTimeout(idleMs) // no `timeout` listener is needed: Node closes the connection by default
  request.once('close', () => {
    slowConnections.delete(socket)
    socket.setTimeout(0)
  })
}

/** The responses of a connection that are not complete. */
const responses = new WeakMap<Socket, Set<ServerResponse>>()

function noteResponses(server: HttpServer): void {
  server.on('request', ({ socket }, response) => {
    const ofSocket = responses.get(socket) ?? new Set()
    responses.set(socket, ofSocket.add(response))
    response.once('close', () => ofSocket.delete(response))
  })
}

/** Connections whose error is answered after the responses before it. */
const waiting = new WeakSet<Socket>()

/** The last response that is under way to a request that has arrived completely. */
function pendingOf(socket: Socket): ServerResponse | undefined {
  return [...(responses.get(socket) ?? [])].findLast(({ req }) => req.complete)
}

function answerBrokenHttp(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && slowConnections.has(socket)) return
  if (socket.writableEnded) return // it was answered, and is destroyed soon
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  // A client takes answers in the order of its requests. This one must not stand for that of a request before it.
  const before = pendingOf(socket)
  if (before) {
    if (waiting.has(socket)) return
    waiting.add(socket)
    before.once('close', () => {
      waiting.delete(socket)
      // A request that was too slow may have arrived completely in the meantime: then it is answered as others are.
      if (!pendingOf(socket)) answerBrokenHttp(error, socket)
    })
    return
  }
  noteBroken(socket)
  // A request that was refused is told why. Its client would send it again after a 408.
  const refused = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? unsent.get(socket) : undefined
  const { status, headers, body } = refused ?? answerOfBroken(error)
  const lines = Object.entries({
    ...headers,
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  const destroy = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => {
    clearTimeout(destroy)
  })
}

function answerOfBroken({ code = '', message: cause }: NodeJS.ErrnoException): Answer {
  const message = `The request must be valid HTTP/1.1, and arrive completely and in time: ${cause}.`
  return answerOf(new Refusal(BROKEN_HTTP[code] ?? 400, 'bad_request', message), '')
}

function noCompiler(): never {
  throw new Error('routes have no schema here: check what is given with zod')
}
