import { printable } from '../../observe/printable.js'
import { paint } from '../command.js'
import type { createColumns } from '../table.js'
import { isRefused, type Arrival } from './receiver.js'

/** The widths of the columns of {@link arrivalLines} that a usual request needs. */
export const COLUMN_WIDTHS = [8, 26, 8, 12, 9, 11, 5]

const SIGNATURES = {
  ok: 'signature ok',
  missing: '✗ NO SIGNATURE',
  wrong: '✗ WRONG SIGNATURE',
  unchecked: 'signature not checked',
} as const

/**
 * Describes a request in one line, and in more lines what is wrong with it.
 *
 * @param columns - Aligns the line with those before it.
 */
export function arrivalLines(
  arrival: Arrival,
  columns: ReturnType<typeof createColumns>,
  colour: boolean,
): string[] {
  const { at, type, event, user, previousId, signature, messageId, attempt, bytes, status } =
    arrival
  const what = [type ?? '(no type)', event && JSON.stringify(event)].filter(Boolean).join(' ')
  const who = [previousId, user].filter((id) => id !== undefined).join(' → ')
  const cells = [
    at.slice(11, 19),
    what,
    who === '' ? '' : `user ${who}`,
    SIGNATURES[signature],
    attempt === undefined ? '' : `attempt ${attempt}`,
    `${bytes} bytes`,
    `→ ${status ?? 'none'}`,
    messageId ?? '',
  ]
  const isWrong = isRefused(signature)
  const problems = [arrival.reason, arrival.forwardError, arrival.unanswered].filter(
    (text) => text !== undefined,
  )
  const lines = [columns(cells.map(printable)), ...problems.map((text) => `    ${printable(text)}`)]
  if (!colour) return lines
  const style = isWrong ? 'red' : status !== undefined && status < 300 ? 'green' : 'yellow'
  const mark = SIGNATURES[signature]
  const loud = (line: string) => line.replace(mark, paint(['bgRed', 'white', 'bold'], mark))
  return lines.map((line) => paint(style, isWrong ? loud(line) : line))
}

/** Lays out a body as JSON with one field in each line. A body that is not JSON stays as it is. */
export function bodyLines(body: string): string[] {
  let text = body
  try {
    text = JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    // It is shown as it arrived.
  }
  return text.split('\n').map((line) => `    ${printable(line)}`)
}
