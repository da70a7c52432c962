import { randomInt } from 'node:crypto'
import type { Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply } from 'fastify'
import type { Source } from '../settings/settings.js'
import { StoreError } from '../store/store-error.js'
import { addCallRoutes, type Accept } from './call-routes.js'
import { credentialsOf } from './credentials.js'
import { drain } from './read-body.js'
import { JSON_TYPE, Refusal } from './refusal.js'

/** The part of a logger that the collector writes to. */
export interface CollectorLog {
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

/** What a collector is made of. */
export interface CollectorOptions {
  accept: Accept
  /** Who may send calls. */
  sources: readonly Source[]
  log: CollectorLog
}

/** Takes calls over HTTP, from {@link Collector.listen} to {@link Collector.close}. */
export interface Collector {
  /** For routes beside those of the calls; they are added before it listens. */
  readonly app: FastifyInstance
  /**
   * Starts to listen; port 0 takes a free one.
   *
   * @returns the URL.
   */
  listen(host: string, port: number): Promise<string>
  /** Replaces the sources and their keys; requests that are under way go on. */
  use(sources: readonly Source[]): void
  /**
   * Takes no more connections and finishes the requests that are under way.
   *
   * @param withinMs - After so long, connections that are still open are cut.
   */
  close(withinMs?: number): Promise<void>
}

/** The body of a request may take so long: a phone's 500 KB at 20 KB/s. */
const REQUEST_MS = 30_000

const HEADERS_MS = 10_000

/** Longer than the 60 s of usual load balancers, which must not meet a connection that is just being closed. */
const KEEP_ALIVE_MS = 72_000

/** Leaves room within the 10 s in which the process is to end. */
const CLOSE_MS = 5_000

/** Makes a collector. */
export function createCollector({ accept, sources, log }: CollectorOptions): Collector {
  const intake = { accept: reporting(accept, log), credentials: credentialsOf(sources) }
  let isClosing = false

  const app = fastify({
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: { headersTimeout: HEADERS_MS },
    // What arrives while it closes is still taken, and told to connect elsewhere next.
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true },
    clientErrorHandler: answerBrokenHttp,
    frameworkErrors: (error, _request, reply) => {
      refuse(reply, toRefusal(error))
    },
  })
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done()
  })
  app.setErrorHandler(async (error, request, reply) => {
    const refusal = toRefusal(error)
    if (refusal.code === 'internal_error') log.error({ err: error }, 'a request failed')
    await drain(request.raw)
    return refuse(reply, refusal)
  })
  app.setNotFoundHandler((request, reply) =>
    refuse(reply, noRoute(app, request.method, request.url)),
  )
  addCallRoutes(app, intake)

  return {
    app,
    listen: (host, port) => app.listen({ host, port }),
    use: (next) => {
      intake.credentials = credentialsOf(next)
    },
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

/** Logs when the store begins to refuse and when it takes calls again, not each request in between. */
function reporting(accept: Accept, log: CollectorLog): Accept {
  let isRefusing = false
  return async (source, calls) => {
    try {
      await accept(source, calls)
    } catch (error) {
      if (error instanceof StoreError && !isRefusing) {
        isRefusing = true
        log.error({ err: error }, 'the store takes no calls: clients are answered 503')
      }
      throw error
    }
    if (!isRefusing) return
    isRefusing = false
    log.warn({}, 'the store takes calls again')
  }
}

function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof StoreError) {
    const why = error.code === 'full' ? 'The store is full' : 'The store can not write'
    // Spread, so that clients that were refused together do not come again together.
    const headers = { 'Retry-After': String(randomInt(1, 6)) }
    return new Refusal(
      503,
      'store_unavailable',
      `${why}: nothing was taken, send it again.`,
      headers,
    )
  }
  const { statusCode = 500, message } = error as { statusCode?: number; message?: string }
  if (statusCode < 500) return new Refusal(statusCode, 'bad_request', message ?? 'Bad request')
  return new Refusal(500, 'internal_error', 'Something went wrong here: send it again.')
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

/** Says what there is, to who asked for what there is not. */
function noRoute(app: FastifyInstance, method: string, url: string): Refusal {
  const [path = ''] = url.split('?', 1)
  const allowed = app.supportedMethods.filter((one) => app.hasRoute({ method: one, url: path }))
  if (allowed.length === 0) {
    const message = `There is nothing at ${path}. Calls go to POST /v1/batch, or one by one to /v1/track and the like.`
    return new Refusal(404, 'not_found', message)
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

function answerBrokenHttp(error: NodeJS.ErrnoException, socket: Socket): void {
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
