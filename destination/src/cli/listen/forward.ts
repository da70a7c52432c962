import type { IncomingHttpHeaders } from 'node:http'
import type { AnswerRequest } from './receiver.js'

/** In ms. Longer than any sender waits, so that it is the sender who gives up. */
const TIMEOUT_MS = 60_000

/** Headers of one connection (RFC 9110, 7.6.1), and those that the request to the other server gets by itself. */
const OWN_HEADERS = new Set([
  'host',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'upgrade',
  'content-length',
  'expect',
])

/** Sends each request on to a URL with its headers and its exact bytes, and gives its answer. */
export function forwardTo(url: string): AnswerRequest {
  return async ({ headers }, bytes) => {
    try {
      const answer = await fetch(url, {
        method: 'POST',
        headers: kept(headers),
        body: new Uint8Array(bytes),
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) }
    } catch (error) {
      const { cause = error } = error as Error
      const { code, message } = cause as NodeJS.ErrnoException
      const why = `No answer from ${url} (${code ?? message}). Check that your receiver runs there.`
      return { status: 502, forwardError: why }
    }
  }
}

function kept(headers: IncomingHttpHeaders): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined || OWN_HEADERS.has(name) ? [] : [[name, [value].flat().join(', ')]],
  )
}
