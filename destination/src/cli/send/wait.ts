import { setTimeout as wait } from 'node:timers/promises'
import type { ShownMessage } from '../../model/answers.js'
import { AdminError, type AskAdmin } from '../admin-client.js'
import { CommandError, EXIT } from '../command.js'

/** In ms. */
const POLL_MS = 100

/** Gets the deliveries of one message as they are now; none if it is not known. */
export type Look = () => Promise<ShownMessage>

/** Makes what looks for a message of the source with a write key. Another source may have a message with the same id. */
export function createLook(ask: AskAdmin, messageId: string, key: string): Look {
  const path = `/messages?messageId=${encodeURIComponent(messageId)}`
  const headers = { 'X-Write-Key': encodeURIComponent(key) }
  return async () => {
    try {
      return (await ask(path, undefined, { headers })) as ShownMessage
    } catch (error) {
      if (error instanceof AdminError && error.code === 'unknown_message')
        return { deliveries: [], now: 0 }
      throw error
    }
  }
}

/**
 * Waits until every delivery of an accepted message is settled. An error that may pass is no reason to end earlier.
 *
 * @param endsAt - When to stop waiting, on the clock of `performance.now`.
 * @returns the deliveries as they are then.
 * @throws CommandError if they could not be found out.
 */
export async function untilSettled(look: Look, endsAt: number): Promise<ShownMessage> {
  for (;;) {
    const isOver = performance.now() >= endsAt
    try {
      const found = await look()
      const { deliveries } = found
      const isSettled = deliveries.every(({ dueAt }) => dueAt === null)
      if (deliveries.length > 0 && (isSettled || isOver)) return found
      if (isOver) throw new CommandError(EXIT.unreachable, UNKNOWN)
    } catch (error) {
      const mayPass = error instanceof CommandError && error.exitCode === EXIT.unreachable
      if (isOver || !mayPass) throw error
    }
    await wait(POLL_MS)
  }
}

const UNKNOWN =
  'The destination that was asked does not know the message. Check that --url is the destination of this collector, and that the write key is still valid.'
