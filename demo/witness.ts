import { randomUUID } from 'node:crypto'
import type {
  Analytics,
  Callback,
  DeliveredReport,
  GroupMessage,
  IdentifyMessage,
  PageMessage,
  TrackMessage,
} from 'hookline'
import type { Plan, Recorder } from './app.js'
import type { AppBooks } from './compare.js'

/**
 * Stands between the application and the client, and keeps books on what passes: each call gets an id and
 * a callback, and the two say what became of which message.
 */
export class Witness implements Recorder {
  readonly #analytics: Analytics<Plan>
  readonly #reports: readonly DeliveredReport[]
  readonly #called: string[] = []
  readonly #delivered: string[] = []

  /** @param reports - what the client's `onDelivered` got, and will get */
  constructor(analytics: Analytics<Plan>, reports: readonly DeliveredReport[]) {
    this.#analytics = analytics
    this.#reports = reports
  }

  identify(message: IdentifyMessage): void {
    this.#analytics.identify(...this.#note(message))
  }

  track<Event extends keyof Plan>(message: TrackMessage<Plan, Event>): void {
    this.#analytics.track<Event>(...this.#note(message))
  }

  page(message: PageMessage): void {
    this.#analytics.page(...this.#note(message))
  }

  group(message: GroupMessage): void {
    this.#analytics.group(...this.#note(message))
  }

  books(): AppBooks {
    return {
      called: this.#called,
      delivered: this.#delivered,
      stats: this.#analytics.stats(),
      reports: this.#reports,
    }
  }

  #note<Message>(message: Message): [Message & { messageId: string }, Callback] {
    const messageId = randomUUID()
    this.#called.push(messageId)
    return [
      { ...message, messageId },
      (error) => {
        if (!error) this.#delivered.push(messageId)
      },
    ]
  }
}
