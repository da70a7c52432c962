import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { buffer } from 'node:stream/consumers'
import type { AnswerRequest, Arrived } from './receiver.js'

/** Headers of one connection (RFC 9110, 7.6.1). The header `Connection` may name more. */
const OF_CONNECTION = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Headers that the request to the other server gets by itself, and one that has been answered already. */
const OWN = ['host', 'content-length', 'expect']

/** Sends each request on to a URL with its headers and its exact bytes, and gives its answer. */
export function forwardTo(url: string): AnswerRequest {
  return async (arrived) => {
    try {
      const answer = await send(url, arrived)
      const { statusCode: status = 0 } = answer
      // Node reads such a status, but can't send it.
      if (status < 100) throw new Error(`it answered with the status ${status}`)
      return { status, headers: passedOn(answer).flat(), body: await buffer(answer) }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const why = `No answer from ${url} (${code ?? message}). Check that your receiver runs there.`
      return { status: 502, forwardError: why }
    }
  }
}

/** The connection is not kept: a kept one may end just when the next request is sent, as if the receiver were down. */
function send(url: string, { request, bytes, signal }: Arrived): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const make = /^https:/i.test(url) ? httpsRequest : httpRequest
    const onward = make(url, { method: 'POST', agent: false, signal }, resolve)
    for (const [name, value] of passedOn(request)) {
      if (!OWN.includes(name.toLowerCase())) onward.appendHeader(name, value)
    }
    onward.on('error', reject).end(bytes)
  })
}

/** The headers of a request or an answer without those of its connection. */
function passedOn({ headers, rawHeaders }: IncomingMessage): [name: string, value: string][] {
  const named = (headers.connection ?? '').toLowerCase().split(/[\s,]+/)
  const left = new Set([...OF_CONNECTION, ...named])
  const passed: [string, string][] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name = '', value = ''] = rawHeaders.slice(i, i + 2)
    if (!left.has(name.toLowerCase())) passed.push([name, value])
  }
  return passed
}
