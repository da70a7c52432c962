import { isAscii } from 'node:buffer'
import { TextDecoder } from 'node:util'
import { brotliDecompressSync, constants, inflateSync, unzipSync } from 'node:zlib'
import { util } from 'undici'

/** How much of an answer is kept for the log. Error messages fit into it. */
export const EXCERPT_BYTES = 2 * 1024

/** A compressed body is decompressed up to this size. A larger one may be an attack. */
const MAX_DECOMPRESSED_BYTES = 64 * 1024

/**
 * The start of the body of an answer as text. What its encoding does not permit is replaced, and NUL too, because PostgreSQL refuses it
 * in text.
 *
 * @param body - The start of the body.
 * @param rawHeaders - Names and values in turn. Nothing was asked for with Accept-Encoding, but some servers compress nevertheless.
 */
export function bodyText(body: Buffer, rawHeaders: Buffer[]): string {
  // Most bodies are ASCII. Their headers are not read, because reading them takes long.
  if (isAscii(body)) return excerpt(body, 'utf-8')
  const { 'content-encoding': encoding, 'content-type': type } = util.parseHeaders(rawHeaders)
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(String(type))?.[1] ?? 'utf-8'
  if (encoding === undefined || encoding === 'identity') return excerpt(body, charset)
  const decompressed = decompress(body, String(encoding).trim().toLowerCase())
  return decompressed === undefined
    ? `(a body that can't be shown, with Content-Encoding: ${String(encoding).slice(0, 40)})`
    : excerpt(decompressed, charset)
}

/** Text in a charset that the runtime does not have is read as UTF-8. What is cut at the end of the excerpt is left out. */
function excerpt(body: Buffer, charset: string): string {
  const stream = body.length > EXCERPT_BYTES
  const text = decoderOf(charset).decode(body.subarray(0, EXCERPT_BYTES), { stream })
  return text.replaceAll('\0', '\uFFFD')
}

function decoderOf(charset: string): TextDecoder {
  try {
    return new TextDecoder(charset)
  } catch {
    return new TextDecoder()
  }
}

/** @returns `undefined` if it can't be decompressed. */
function decompress(body: Buffer, encoding: string): Buffer | undefined {
  const maxOutputLength = MAX_DECOMPRESSED_BYTES
  const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH } = constants
  try {
    // The body may be cut, and a flush gives what is there of it.
    if (encoding === 'br')
      return brotliDecompressSync(body, { maxOutputLength, finishFlush: BROTLI_OPERATION_FLUSH })
    if (encoding === 'gzip' || encoding === 'x-gzip')
      return unzipSync(body, { maxOutputLength, finishFlush: Z_SYNC_FLUSH })
    if (encoding === 'deflate')
      return inflateSync(body, { maxOutputLength, finishFlush: Z_SYNC_FLUSH })
  } catch {
    return undefined
  }
  return undefined
}
