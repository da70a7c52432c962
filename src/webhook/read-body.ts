import { bodyConsumed } from './parse.js'
import { WebhookVerificationError } from './verification-error.js'

type Bytes = Uint8Array<ArrayBuffer>
type Chunks = AsyncIterable<Uint8Array | string> | Iterable<never>
type Header = string | null | undefined

/** Reads a body to its end, or up to the limit, and decompresses it. */
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
 * Undoes gzip, the one compression that every runtime knows. It is told by its first bytes: some proxies
 * decompress and leave the header, and no JSON starts like that (RFC 1952, 2.3.1).
 */
export async function decompress(bytes: Bytes, encoding: Header, maxBytes: number): Promise<Bytes> {
  if (!/^(identity|(x-)?gzip)?$/i.test(encoding ?? '')) throw unsupported('another encoding')
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return join(plain, maxBytes, (cause) => unsupported('gzip that is broken', cause))
}

/** Reads the body of a Web `Request`. */
export async function readRequest(request: Request, maxBytes: number): Promise<Bytes> {
  const { body, bodyUsed, headers } = request
  if (bodyUsed || body?.locked === true) {
    throw bodyConsumed('a used one', 'Read a copy of the request there: request.clone().')
  }
  const encoding = headers.get('content-encoding')
  return readBody(body ?? [], headers.get('content-length'), encoding, maxBytes)
}

/** An error that says how large a body may be. */
export function bodyTooLarge(maxBytes: number): WebhookVerificationError {
  const message = `Expected a body of at most ${maxBytes} bytes, got a larger one. Raise maxBytes if it is right.`
  return new WebhookVerificationError('body_too_large', message)
}

function unsupported(got: string, cause?: unknown): WebhookVerificationError {
  const message = `Expected a body that is plain or in gzip, got ${got}. Find the proxy that encodes it.`
  return new WebhookVerificationError('unsupported_encoding', message, { cause })
}

/** Joins chunks up to the limit; `broken` makes the error for a source that fails. */
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
