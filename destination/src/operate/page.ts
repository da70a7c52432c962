import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** The page as `npm run build` leaves it, as far from the sources as from what they become. */
const FOLDER = fileURLToPath(new URL('../../dist/page', import.meta.url))

/** Only what the destination serves itself, nothing inline, and in nobody's frame (CSP level 3). */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const HEADERS = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** Assets are named after what is in them. */
const FOR_EVER = 'public, max-age=31536000, immutable'

interface File {
  type: string
  plain: Buffer
  gzipped: Buffer
  etag: string
}

/**
 * Adds the page for whoever runs the destination: `/`, and what it loads. There is no data in it, so anybody gets it.
 *
 * @returns whether it is there; run from its sources, the destination has one only once it was built.
 */
export function addPageRoutes(app: FastifyInstance, folder = FOLDER): boolean {
  if (!existsSync(join(folder, 'index.html'))) return false
  const index = read(join(folder, 'index.html'))
  app.get('/', (request, reply) => send(request, reply, index, 'no-cache'))
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
  return { type, plain, gzipped: gzipSync(plain, { level: 9 }), etag }
}

function send(request: FastifyRequest, reply: FastifyReply, file: File, cache: string) {
  const { headers } = request
  reply.headers({ ...HEADERS, 'Cache-Control': cache, ETag: file.etag, Vary: 'Accept-Encoding' })
  if (headers['if-none-match']?.includes(file.etag)) return reply.code(304).send()
  reply.header('Content-Type', file.type)
  if (!/\bgzip\b/.test(headers['accept-encoding'] ?? '')) return reply.send(file.plain)
  return reply.header('Content-Encoding', 'gzip').send(file.gzipped)
}
