import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** The folder of the built page. The relative path is the same from `src/operate` and from `dist/operate`. */
const FOLDER = fileURLToPath(new URL('../../dist/page', import.meta.url))

/**
 * Content Security Policy (level 3): only files from the destination, no inline code.
 *
 * @param ancestors - The origins of the pages that may embed this one in a frame.
 */
const policy = (ancestors: readonly string[]) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    `frame-ancestors ${ancestors.length === 0 ? "'none'" : ancestors.join(' ')}`,
  ].join('; ')

const HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** The name of an asset contains a hash of its content, so that a browser may cache it for ever. */
const FOR_EVER = 'public, max-age=31536000, immutable'

interface File {
  type: string
  plain: Buffer
  /** Compresses it at the first call, so that nobody who has not asked for the page waits for it. */
  gzipped: () => Buffer
  etag: string
}

/**
 * Adds the page: `/` for the operator, `/portal` for tenants, and the assets. The page itself contains no data, so it needs no
 * token.
 *
 * @param frameAncestors - The origins of the pages that may embed the portal. No page may embed that of the operator.
 * @returns whether the page exists. A destination that runs from its sources has no page until `npm run build` has run.
 */
export function addPageRoutes(
  app: FastifyInstance,
  frameAncestors: () => readonly string[],
  folder = FOLDER,
): boolean {
  if (!existsSync(join(folder, 'index.html'))) return false
  const index = read(join(folder, 'index.html'))
  app.get('/', (request, reply) => send(request, reply, index, 'no-cache'))
  app.get('/portal', (request, reply) => {
    // The addresses in the page are relative to this one without a slash at its end.
    if (request.raw.url?.startsWith('/portal/')) return reply.redirect('../portal')
    return send(request, reply, index, 'no-cache', frameAncestors())
  })
  for (const name of readdirSync(join(folder, 'assets'))) {
    const file = read(join(folder, 'assets', name))
    app.get(`/assets/${name}`, (request, reply) => send(request, reply, file, FOR_EVER))
  }
  return true
}

function read(path: string): File {
  const plain = readFileSync(path)
  const etag = `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`
  const type = TYPES[extname(path)] ?? 'application/octet-stream'
  let gzipped: Buffer | undefined
  return { type, plain, gzipped: () => (gzipped ??= gzipSync(plain, { level: 9 })), etag }
}

function send(
  request: FastifyRequest,
  reply: FastifyReply,
  file: File,
  cache: string,
  ancestors: readonly string[] = [],
) {
  const { headers } = request
  reply.headers({
    ...HEADERS,
    'Content-Security-Policy': policy(ancestors),
    'Cache-Control': cache,
    ETag: file.etag,
    Vary: 'Accept-Encoding',
  })
  if (headers['if-none-match']?.includes(file.etag)) return reply.code(304).send()
  reply.header('Content-Type', file.type)
  if (!/\bgzip\b/.test(headers['accept-encoding'] ?? '')) return reply.send(file.plain)
  return reply.header('Content-Encoding', 'gzip').send(file.gzipped())
}
