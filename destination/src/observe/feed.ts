import type { ServerResponse } from 'node:http'
import type { AttemptEvent, CallEvent } from '../model/answers.js'
import type { Call } from '../model/call.js'
import type { Observer } from './events.js'
import { withoutQuery } from '../model/shown-url.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Delivery, Next } from '../model/delivery.js'

/** The maximum number of listeners. Each listener costs its own writes. */
const MAX_LISTENERS = 20

/** The maximum number of events per second for one listener: more than a person can read. */
const EVENTS_PER_SECOND = 50

/** In bytes. A listener with more unsent data gets no events until it has read some, so that a slow one costs no memory. */
const MAX_UNSENT_BYTES = 262_144

/** In s. After this silence a comment is sent, so that proxies do not close the connection as idle. */
const SILENCE_S = 15

/** The maximum number of listeners of one group, such as a tenant, and of all groups. They take no room of the others. */
const MAX_IN_GROUP = 5
const MAX_IN_GROUPS = 100

/** The maximum number of listeners of all groups and of the operator. Each of them keeps a connection. */
export const MAX_STREAMS = MAX_LISTENERS + MAX_IN_GROUPS

/** What a listener may see, and for how long. */
export interface Viewpoint {
  /** Those with whom it shares room; `undefined` for the operator's. */
  group: string | undefined
  seesSource(name: string): boolean
  seesDestination(name: string): boolean
  /** The error of an attempt as the listener reads it. All listeners that read the same have the same function. */
  wordsOf: (error: string) => string
  /** Once it returns true, the listener is disconnected within a second. */
  isOver(): boolean
}

interface Listener {
  viewpoint: Viewpoint
  response: ServerResponse
  /** Events sent in the current second. */
  sent: number
  /** Events skipped since the listener was last told. */
  skipped: number
  /** Seconds without data. */
  silent: number
}

/**
 * Streams calls and attempts to its listeners as Server-Sent Events:
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 *
 * Without listeners, it computes nothing.
 */
export class Feed implements Observer {
  readonly #listeners = new Set<Listener>()
  #timer: NodeJS.Timeout | undefined

  /** @param group - That of the listener's viewpoint. */
  hasRoom(group: string | undefined): boolean {
    const all = Array.from(this.#listeners, ({ viewpoint }) => viewpoint.group)
    const inGroup = all.filter((one) => one === group).length
    if (group === undefined) return inGroup < MAX_LISTENERS
    const inGroups = all.filter((one) => one !== undefined).length
    return inGroup < MAX_IN_GROUP && inGroups < MAX_IN_GROUPS
  }

  /**
   * Sends events to a listener until what it may see is over.
   *
   * @returns what removes the listener, once it has disconnected.
   */
  add(response: ServerResponse, viewpoint: Viewpoint): () => void {
    const listener = { viewpoint, response, sent: 0, skipped: 0, silent: 0 }
    this.#listeners.add(listener)
    response.write(': hello\n\n')
    this.#timer ??= setInterval(() => {
      for (const each of this.#listeners) this.#beginSecond(each)
    }, 1_000).unref()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  /** Calls of a source were accepted. */
  callsAccepted(source: string, calls: readonly Call[]): void {
    if (this.#listeners.size === 0) return
    const at = Date.now()
    for (const { type, event, name, userId, anonymousId, messageId } of calls) {
      const user = userId ?? anonymousId ?? ''
      const seen = (by: Viewpoint) => by.seesSource(source)
      this.#tell('call', seen, (): CallEvent => ({
        at,
        source,
        type,
        event: event ?? name ?? '',
        user,
        messageId,
      }))
    }
  }

  /** All attempts of one claim have ended. */
  attempted(delivery: Delivery, outcomes: readonly EndpointOutcome[], next: Next): void {
    if (this.#listeners.size === 0) return
    const at = Date.now()
    const { id, messageId, source, destination, attempt } = delivery
    const seen = (by: Viewpoint) => by.seesDestination(destination)
    for (const { url, outcome } of outcomes) {
      this.#tell('attempt', seen, ({ wordsOf }): AttemptEvent => ({
        at,
        id,
        messageId,
        source,
        destination,
        endpoint: withoutQuery(url),
        attempt,
        code: outcome.code,
        status: outcome.status ?? null,
        ms: outcome.ms,
        next: next.state,
        nextInMs: 'delayMs' in next ? Math.round(next.delayMs) : null,
        error: outcome.error === undefined ? null : wordsOf(outcome.error),
      }))
    }
  }

  /** Ends the responses of all listeners. */
  close(): void {
    for (const { response } of this.#listeners) response.end()
  }

  #tell(
    event: string,
    isSeen: (by: Viewpoint) => boolean,
    dataFor: (by: Viewpoint) => object,
  ): void {
    /** By the words that listeners read. */
    const texts = new Map<Viewpoint['wordsOf'], string>()
    for (const listener of this.#listeners) {
      const { viewpoint, response, sent } = listener
      if (viewpoint.isOver() || !isSeen(viewpoint)) continue
      if (sent >= EVENTS_PER_SECOND || response.writableLength > MAX_UNSENT_BYTES) {
        listener.skipped++
        continue
      }
      listener.sent++
      const text = texts.get(viewpoint.wordsOf) ?? textOf(event, dataFor(viewpoint))
      texts.set(viewpoint.wordsOf, text)
      response.write(text)
    }
  }

  #beginSecond(listener: Listener): void {
    const { viewpoint, response, sent, skipped } = listener
    if (viewpoint.isOver()) {
      response.end()
      return
    }
    listener.silent = sent > 0 ? 0 : listener.silent + 1
    listener.sent = 0
    if (response.writableLength > MAX_UNSENT_BYTES) return
    if (skipped > 0) {
      listener.skipped = 0
      response.write(textOf('skipped', { count: skipped }))
    } else if (listener.silent >= SILENCE_S) {
      listener.silent = 0
      response.write(':\n\n')
    }
  }
}

function textOf(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
