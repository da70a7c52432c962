import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { finished } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ArrivingBytes } from './arriving-bytes.js'
import { Refusal } from './refusal.js'

const unzip = promisify(gunzip)

/** Lets the routes of a plugin read their bodies themselves, with {@link readBody}. Fastify reads none of them. */
export function readOwnBodies(routes: FastifyInstance): void {
  routes.removeAllContentTypeParsers()
  routes.addContentTypeParser('*', (_request, _body, parsed) => {
    parsed(null)
  })
}

/** A hook for routes whose content type does not matter. Without it, Fastify refuses a malformed content type. */
export function ignoreContentType({ raw }: FastifyRequest, _reply: FastifyReply, next: () => void) {
  delete raw.headers['content-type']
  next()
}

/**
 * Reads the whole body of a request, whatever its content type is, and decompresses it.
 *
 * @param maxBytes - The limit in bytes, before and after decompression. No more than this is held in memory.
 * @param arriving - Counts what has arrived of this body and of others. Left out where only few may send bodies.
 * @throws {@link Refusal} if the body is larger, if it is incomplete, if it is compressed with anything but gzip, or if too many
 * others arrive.
 */
export async function readBody(
  request: IncomingMessage,
  maxBytes: number,
  arriving?: ArrivingBytes,
): Promise<Buffer> {
  const encoding = request.headers['content-encoding'] ?? ''
  if (!/^(?:identity|(?:x-)?gzip)?$/i.test(encoding)) {
    const message = `The body must be uncompressed or in gzip; its Content-Encoding is ${encoding}.`
    throw new Refusal(415, 'unsupported_encoding', message, { 'Accept-Encoding': 'gzip' })
  }
  if (Number(request.headers['content-length']) > maxBytes) throw tooLarge(maxBytes)
  const bytes = await collect(request, maxBytes, arriving)
  // The first bytes decide (RFC 1952, 2.3.1), because the header may be wrong: some proxies decompress the body and keep
  // the header, and some clients compress it without a header. JSON never starts with these bytes.
  return bytes[0] === 0x1f && bytes[1] === 0x8b ? decompress(bytes, maxBytes) : bytes
}

/**
 * Reads the rest of a request and drops it. A client that is still sending does not read the answer, and closing the
 * connection while data arrives can destroy the answer on its way (RFC 9112, 9.6).
 */
export async function drain(request: IncomingMessage): Promise<void> {
  if (request.readableEnded || request.destroyed) return
  request.resume()
  await finished(request).catch(() => undefined) // the client closed the connection, so no answer can be sent
}

/** Connections that were answered `bad_request` while a body arrived. */
const brokenConnections = new WeakSet<Socket>()

/** Notes that a connection was answered `bad_request`, so that {@link readBody} refuses its body with the same code. */
export function noteBroken(socket: Socket): void {
  brokenConnections.add(socket)
}

function collect(
  request: IncomingMessage,
  maxBytes: number,
  arriving: ArrivingBytes | undefined,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] | undefined = []
    let size = 0
    const giveUp = (refusal: Refusal) => {
      chunks = undefined
      body?.end()
      reject(refusal)
    }
    const body = arriving?.begin(giveUp)
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > maxBytes) giveUp(tooLarge(maxBytes))
      chunks?.push(chunk)
      body?.add(chunk.length)
    })
    request.on('end', () => {
      body?.end()
      if (chunks) resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
    })
    request.on('error', () => {
      const code = brokenConnections.has(request.socket) ? 'bad_request' : 'body_incomplete'
      const message =
        'The connection ended before the whole body had arrived. Send the request again.'
      giveUp(new Refusal(400, code, message))
    })
  })
}

async function decompress(bytes: Buffer, maxBytes: number): Promise<Buffer> {
  try {
    return await unzip(bytes, { maxOutputLength: maxBytes })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxBytes)
    throw new Refusal(400, 'invalid_gzip', `The body is not valid gzip: ${message}.`)
  }
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal(
    413,
    'body_too_large',
    `The body must have at most ${maxBytes} bytes, also after decompression; it has more. Send less at once.`,
  )
}
