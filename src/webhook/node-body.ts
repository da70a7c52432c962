import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { bodyConsumed } from './parse.js'
import { decompress, readBody } from './read-body.js'

/**
 * Returns the form of the body that is closest to the sent bytes: the bytes that a parser kept in `rawBody`,
 * else the bytes in the stream, else the parsed `body`.
 *
 * @param kept - the object on which a parser leaves `rawBody` and `body`
 * @param howToKeepIt - the advice in the error message if the body is in none of the three
 * @throws WebhookVerificationError with the code `body_consumed` if the body is in none of the three, or a parser for other bodies
 * has made something else of it
 */
export async function nodeBody(
  request: IncomingMessage,
  kept: object,
  howToKeepIt: string,
  maxBytes: number,
  stream: Readable = request,
): Promise<unknown> {
  const { rawBody, body } = kept as { rawBody?: unknown; body?: unknown }
  if (typeof rawBody === 'string') return rawBody
  if (ArrayBuffer.isView(rawBody))
    return decompress(rawBody as Uint8Array<ArrayBuffer>, '', maxBytes)
  // The request of a test may be no stream.
  if ((stream.readableDidRead as boolean | undefined) === false)
    return readStream(stream, request, maxBytes)
  if (typeof body === 'string' || ArrayBuffer.isView(body)) return body
  if (typeof body !== 'object' || body === null) throw bodyConsumed('nothing', howToKeepIt)
  if (typeof (body as { type?: unknown }).type === 'string') return body
  throw bodyConsumed('a parsed value without a type', howToKeepIt)
}

async function readStream(stream: Readable, { headers }: IncomingMessage, maxBytes: number) {
  // If the iterator destroyed the stream, the connection would close before the answer is sent.
  const chunks = stream.iterator({ destroyOnReturn: false })
  try {
    return await readBody(chunks, headers['content-length'], headers['content-encoding'], maxBytes)
  } finally {
    stream.resume() // many clients read the answer only after they have sent the whole body
  }
}
