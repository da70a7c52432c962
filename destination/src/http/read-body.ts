import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { Refusal } from './refusal.js'

const unzip = promisify(gunzip)

/**
 * Reads the body of a request to its end, whatever its content type says, and decompresses it.
 *
 * @param maxBytes - The limit, as the body came and decompressed; no more than that is ever held.
 * @throws {@link Refusal} if it is larger, if it is not whole, or if it is compressed otherwise than in gzip.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const encoding = request.headers['content-encoding'] ?? ''
  if (!/^(?:identity|(?:x-)?gzip)?$/i.test(encoding)) {
    const message = `The body must be plain or in gzip; its Content-Encoding is ${encoding}.`
    throw new Refusal(415, 'unsupported_encoding', message, { 'Accept-Encoding': 'gzip' })
  }
  if (Number(request.headers['content-length']) > maxBytes) throw tooLarge(maxBytes)
  const bytes = await collect(request, maxBytes)
  // Told by its first bytes (RFC 1952, 2.3.1), which no JSON starts with: some proxies decompress and leave the
  // header, some clients compress and have none.
  return bytes[0] === 0x1f && bytes[1] === 0x8b ? decompress(bytes, maxBytes) : bytes
}

/**
 * Reads what is still to come of a request and drops it: a client that is still sending hears no answer, and a
 * connection that is closed under it takes the answer along (RFC 9112, 9.6).
 */
export async function drain(request: IncomingMessage): Promise<void> {
  if (request.readableEnded || request.destroyed) return
  request.resume()
  await finished(request).catch(() => undefined) // it hung up: nobody is there to be answered
}

function collect(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) {
        chunks.push(chunk)
        return
      }
      chunks.length = 0
      reject(tooLarge(maxBytes))
    })
    request.on('end', () => {
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
    })
    request.on('error', () => {
      const message = 'The connection ended before the body did: send it again.'
      reject(new Refusal(400, 'body_incomplete', message))
    })
  })
}

async function decompress(bytes: Buffer, maxBytes: number): Promise<Buffer> {
  try {
    return await unzip(bytes, { maxOutputLength: maxBytes })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxBytes)
    throw new Refusal(400, 'invalid_gzip', `The body must be whole gzip; it is broken: ${message}.`)
  }
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal(
    413,
    'body_too_large',
    `The body must have at most ${maxBytes} bytes, decompressed too; it has more. Send less at once.`,
  )
}
