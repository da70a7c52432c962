import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { bodyConsumed } from './parse.js'
import { readBody } from './read-body.js'

/**
 * Gives what is nearest to the bytes that were sent: those that were kept, those still in the stream, or
 * what a parser made of them. `mend` is the line that keeps the body, for when it is in none of them.
 */
export async function nodeBody(
  request: IncomingMessage,
  kept: object,
  mend: string,
  maxBytes: number,
  stream: Readable = request,
): Promise<unknown> {
  const { rawBody, body } = kept as { rawBody?: unknown; body?: unknown }
  if (typeof rawBody === 'string' || ArrayBuffer.isView(rawBody)) return rawBody
  if (!stream.readableDidRead) return readStream(stream, request, maxBytes)
  if (typeof body === 'string' || (typeof body === 'object' && body !== null)) return body
  throw bodyConsumed('nothing', mend)
}

async function readStream(stream: Readable, { headers }: IncomingMessage, maxBytes: number) {
  // Destroying the stream would close the connection before the answer is out.
  const chunks = stream.iterator({ destroyOnReturn: false })
  try {
    return await readBody(chunks, headers['content-length'], headers['content-encoding'], maxBytes)
  } finally {
    stream.resume() // a client that is still sending reads the answer only once it has been heard out
  }
}
