import type { IncomingMessage } from 'node:http'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { readBody } from '../http/read-body.js'
import { Refusal, show } from '../http/refusal.js'

/** A list in one piece is held as a whole. */
const MAX_LIST_BYTES = 5_000_000

/** A line holds one id. */
const MAX_LINE_LENGTH = 10_000

/** The longest id of a user, in characters. */
const MAX_USER_LENGTH = 1_000

/** So many ids make a piece. */
const PIECE = 1_000

const LINES = /^application\/(?:x-)?(?:ndjson|jsonl|jsonlines|json-lines)\b/i

/**
 * The ids of users in the body of a request, piece by piece: a JSON array, or lines of JSON of any number. Each is a
 * text, a whole number, or an object with a `userId`.
 *
 * @throws {@link Refusal} that says which one is wrong, and how. What came before it has been given then.
 */
export async function* readMembers(
  request: IncomingMessage,
  contentType = '',
): AsyncGenerator<string[]> {
  const isLines = LINES.test(contentType)
  const all = isLines ? readLines(request) : readList(request)
  let piece: string[] = []
  let place = 0
  for await (const member of all) {
    place++
    piece.push(userOf(member, isLines ? `Line ${place}` : `Member ${place} of the list`))
    if (piece.length < PIECE) continue
    yield piece
    piece = []
  }
  if (piece.length > 0) yield piece
}

async function* readList(request: IncomingMessage): AsyncGenerator {
  const text = (await readBody(request, MAX_LIST_BYTES)).toString()
  const list = parse(text, 'The body')
  if (!Array.isArray(list)) {
    const fix =
      'Send lines of JSON, one for each user, with the content type application/x-ndjson, or an array.'
    throw invalid(`The body must be a JSON array of user ids; got ${show(list)}. ${fix}`)
  }
  yield* list as unknown[]
}

async function* readLines(request: IncomingMessage): AsyncGenerator {
  const stream = decompressed(request)
  let rest = ''
  let line = 0
  const take = (text: string) => {
    line++
    return text.trim() === '' ? undefined : [parse(text, `Line ${line}`)]
  }
  try {
    for await (const chunk of stream.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const text of lines) yield* take(text) ?? []
      if (rest.length > MAX_LINE_LENGTH) {
        throw invalid(`Line ${line + 1} must have at most ${MAX_LINE_LENGTH} characters.`)
      }
    }
  } catch (error) {
    if (error instanceof Refusal) throw error
    const { code = '' } = error as NodeJS.ErrnoException
    if (code.startsWith('Z_')) throw new Refusal(400, 'invalid_gzip', 'The body is no whole gzip.')
    throw new Refusal(400, 'body_incomplete', `The body ended within the list. ${AGAIN}`)
  }
  yield* take(rest) ?? []
}

function decompressed(request: IncomingMessage): Readable {
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity') return request
  if (encoding === 'gzip') return pipeline(request, createGunzip(), () => undefined)
  const message = `The body must be plain or in gzip; its Content-Encoding is ${encoding}.`
  throw new Refusal(415, 'unsupported_encoding', message, { 'Accept-Encoding': 'gzip' })
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(`${what} must be JSON, such as "u1" or {"userId":"u1"}.`)
  }
}

function userOf(given: unknown, place: string): string {
  const isObject = typeof given === 'object' && given !== null && 'userId' in given
  const id = isObject ? given.userId : given
  if (typeof id === 'string' && id !== '' && id.length <= MAX_USER_LENGTH) return id
  if (typeof id === 'number' && Number.isSafeInteger(id)) return String(id)
  throw invalid(
    `${place} must be the id of a user, a text of 1 to ${MAX_USER_LENGTH} characters, or an object with it as ` +
      `"userId"; got ${show(id)}.`,
  )
}

/** Those before it may have joined already. */
const AGAIN = 'Nobody has left the audience. Send the whole list again.'

function invalid(message: string): Refusal {
  return new Refusal(400, 'invalid_members', `${message} ${AGAIN}`)
}
