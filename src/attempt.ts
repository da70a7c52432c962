import { fetch as crossFetch } from 'cross-fetch'
import { createConnections } from './agent.js'
import type { Answer, Answered } from './answer.js'
import { describe, messageOf, readMessage } from './describe.js'
import type { Log } from './log.js'
import type { FetchInit, FetchResponse, Settings } from './options.js'
import { isCutJson, isListBegun } from './rejections.js'
import { createDecoder, encoder, startDeadline, zlib } from './runtime.js'
import { version } from './version.js'

/** What an answer starts with. */
type Head = Omit<Answered, 'body'>

/** A request under way. */
export interface Attempt {
  /** Never rejects. */
  readonly answer: Promise<Answer>
  /** Ends it now. The answer, which it gives back too, is what came so far, else `error`. */
  cancel(error: Error): Answer
}

/** Makes requests to one endpoint. */
export interface Transport {
  /** @param retries - how often this body was tried before */
  start(body: Uint8Array<ArrayBuffer>, retries: number): Attempt
  /** Closes idle connections. */
  close(): void
}

/** A server that refuses each of 2,500 messages with a long reason needs less. The rest is not read. */
const MAX_ANSWER_BYTES = 8_388_608

/** The responses that clients got. */
const seen = new WeakSet<object>()

export function createTransport(settings: Settings, log: Log): Transport {
  const { endpoint, timeoutMs } = settings
  const url = endpoint.href
  const { agent, error: refusal, close } = createConnections(settings, log)
  const fetch = settings.fetch ?? crossFetch
  const headers = {
    // Answers are short. The global fetch of Deno decodes no answer if its request names an encoding itself.
    ...(!(settings.fetch && 'Deno' in globalThis) && { 'Accept-Encoding': 'identity' }),
    ...settings.headers,
    Authorization: `Basic ${base64(`${settings.writeKey}:`)}`,
    'Content-Type': 'application/json',
    'User-Agent': `hookline/${version}`,
    ...(settings.gzip && { 'Content-Encoding': 'gzip' }),
  }

  function start(json: Uint8Array<ArrayBuffer>, retries: number): Attempt {
    const controller = new AbortController()
    let head: Head | undefined
    let body = ''
    let finish!: (answer: Answer) => void // the promise's executor sets it at once
    const answer = new Promise<Answer>((resolve) => {
      finish = resolve
    })
    const cancel = (error: Error, failure?: string) => {
      const soFar = head ? noPage(brokenOff(head, body, true)) : { error, failure }
      finish(soFar)
      controller.abort(error)
      return soFar
    }
    const stopDeadline = startDeadline(timeoutMs, () => {
      cancel(new Error(`no answer within ${timeoutMs} ms`), 'timeout')
    })

    const exchange = async (): Promise<Answer> => {
      if (refusal) throw refusal
      const init: FetchInit = {
        method: 'POST',
        headers: retries > 0 ? { ...headers, 'X-Retry-Count': String(retries) } : headers,
        body: settings.gzip ? await gzip(json) : json,
        redirect: 'manual',
        signal: controller.signal,
      }
      // node-fetch, which is cross-fetch on Node, takes an agent beyond the standard: to keep connections open.
      const response = await fetch(url, agent ? ({ ...init, agent } as FetchInit) : init)
      head = readHead(response)
      // A fetch of a test may give the same response each time: then the client itself has read it.
      const isOurs = seen.has(response)
      seen.add(response)
      if (head.isConsumed) return { ...head, body, isConsumed: !isOurs }
      const stop = () => {
        controller.abort()
      }
      try {
        const isWhole = await readText(response, head, stop, (text) => (body += text))
        // It did not break off. If there is something of it, and not a part of an object, that is all, as far as anybody knows.
        const isCut = isCutJson(body) && (!isWhole || isListBegun(body))
        if (!isCut && (isWhole || body !== '')) return { ...head, body }
      } catch {
        stop()
      }
      return brokenOff(head, body, false)
    }
    void exchange()
      .catch((error: unknown) => ({ error: toError(error), failure: failureOf(error) }))
      // An injected fetch may reject with what throws when it is looked at.
      .catch(() => ({ error: new Error('fetch failed'), failure: undefined }))
      .then((result) => {
        stopDeadline()
        finish(noPage(result))
      })
    return { answer, cancel }
  }

  return { start, close }
}

/** An injected fetch may resolve to anything: what has no status is no answer, the rest may be missing. */
function readHead(response: FetchResponse): Head {
  const status = (response as FetchResponse | undefined)?.status
  if (status === undefined || !Number.isInteger(status)) {
    throw new TypeError(`fetch must resolve to a response with a status, got ${describe(response)}`)
  }
  const { type } = response as { type?: unknown }
  if (status === 0 && type !== undefined && type !== 'opaqueredirect') {
    throw new Error(`fetch gave no answer, but a response of the type ${describe(type)}`)
  }
  const header = (name: string) => {
    try {
      const value: unknown = response.headers.get(name)
      return typeof value === 'string' ? value : null
    } catch {
      return null
    }
  }
  return { status, header, isConsumed: status !== 204 && isConsumed(response, header) }
}

/** Whether a body was read, or is being read, that may have said something. */
function isConsumed(response: FetchResponse, header: Head['header']): boolean {
  try {
    const { bodyUsed, body } = response as {
      bodyUsed?: unknown
      body?: { locked?: unknown } | null
    }
    return (bodyUsed === true || body?.locked === true) && header('content-length') !== '0'
  } catch {
    return false
  }
}

/**
 * The answer if its body broke off, never ended or was too long. The status is the answer, with what came of the body. But if that
 * is a part of an object, or nothing of a body that was announced, nobody knows whether the rest names messages that were refused:
 * then the answer is lost. Its failure has a kind, so that smaller bodies are tried: their lists are shorter.
 *
 * @param isLate - whether its time was over. If nothing came of a body then, smaller ones may be answered in time.
 */
function brokenOff(head: Head, body: string, isLate: boolean): Answer {
  const isTaken = head.status >= 200 && head.status < 300
  const isMissing = body.trim() === '' && announcesBody(head)
  if (!isTaken || !(isMissing || isCutJson(body))) return { ...head, body }
  const error = new Error('the answer broke off, so that nobody knows which messages it refused')
  const failure = isLate && isMissing ? 'late answer' : 'cut answer'
  return { error, failure, cut: { ...head, body } }
}

function noPage(answer: Answer): Answer {
  const isFailed = 'status' in answer && answer.status < 300 && isPage(answer.body)
  return isFailed ? { error: new Error('the endpoint sent HTML'), failure: undefined } : answer
}

/** A page is a failure: a wrong path leads to it, or a login in between, which takes everything and reads nothing. */
export function isPage(body: string): boolean {
  return /^\s*<(!|html|head|meta|script)/i.test(body)
}

function toError(thrown: unknown): Error {
  const isReadable = thrown instanceof Error && readMessage(thrown) !== undefined
  if (!isReadable) return new Error(messageOf(thrown))
  const reason = reasonOf(thrown)
  return reason ? new Error(thrown.message + reason, { cause: thrown }) : thrown
}

/**
 * What the message of a fetch lacks. The global one of Node has it in the cause, or in the errors of the cause, one for each address
 * of the host. node-fetch has only the code of these.
 */
function reasonOf(thrown: Error): string {
  const { message, cause, code } = thrown as { message: string; cause?: unknown; code?: unknown }
  if (message.endsWith('reason: ') && typeof code === 'string') return code
  const causes = [(cause as { errors?: unknown } | null | undefined)?.errors ?? cause].flat()
  const reasons = causes.map(readMessage).filter((each) => each && !message.includes(each))
  return reasons.length > 0 ? `: ${reasons.join(', ')}` : ''
}

/** Codes of connections that broke, and of answers that could not be read, once the request was under way. */
const BROKEN =
  /^(ECONNRESET|EPIPE|ERR_STREAM_PREMATURE_CLOSE|HPE_\w+|UND_ERR_(SOCKET|HEADERS_OVERFLOW))$/

/** Codes of a fetch that has a time limit of its own, for what comes after the request. */
const TIMED_OUT = /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/

function failureOf(thrown: unknown): string | undefined {
  const { code, cause } = (thrown ?? {}) as { code?: unknown; cause?: { code?: unknown } | null }
  const codes = [code, cause?.code].filter((each) => typeof each === 'string')
  return codes.some((each) => TIMED_OUT.test(each))
    ? 'timeout'
    : codes.find((each) => BROKEN.test(each))
}

/**
 * Reads an answer's body, and says whether that is all of it, as far as is known. One that is too long is cut, and its request
 * stopped: its connection is of no use. Only the bytes that come are counted: the Content-Length of a compressed answer says
 * nothing about its size.
 */
async function readText(
  response: FetchResponse,
  { header }: Head,
  stop: () => void,
  add: (text: string) => void,
): Promise<boolean> {
  const { body } = response
  if (!isAsyncIterable(body)) {
    const text: unknown = await response.text()
    if (typeof text === 'string') add(text)
    return true
  }

  const decoder = createDecoder()
  let bytes = 0
  for await (const chunk of body) {
    add(decoder.decode(chunk, { stream: true }))
    bytes += chunk.byteLength
    if (bytes > MAX_ANSWER_BYTES) break
  }
  if (bytes > MAX_ANSWER_BYTES) {
    stop()
    return false
  }
  if (header('content-encoding') !== null) return false // the default fetch does not tell that it is cut
  // Without a length, nobody may tell that the connection was closed too early: see prepare() in agent.ts, and RFC 9112, section 6.3.
  // The global fetch of Node 20 does not tell it of a chunked body either.
  const length = header('content-length')
  return length === null ? bytes === 0 : bytes >= Number(length)
}

/** Whether a body should have come. */
function announcesBody({ status, header }: Head): boolean {
  if (status === 204) return false
  const length = header('content-length')
  if (length !== null) return Number(length) > 0
  return header('transfer-encoding') !== null || header('content-encoding') !== null
}

function isAsyncIterable(value: unknown): value is AsyncIterable<Uint8Array> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

function gzip(json: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    zlib?.gzip(json, (error, compressed) => {
      if (error) reject(error)
      else resolve(compressed)
    })
  })
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...encoder.encode(text)))
}
