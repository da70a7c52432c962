// A request as a command for the shell. This file uses no browser API, so that tests can run it in Node.
import type { ShownRequest } from '../src/model/answers.js'

/** The value of a header that the destination does not show. */
const HIDDEN = '…'

/** A curl command that sends the same request. A hidden value is replaced by a name to fill in. */
export function toCurl({ url, headers }: ShownRequest, body: string): string {
  const lines = headers.map(([name, value]) => {
    const shown = value === HIDDEN ? `YOUR_${name.toUpperCase().replace(/[^A-Z\d]/g, '_')}` : value
    return `-H ${quoted(`${name}: ${shown}`)}`
  })
  // `--data-raw` sends a body that begins with @ as it is.
  return [`curl ${quoted(url)}`, ...lines, `--data-raw ${quoted(body)}`].join(' \\\n  ')
}

/** A word for a POSIX shell: nothing within single quotes has a meaning. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
