import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { textOf } from '../http/json-body.js'
import { readBody } from '../http/read-body.js'
import { Refusal, show } from '../http/refusal.js'

/** In bytes. A JSON array has to be held in memory as a whole, unlike lines of JSON. */
const MAX_LIST_BYTES = 5_000_000

/** In characters. A line holds only one id. */
const MAX_LINE_LENGTH = 10_000

/** The longest id of a user, in characters. */
const MAX_USER_LENGTH = 1_000

/** Ids in one piece. */
const PIECE = 1_000

const LINES = /^application\/(?:x-)?(?:ndjson|jsonl|jsonlines|json-lines)\b/i

/**
 * Reads the number of members that a list says it has.
 *
 * @param given - The parameter `count` of the URL, if it has one.
 * @throws {@link Refusal} if it is not a number, or if it is missing and the list is not of lines, which may have an end
 * line.
 */
export function readMemberCount(given: unknown, contentType = ''): number | undefined {
  if (given === undefined && LINES.test(contentType)) return undefined
  if (given === undefined) throw noCount(false)
  if (typeof given === 'string' && /^\d{1,15}$/.test(given)) return Number(given)
  const message = `"count" must be the number of members in the list; got ${show(given)}.`
  throw new Refusal(400, 'invalid_parameter', `${message} ${AGAIN}`)
}

/**
 * Reads the user ids in the body of a request, piece by piece. The body is a JSON array, or any number of lines of JSON.
 * Each member is a string, a whole number, or an object with a `userId`. The last line may be `{"end":N}`, with the number
 * of members before it.
 *
 * A list whose producer stopped early looks like a shorter list. So it must say how many members it has.
 *
 * @param count - The number of members, from {@link readMemberCount}. If it is `undefined`, the list must have an end line.
 * @throws {@link Refusal} that names the invalid member and the reason, or both numbers if the list does not have as many
 * members as it says. Pieces before that have already been yielded.
 */
export async function* readMembers(
  request: IncomingMessage,
  contentType: string | undefined,
  count: number | undefined,
): AsyncGenerator<string[]> {
  const isLines = LINES.test(contentType ?? '')
  const all = isLines ? readLines(request) : readArray(request)
  let piece: string[] = []
  let place = 0
  let end: number | undefined
  for await (const member of all) {
    if (end !== undefined) throw invalid(`The line {"end":${end}} must be the last one.`)
    if (isLines) end = endOf(member)
    if (end !== undefined) continue
    place++
    piece.push(userOf(member, isLines ? `Line ${place}` : `Member ${place} of the list`))
    if (piece.length < PIECE) continue
    yield piece
    piece = []
  }
  if (piece.length > 0) yield piece
  if (count === undefined && end === undefined) throw noCount(true)
  for (const said of [count, end]) if (said !== undefined) checkCount(said, place)
}

/** The number in an end line; `undefined` if the line is none. */
function endOf(line: unknown): number | undefined {
  if (typeof line !== 'object' || line === null || 'userId' in line || !('end' in line)) {
    return undefined
  }
  const { end } = line
  if (typeof end === 'number' && Number.isSafeInteger(end) && end >= 0) return end
  throw invalid(
    `The "end" of the last line must be the number of members before it; got ${show(end)}.`,
  )
}

function checkCount(said: number, listed: number): void {
  if (said === listed) return
  const message = `The list must have ${said} members, as its count says; it has ${listed}. It may be incomplete.`
  throw new Refusal(400, 'wrong_member_count', `${message} ${AGAIN}`)
}

function noCount(isLines: boolean): Refusal {
  const type = isLines ? '' : ', sent with the content type application/x-ndjson'
  const message =
    'The list must say how many members it has, so that an incomplete list is noticed. Add ?count=N to the URL, or the ' +
    `last line {"end":N} to lines of JSON${type}. N is 0 if every user is to leave.`
  return new Refusal(400, 'no_member_count', `${message} ${AGAIN}`)
}

const AS_LINES =
  'To send lines of JSON with one user per line, give them the content type application/x-ndjson.'

async function* readArray(request: IncomingMessage): AsyncGenerator {
  const bytes = await readBody(request, MAX_LIST_BYTES)
  if (!isUtf8(bytes)) throw invalid('The body must be in UTF-8.')
  const list = parse(textOf(bytes), `The body must be a JSON array of user ids. ${AS_LINES}`)
  if (!Array.isArray(list)) {
    throw invalid(`The body must be a JSON array of user ids; got ${show(list)}. ${AS_LINES}`)
  }
  yield* list as unknown[]
}

async function* readLines(request: IncomingMessage): AsyncGenerator {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rest = ''
  let line = 0
  const checkLength = (text: string) => {
    if (text.length <= MAX_LINE_LENGTH) return
    throw invalid(
      `Line ${line + 1} is too long: the limit is ${MAX_LINE_LENGTH} characters per line.`,
    )
  }
  const take = (text: string) => {
    checkLength(text)
    line++
    const problem = `Line ${line} must be JSON, such as "u1" or {"userId":"u1"}.`
    return text.trim() === '' ? undefined : [parse(text, problem)]
  }
  try {
    for await (const chunk of decompressed(request)) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const text of lines) yield* take(text) ?? []
      checkLength(rest)
    }
    rest += decoder.decode() // which may have ended within a character
  } catch (error) {
    if (error instanceof Refusal) throw error
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') {
      throw invalid(`Line ${line + 1} or a later one is not in UTF-8.`)
    }
    if (code.startsWith('Z_')) {
      throw new Refusal(400, 'invalid_gzip', 'The body is not valid gzip, or it is incomplete.')
    }
    const message = `The connection ended before the end of the list. ${AGAIN}`
    throw new Refusal(400, 'body_incomplete', message)
  }
  yield* take(rest) ?? []
}

/**
 * The bytes of a body. If its reader stops early, as for an invalid member, the request is not destroyed: the rest of its body has to
 * be read, so that it is not taken for the next request of the connection.
 */
async function* decompressed(request: IncomingMessage): AsyncGenerator<Buffer> {
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity') {
    yield* request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
  } else if (encoding === 'gzip') {
    const gunzip = createGunzip()
    finished(request, { writable: false }, (error) => {
      if (error) gunzip.destroy(error)
    })
    request.pipe(gunzip)
    try {
      yield* gunzip as AsyncIterable<Buffer>
    } finally {
      request.unpipe(gunzip)
    }
  } else {
    const message = `The body must be uncompressed or gzip; its Content-Encoding is ${encoding}.`
    throw new Refusal(415, 'unsupported_encoding', message, { 'Accept-Encoding': 'gzip' })
  }
}

function parse(text: string, problem: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(problem)
  }
}

function userOf(given: unknown, place: string): string {
  const isObject = typeof given === 'object' && given !== null && 'userId' in given
  const id = isObject ? given.userId : given
  if (typeof id === 'string' && id !== '' && id.length <= MAX_USER_LENGTH) return id
  if (typeof id === 'number' && Number.isSafeInteger(id)) return String(id)
  throw invalid(
    `${place} must be the id of a user (a string of 1 to ${MAX_USER_LENGTH} characters, or a whole number), or an ` +
      `object with that id as "userId"; got ${show(id)}.`,
  )
}

/** Users before the invalid member may have joined already, so this text speaks only about removals. */
const AGAIN = 'No user has been removed from the audience. Send the whole list again.'

function invalid(message: string): Refusal {
  return new Refusal(400, 'invalid_members', `${message} ${AGAIN}`)
}
