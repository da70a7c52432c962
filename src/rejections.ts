import { isPlainObject } from './describe.js'

/** What a server said of one message that it refused. */
export interface Rejection {
  readonly code: string
  readonly message: string
}

/**
 * Reads which messages of an accepted batch the server refused, by their place in the batch: from
 * `{ "rejected": [{ "index": 3, "code": "…", "message": "…" }] }`. A server that says nothing of the
 * kind refused none.
 */
export function readRejections(body: string, batchLength: number): Map<number, Rejection> {
  const rejections = new Map<number, Rejection>()
  if (!body.includes('"rejected"')) return rejections
  for (const item of rejectedList(body)) {
    if (!isPlainObject(item)) continue
    const { index, code, message } = item
    if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= batchLength)
      continue
    rejections.set(index as number, { code: String(code), message: String(message) })
  }
  return rejections
}

function rejectedList(body: string): unknown[] {
  try {
    const answer: unknown = JSON.parse(body)
    return isPlainObject(answer) && Array.isArray(answer['rejected']) ? answer['rejected'] : []
  } catch {
    return []
  }
}
