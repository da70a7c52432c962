import { randomUUID } from 'node:crypto'
import type { Analytics, Callback, MessageType } from 'hookline'
import type { Plan, Recorder } from './app.js'
import { askedFor, type AppBooks } from './compare.js'

/**
 * Stands between the application and the client, and keeps books of the calls. It gives each call an id and a callback, so
 * that the books have the result of each message.
 */
export function witness(
  analytics: Analytics<Plan>,
  { called, stored }: Pick<AppBooks, 'called' | 'stored'>,
): Recorder {
  function note<Message extends object>(
    type: MessageType,
    message: Message,
  ): [Message & { messageId: string }, Callback] {
    const messageId = randomUUID()
    called.set(messageId, { text: askedFor({ type, ...message }), atMs: Date.now() })
    const callback: Callback = (error) => {
      if (!error) stored.push(messageId)
    }
    return [{ ...message, messageId }, callback]
  }

  return {
    identify: (message) => {
      analytics.identify(...note('identify', message))
    },
    track: (message) => {
      analytics.track(...note('track', message))
    },
    page: (message) => {
      analytics.page(...note('page', message))
    },
    group: (message) => {
      analytics.group(...note('group', message))
    },
  }
}
