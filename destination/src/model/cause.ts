/** The longest cause, in characters: about one line of a list. */
const MAX_LENGTH = 120

/** The fields in which endpoints explain a refusal, the most specific first. */
const FIELDS = ['message', 'error_description', 'detail', 'error', 'title', 'reason']

/**
 * Why an attempt failed, in one line. Attempts that failed for the same reason have the same cause: so the parts of an
 * answer that differ each time, such as ids and times, are replaced by `…`.
 *
 * @param error - The error in words.
 * @param response - The start of the answer's body.
 * @returns an empty string if neither says anything.
 */
export function causeOf(error: string | null, response: string): string {
  // Without a cause, a group of dead letters could not be told from all others of its status.
  const words = inOneLine(withoutIds(lineOf(response))) || inOneLine(error ?? '')
  return words.length > MAX_LENGTH ? `${words.slice(0, MAX_LENGTH - 1)}…` : words
}

const inOneLine = (text: string): string => text.replace(/\s+/g, ' ').trim()

/** The sentence of an answer that explains it: a field of its JSON, the title of its HTML, or else its first line. */
function lineOf(response: string): string {
  if (/^\s*[[{]/.test(response)) {
    for (const field of FIELDS) {
      // The answer may be cut off, so it can't be parsed as a whole.
      const found = new RegExp(`"${field}"\\s*:\\s*("(?:[^"\\\\]|\\\\.)*")`).exec(response)?.[1]
      const text = found === undefined ? '' : unquoted(found)
      if (text.trim() !== '') return text
    }
  }
  const title = /<(title|h1)[^>]*>([^<]+)</i.exec(response)?.[2]
  return title ?? response.trim().split('\n', 1)[0] ?? ''
}

function unquoted(json: string): string {
  try {
    return JSON.parse(json) as string
  } catch {
    return ''
  }
}

/** Times, UUIDs, long hexadecimal numbers, and numbers of 4 digits or more. */
const IDS =
  /\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\b[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}\b|\b(?=[a-f]*\d)[\da-f]{12,}\b|\d{4,}/gi

const withoutIds = (text: string): string => text.replace(IDS, '…')
