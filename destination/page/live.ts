// The stream of calls and attempts. It can carry any number of events a second, so the list changes once per frame and has
// a maximum length.
import { signal } from '@preact/signals'
import { API, request, token } from './api.js'
import type { AttemptEvent, CallEvent } from '../src/model/answers.js'
import { readEvents } from './sse.js'
import { time, toApiError } from './state.js'

export type LiveEvent = { key: number } & (
  | { kind: 'call'; call: CallEvent }
  | { kind: 'attempt'; attempt: AttemptEvent }
  /** A time in which the stream was not followed, so that nothing of it is shown. */
  | { kind: 'gap'; from: number; until: number }
)

/** The maximum length of the list: more than anybody scrolls through. */
const KEPT = 200
const RETRY_MS = 2_000
/** For so long the stream is followed in a hidden tab: somebody may trigger an event elsewhere, and come back. */
const HIDDEN_MS = 60_000

/** Newest first. */
export const live = signal<readonly LiveEvent[]>([])
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting')
/** Why the connection was lost. */
export const lostReason = signal('')
export const isPaused = signal(false)
/** How many events were not shown because there were too many, or because the list was paused. */
export const missed = signal(0)

let arrived: LiveEvent[] = []
let missedSince = 0
let frame = 0
let nextKey = 0
/** When the stream was last followed, by the destination's clock. */
let followedUntil: number | undefined

function show(): void {
  frame = 0
  missed.value += missedSince
  missedSince = 0
  if (arrived.length > 0) live.value = [...arrived.reverse(), ...live.value].slice(0, KEPT)
  arrived = []
}

function take(event: LiveEvent | undefined, count = 1): void {
  if (event === undefined || (isPaused.value && event.kind !== 'gap')) missedSince += count
  else if (arrived.push(event) > 2 * KEPT) arrived.splice(0, arrived.length - KEPT)
  frame ||= requestAnimationFrame(show)
}

const read = () =>
  readEvents(({ event, data }) => {
    const parsed: unknown = JSON.parse(data)
    if (event === 'call') take({ key: nextKey++, kind: 'call', call: parsed as CallEvent })
    else if (event === 'attempt') {
      take({ key: nextKey++, kind: 'attempt', attempt: parsed as AttemptEvent })
    } else if (event === 'skipped') take(undefined, (parsed as { count: number }).count)
  })

async function follow(signal: AbortSignal): Promise<void> {
  const response = await request(`${API}/stream`, { signal })
  connection.value = 'open'
  if (followedUntil !== undefined) {
    take({ key: nextKey++, kind: 'gap', from: followedUntil, until: time() })
  }
  if (response.body === null) return
  const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader()
  const push = read()
  try {
    for (;;) {
      const { value, done } = await pieces.read()
      if (done) return
      push(value)
    }
  } finally {
    followedUntil = time()
  }
}

async function keepFollowing(signal: AbortSignal): Promise<void> {
  const isOver = () => signal.aborted
  while (!isOver()) {
    const ended = await follow(signal).then(
      () => 'The destination ended the stream.',
      (error: unknown) => toApiError(error).message,
    )
    if (isOver()) return
    lostReason.value = ended
    connection.value = 'lost'
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
  }
}

/**
 * Follows the stream while the tab is visible, and for a minute after that: over HTTP/1.1, a browser has six connections to a host for
 * all its tabs, and each stream keeps one. When the admin token changes, it connects again with the new token.
 *
 * @returns a function that closes the connection.
 */
export function startLive(): () => void {
  let controller = new AbortController()
  let leaving: ReturnType<typeof setTimeout> | undefined
  const restart = () => {
    controller.abort()
    controller = new AbortController()
    connection.value = 'connecting'
    void keepFollowing(controller.signal)
  }
  const turn = () => {
    clearTimeout(leaving)
    if (document.hidden)
      leaving = setTimeout(() => {
        controller.abort()
      }, HIDDEN_MS)
    else if (controller.signal.aborted) restart()
  }
  document.addEventListener('visibilitychange', turn)
  const unsubscribe = token.subscribe(restart)
  turn()
  return () => {
    document.removeEventListener('visibilitychange', turn)
    clearTimeout(leaving)
    unsubscribe()
    controller.abort()
  }
}
