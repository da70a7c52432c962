import { setTimeout as wait } from 'node:timers/promises'
import type { ShownMessage, ShownTrace } from '../../model/answers.js'
import type { AskAdmin } from '../admin-client.js'

/** In ms. */
const POLL_MS = 100

/**
 * Waits until every delivery of a message is settled.
 *
 * @param endsAt - When to stop waiting, on the clock of `performance.now`.
 * @returns the deliveries as they are then.
 */
export async function untilSettled(
  ask: AskAdmin,
  messageId: string,
  endsAt: number,
): Promise<ShownTrace[]> {
  for (;;) {
    const answer = await ask(`/messages?messageId=${encodeURIComponent(messageId)}`)
    const { deliveries } = answer as ShownMessage
    const isSettled = deliveries.every(({ dueAt }) => dueAt === null)
    if (isSettled || performance.now() >= endsAt) return deliveries
    await wait(POLL_MS)
  }
}
