import { bodyConsumed } from './parse.js'
import { WebhookVerificationError } from './verification-error.js'

type Bytes = Uint8Array<ArrayBuffer>
type Chunks = AsyncIterable<Uint8Array | string> | Iterable<never>
type Header = string | null | undefined

/**
 * Reads a body and decompresses it.
 *
 * @param declaredLength - the `Content-Length` header
 * @param encoding - the `Content-Encoding` header
 * @param maxBytes - the largest size, both before and after decompression
 * @throws WebhookVerificationError with the code `body_too_large`, `body_incomplete` or `unsupported_encoding`
 */
export async function readBody(
  chunks: Chunks,
  declaredLength: Header,
  encoding: Header,
  maxBytes: number,
): Promise<Bytes> {
  if (Number(declaredLength ?? 0) > maxBytes) throw bodyTooLarge(maxBytes)
  const bytes = await join(chunks, maxBytes, (cause) => {
    const message = 'Expected the whole body, got a connection that ended before it did.'
    return new WebhookVerificationError('body_incomplete', message, { cause })
  })
  return decompress(bytes, encoding, maxBytes)
}

/**
 * Decompresses gzip, the only compression that every runtime supports. The first two bytes decide (RFC 1952,
 * section 2.3.1), because some proxies decompress the body and leave the header. No JSON starts with these bytes.
 */
export async function decompress(bytes: Bytes, encoding: Header, maxBytes: number): Promise<Bytes> {
  if (!/^(identity|(x-)?gzip)?$/i.test(encoding ?? '')) throw unsupported('another encoding')
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return join(plain, maxBytes, (cause) => unsupported('damaged gzip', cause))
}

/** Reads the body of a Web `Request`. */
export async function readRequest(request: Request, maxBytes: number): Promise<Bytes> {
  const { body, bodyUsed, headers } = request
  if (bodyUsed || body?.locked === true) {
    throw bodyConsumed('a used one', 'Let the other code read a copy: request.clone().')
  }
  const encoding = headers.get('content-encoding')
  return readBody(body ?? [], headers.get('content-length'), encoding, maxBytes)
}

/** An error for a body that is larger than `maxBytes`. */
export function bodyTooLarge(maxBytes: number): WebhookVerificationError {
  const message =
    `Expected a body of at most ${maxBytes} bytes, got a larger one. ` +
    'Raise maxBytes if you expect such a body.'
  return new WebhookVerificationError('body_too_large', message)
}

function unsupported(got: string, cause?: unknown): WebhookVerificationError {
  const message =
    `Expected a body without compression or in gzip, got ${got}. ` +
    'Find the proxy that encodes the body.'
  return new WebhookVerificationError('unsupported_encoding', message, { cause })
}

/** Joins the chunks, and throws if they have more than `maxBytes`. `broken` creates the error for a source that fails. */
async function join(
  chunks: Chunks,
  maxBytes: number,
  broken: (cause: unknown) => WebhookVerificationError,
): Promise<Bytes> {
  const parts: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of chunks) {
      const part = typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk
      size += part.byteLength
      if (size > maxBytes) break
      parts.push(part)
    }
  } catch (cause) {
    throw broken(cause)
  }
  if (size > maxBytes) throw bodyTooLarge(maxBytes)
  const bytes = new Uint8Array(size)
  parts.reduce((offset, part) => {
    bytes.set(part, offset)
    return offset + part.byteLength
  }, 0)
  return bytes
}
