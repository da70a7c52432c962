import { Agent, request, type ClientRequest, type OutgoingHttpHeaders } from 'node:http'

/** What came back: the body as text, and as JSON where it is JSON. */
export interface Reply {
  status: number
  text: string
  json: unknown
}

interface Post {
  headers?: OutgoingHttpHeaders
  body?: string | Uint8Array
  /** Sends the body in pieces and without a content-length. */
  chunked?: boolean
  /** @defaultValue a connection of its own */
  agent?: Agent | false
}

/** Sends a POST and resolves with the whole answer. */
export function post(
  url: string,
  { headers = {}, body = '', chunked = false, agent = false }: Post,
): Promise<Reply> {
  const bytes = Buffer.from(body)
  const length = chunked ? {} : { 'content-length': bytes.length }
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent, headers: { ...headers, ...length } })
    sent.on('error', reject).on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject).on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const isJson = response.headers['content-type']?.startsWith('application/json') === true
        const json: unknown = isJson ? JSON.parse(text) : undefined
        resolve({ status: response.statusCode ?? 0, text, json })
      })
    })
    const half = bytes.length >> 1 // may cut a character in two, as networks do
    if (chunked) sent.write(bytes.subarray(0, half))
    sent.end(chunked ? bytes.subarray(half) : bytes)
  })
}

/** Starts a POST and breaks the connection after a part of the body; resolves once it is closed. */
export function abort(url: string, headers: OutgoingHttpHeaders, part: string): Promise<void> {
  return new Promise((resolve) => {
    const sent = request(url, {
      method: 'POST',
      agent: false,
      headers: { ...headers, 'content-length': part.length + 1000 },
    })
    sent.on('error', () => undefined).on('close', resolve)
    sent.write(part, () => sent.destroy())
  })
}

/** A server that may not keep the connection ends it after its answer: a write that is faster than that answer would fail. */
const KEEP = new Agent({ keepAlive: true })

/** Sends a body for as long as there is no answer; resolves with the status of the answer. */
export function postEndless(
  url: string,
  headers: OutgoingHttpHeaders,
  send = (sent: ClientRequest) => sent.write(Buffer.alloc(100_000, 'x')),
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent: KEEP, headers })
    sent.on('error', reject).on('response', ({ statusCode }) => {
      sent.off('error', reject).on('error', () => undefined)
      sent.destroy()
      resolve(statusCode)
    })
    const more = () => {
      if (!sent.destroyed && send(sent)) setImmediate(more)
    }
    sent.on('drain', more).flushHeaders()
    more()
  })
}
