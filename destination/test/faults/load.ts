/** What became of the batches that were posted: each as the ids of its messages. */
export interface Load {
  /** Answered 200. */
  taken: string[][]
  /** Answered with another status. */
  refused: { ids: string[]; status: number; retryAfter: string | null }[]
  /** Not answered. They may have been taken or not. */
  unanswered: string[][]
}

export interface LoadOptions {
  url: string
  /** What the ids start with, which tells them from those of another load. */
  name: string
  /** @defaultValue 8 */
  connections?: number
  /** The size of what each message carries, in characters: a few or thousands. */
  textLength?: number
  /** Told of each answer. Posting ends when it says `true`, or else when nobody answers any more. */
  answered: (load: Load) => boolean
}

export const WRITE_KEY = 'hush-key'

/** The calls of a batch. */
const BATCH = 20

/** Posts batches over several connections at once, as fast as they are answered. */
export async function post(options: LoadOptions): Promise<Load> {
  const { url, name, connections = 8, textLength = 100, answered } = options
  const load: Load = { taken: [], refused: [], unanswered: [] }
  let posted = 0
  let isOver = false
  const connection = async () => {
    while (!isOver) {
      const from = BATCH * posted++
      const ids = Array.from({ length: BATCH }, (_, i) => `${name}.${from + i}.${textLength}`)
      const answer = await postBatch(url, ids)
      if (!answer) {
        load.unanswered.push(ids)
        return
      }
      const { status, headers } = answer
      if (status === 200) load.taken.push(ids)
      else load.refused.push({ ids, status, retryAfter: headers.get('retry-after') })
      if (answered(load)) isOver = true
    }
  }
  await Promise.all(Array.from({ length: connections }, connection))
  return load
}

async function postBatch(url: string, ids: string[]): Promise<Response | undefined> {
  try {
    const answer = await fetch(`${url}/v1/batch`, {
      method: 'POST',
      headers: { Authorization: `Basic ${btoa(`${WRITE_KEY}:`)}` },
      body: JSON.stringify({ batch: ids.map(callOf) }),
    })
    await answer.text()
    return answer
  } catch {
    return undefined
  }
}

/** All of a call follows from its id. */
function callOf(messageId: string) {
  const text = 'x'.repeat(Number(messageId.split('.').at(-1)))
  return {
    messageId,
    type: 'track',
    event: 'Order Completed',
    userId: `user of ${messageId}`,
    properties: { text, word: 'Größe 42 ✓ "\u2028"' },
    timestamp: '2026-01-02T03:04:05.678Z',
  }
}

/** What is to be sent for a call, to the byte. */
export function expectedBody(messageId: string): string {
  const { type, userId, timestamp, event, properties } = callOf(messageId)
  return JSON.stringify({ version: 1, type, userId, timestamp, event, properties })
}
